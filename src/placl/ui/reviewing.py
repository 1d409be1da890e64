"""Pseudo-labels in front of a person: look, move, accept or reject. Every change is kept at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal

import cv2
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from placl.data.corrections import Correction, Corrections, Verdict
from placl.data.crops import cut_out
from placl.data.images import UnreadableImageError
from placl.data.instances import Instances
from placl.data.load import read_instances
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.report.page import asset, document
from placl.suggesting import OnProgress, Opinions, opinions_of, ranked
from placl.ui.server import Answer, Site

FILE = "corrections.jsonl"  # in a run
SIDE = 640  # pixels a side of the pictures
FARTHEST = 1e7  # image pixels that a keypoint may lie from the corner
Place = Annotated[float, Field(ge=-FARTHEST, le=FARTHEST, allow_inf_nan=False)]


class Save(BaseModel):
    """What the page sends."""

    model_config = ConfigDict(extra="forbid")
    id: str
    verdict: Verdict
    keypoints: list[tuple[Place, Place]]
    visibility: list[Literal[0, 1, 2]]
    reviewer: Annotated[str, Field(max_length=40)]
    seen: int  # the number of the save that the page knew of; 0: none


@dataclass(frozen=True)
class Item:
    """An instance to look at: where it is, and what the last network says of it."""

    id: str
    image: Path
    box: tuple[float, float, float, float] | None
    to_image: tuple[float, float, float]  # of the picture: image = scale * pixel + (x, y)
    keypoints: np.ndarray  # (K, 2) image pixels
    confidence: np.ndarray  # (K,)


def review_site(run: Path, count: int, on_progress: OnProgress | None = None) -> Site:
    """Instances that were reviewed before, and the ``count`` that should be next."""
    opinions = opinions_of(run, on_progress=on_progress)
    instances, _, _ = read_instances(opinions.config.data)
    corrections = Corrections(run / FILE, opinions.pool.skeleton)
    before = [id_ for id_ in corrections.latest if id_ in opinions.pool.ids]
    new = [one.id for one in ranked(opinions, count, besides=corrections.latest)]
    return site_of(run, items_of(opinions, instances, [*before, *new]), corrections)


def items_of(opinions: Opinions, instances: Instances, ids: Sequence[str]) -> list[Item]:
    pool, last = opinions.pool, opinions.last
    row_of = {id_: row for row, id_ in enumerate(pool.ids)}
    known = {id_: row for row, id_ in enumerate(instances.ids)}
    places = pool.in_image(last.keypoints)
    ratio = pool.crop_size / SIDE  # pixels of the crop per pixel of the picture
    items = []
    for id_ in ids:
        row, own = row_of[id_], known[id_]
        scale, x, y = pool.to_image[row].tolist()
        corner = scale * (ratio - 1) / 2  # centres of pixels are at integers in both
        box = instances.boxes[own].tolist()
        items.append(
            Item(
                id=id_,
                image=instances.images[instances.image_index[own]],
                box=None if np.isnan(box).any() else tuple(box),
                to_image=(scale * ratio, x + corner, y + corner),
                keypoints=places[row],
                confidence=last.confidence[row],
            )
        )
    return items


def site_of(run: Path, items: Sequence[Item], corrections: Corrections) -> Site:
    known = {item.id: item for item in items}
    lock = Lock()  # answers are given in threads

    def verdicts() -> Answer:
        with lock:
            corrections.refresh()
            return Answer(json.dumps([_told(one) for id_, one in corrections.latest.items() if id_ in known]))

    def save(content: Any) -> Answer:
        new = _correction(content, known)
        with lock:
            kept, old = corrections.save(new)
        # A save that the page did not know of was somebody else's, and is replaced.
        replaced = old is not None and old.revision != content["seen"] and old.reviewer != new.reviewer
        return Answer(json.dumps(_told(kept) | {"replaced": replaced}))

    def whole() -> Answer:
        return Answer(review_page(run, items, corrections), "text/html")

    pictures = {f"picture/{n}.jpg": partial(picture, item) for n, item in enumerate(items)}
    return Site(get={"": whole, "verdicts.json": verdicts, **pictures}, post={"save": save})


def review_page(run: Path, items: Sequence[Item], corrections: Corrections) -> str:
    skeleton = corrections.skeleton
    content = {
        "run": run.resolve().name,
        "file": str(corrections.path),
        "side": SIDE,
        "keypoints": skeleton.keypoints,
        "edges": skeleton.edges,
        "sides": sides(skeleton),
        "items": [_shown(n, item) for n, item in enumerate(items)],
        "verdicts": [_told(one) for one in corrections.latest.values()],
    }
    style, script = (asset(name, "placl.ui") for name in ("review.css", "review.js"))
    return document(f"review of {content['run']}", style, script, content, "img-src 'self'; connect-src 'self'")


def sides(skeleton: Skeleton) -> list[str]:
    """(K,) "left", "right" or "middle": the first of a pair is its left one, as names have it."""
    found = ["middle"] * len(skeleton)
    for a, b in skeleton.flip_pairs:
        first, second = (b, a) if "right" in skeleton.keypoints[a].lower() else (a, b)
        found[first], found[second] = "left", "right"
    return found


def picture(item: Item) -> Answer:
    try:
        crop = cut_out(item.image, np.array([item.to_image]), view=SIDE, context=1.0, size=SIDE)[0][0]
    except UnreadableImageError as error:
        raise InputError(f"{item.image}: cannot be read ({error}).") from error
    done, data = cv2.imencode(".jpg", cv2.cvtColor(crop, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 92])
    assert done
    return Answer(data.tobytes(), "image/jpeg")


def _shown(number: int, item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "picture": f"picture/{number}.jpg",
        "map": item.to_image,
        "keypoints": np.round(item.keypoints, 2).tolist(),
        "confidence": np.round(item.confidence, 3).tolist(),
    }


def _told(one: Correction) -> dict[str, Any]:
    names = ("id", "verdict", "keypoints", "visibility", "reviewer", "revision")
    return {name: getattr(one, name) for name in names}


def _correction(content: Any, known: dict[str, Item]) -> Correction:
    try:
        sent = Save.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"cannot be saved: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from error
    if sent.id not in known:
        raise InputError(f'cannot be saved: "{sent.id}" is not under review.')
    if len(sent.keypoints) != len(sent.visibility):
        raise InputError("cannot be saved: as many keypoints as visibilities are needed.")
    if sent.verdict == "accepted" and not any(sent.visibility):
        raise InputError("an instance without a keypoint is no label: reject it.")
    item = known[sent.id]
    return Correction(
        id=sent.id,
        verdict=sent.verdict,
        keypoints=tuple(sent.keypoints),
        visibility=tuple(sent.visibility),
        image=str(item.image),
        box=item.box,
        reviewer=sent.reviewer,
    )
