"""Pseudo-labels in front of a person: look, move, accept or reject. Every change is kept at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from placl.data.corrections import Correction, Corrections, Place, Verdict, Visibility
from placl.data.crops import cut_out
from placl.data.images import UnreadableImageError, image_size
from placl.data.instances import Instances
from placl.data.load import read_instances
from placl.errors import InputError
from placl.report.page import asset, document
from placl.suggesting import OnProgress, Opinions, opinions_of, ranked
from placl.ui.server import Answer, Site

FILE = "corrections.jsonl"  # in a run
SIDE = 640  # pixels a side of the pictures
TOLD = ("id", "verdict", "keypoints", "visibility", "reviewer")  # of a correction, to the page


class Save(BaseModel):
    """What the page sends."""

    model_config = ConfigDict(extra="forbid")
    id: str
    verdict: Verdict
    keypoints: tuple[tuple[Place, Place], ...]
    visibility: tuple[Visibility, ...]
    reviewer: Annotated[str, Field(max_length=40)]
    seen: int  # how many saves of this instance the page knew of


@dataclass(frozen=True)
class Item:
    """An instance to look at: where it is, and what the last network says of it."""

    id: str
    image: Path
    box: tuple[float, float, float, float] | None  # None: the whole image
    to_image: tuple[float, float, float]  # of the picture: image = scale * pixel + (x, y)
    keypoints: np.ndarray  # (K, 2) image pixels
    confidence: np.ndarray  # (K,)
    size: tuple[int, int] | None  # width and height of the image; None: it cannot be read

    def inside(self, keypoints: np.ndarray) -> np.ndarray:
        """Brought to the image's edge where they lie outside: no label is there, and networks see padding."""
        return keypoints if self.size is None else np.clip(keypoints, 0, np.array(self.size) - 1)


def review_site(run: Path, count: int, on_progress: OnProgress | None = None) -> Site:
    """Instances that were reviewed before, and the ``count`` that should be next."""
    opinions = opinions_of(run, on_progress=on_progress)
    instances, _, _ = read_instances(opinions.config.data)
    corrections = Corrections(run / FILE, opinions.pool.skeleton)
    there = set(opinions.pool.ids)
    before = [id_ for id_ in corrections.latest if id_ in there]
    new = [one.id for one in ranked(opinions, count, besides=corrections.latest)]
    return site_of(run, items_of(opinions, instances, [*before, *new]), corrections)


def items_of(opinions: Opinions, instances: Instances, ids: Sequence[str]) -> list[Item]:
    pool, last = opinions.pool, opinions.each[-1]
    row_of = {id_: row for row, id_ in enumerate(pool.ids)}
    known = {id_: row for row, id_ in enumerate(instances.ids)}
    places = pool.in_image(last.keypoints)
    ratio = pool.view / SIDE  # pixels of the crop per pixel of the picture, which shows the network's field of view
    first = (ratio - 1) / 2 + (pool.crop_size - pool.view) / 2  # the picture's first pixel, in the crop
    items = []
    for id_ in ids:
        row, own = row_of[id_], known[id_]
        scale, x, y = pool.to_image[row].tolist()
        box = instances.boxes[own].tolist()
        image = instances.images[instances.image_index[own]]
        items.append(
            Item(
                id=id_,
                image=image,
                box=None if np.isnan(box).any() else tuple(box),
                to_image=(scale * ratio, x + scale * first, y + scale * first),
                keypoints=places[row],
                confidence=last.confidence[row],
                size=_size(image),
            )
        )
    return items


def _size(image: Path) -> tuple[int, int] | None:
    try:
        return image_size(image)
    except InputError:  # the page says so where the picture would be
        return None


def site_of(run: Path, items: Sequence[Item], corrections: Corrections) -> Site:
    known = {item.id: item for item in items}
    lock = Lock()  # answers are given in threads

    def told(id_: str) -> dict[str, Any]:
        one = corrections.latest[id_]
        return {name: getattr(one, name) for name in TOLD} | {"revision": corrections.revisions[id_]}

    def verdicts() -> list[dict[str, Any]]:
        with lock:
            corrections.refresh()
            return [told(id_) for id_ in corrections.latest if id_ in known]

    def save(content: Any) -> Answer:
        sent = _checked(content, known)
        with lock:
            old = corrections.save(_correction(sent, known[sent.id]))
            kept = told(sent.id)
        # A save that the page did not know of was somebody else's, and is replaced.
        replaced = old is not None and old.reviewer != sent.reviewer and sent.seen < kept["revision"] - 1
        return Answer(json.dumps(kept | {"replaced": replaced}))

    def whole() -> Answer:
        return Answer(review_page(run, items, corrections, verdicts()), "text/html")

    pictures = {f"picture/{n}.jpg": partial(picture, item) for n, item in enumerate(items)}
    news = {"verdicts.json": lambda: Answer(json.dumps(verdicts()))}
    return Site(get={"": whole, **news, **pictures}, post={"save": save})


def review_page(run: Path, items: Sequence[Item], corrections: Corrections, verdicts: list[dict[str, Any]]) -> str:
    name, skeleton = run.resolve().name, corrections.skeleton
    content = {
        "run": name,
        "file": str(corrections.path),
        "side": SIDE,
        "keypoints": skeleton.keypoints,
        "edges": skeleton.edges,
        "flip_pairs": skeleton.flip_pairs,
        "items": [_shown(number, item) for number, item in enumerate(items)],
        "verdicts": verdicts,
    }
    style, state, script = (asset(part, "placl.ui") for part in ("review.css", "review_state.js", "review.js"))
    return document(f"review of {name}", style, state + script, content, "img-src 'self' data:; connect-src 'self'")


def picture(item: Item) -> Answer:
    try:
        crop = cut_out(item.image, np.array([item.to_image]), view=SIDE, context=1.0, size=SIDE)[0][0]
    except UnreadableImageError as error:
        raise InputError(f"{item.image}: cannot be read ({error}).") from error
    done, data = cv2.imencode(".jpg", cv2.cvtColor(crop, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 92])
    assert done
    return Answer(data.tobytes(), "image/jpeg")


def _shown(number: int, item: Item) -> dict[str, Any]:
    scale, x, y = item.to_image
    return {
        "id": item.id,
        "image": str(item.image),
        "picture": f"picture/{number}.jpg",
        "map": (scale, x - scale / 2, y - scale / 2),  # pages have a pixel's corner where we have its centre
        "size": item.size,
        "keypoints": np.round(item.inside(item.keypoints), 2).tolist(),
        "confidence": np.round(item.confidence, 3).tolist(),
    }


def _checked(content: Any, known: dict[str, Item]) -> Save:
    try:
        sent = Save.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"cannot be saved: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from error
    if sent.id not in known:
        raise InputError(f'cannot be saved: "{sent.id}" is not under review.')
    if sent.verdict == "accepted" and not any(sent.visibility):
        raise InputError("an instance without a keypoint is no label: reject it.")
    return sent


def _correction(sent: Save, item: Item) -> Correction:
    places = item.inside(np.array(sent.keypoints).reshape(-1, 2)).tolist()
    said = {name: getattr(sent, name) for name in TOLD} | {"keypoints": tuple((x, y) for x, y in places)}
    return Correction(**said, image=str(item.image), box=item.box)
