"""A look at a dataset: some of its instances with their keypoints, as a contact sheet (PNG) and as a page (HTML)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw

from placl.data.crops import crop_maps, cut, whole_where_nan
from placl.data.images import UnreadableImageError, decode
from placl.data.instances import Instances
from placl.data.pool import OCCLUDED, VISIBLE
from placl.data.preview_page import Card, page
from placl.data.skeleton import Skeleton
from placl.files import write_atomic
from placl.overlay import LEFT, MIDDLE, SUFFIXES, Colour, dot_colours, draw, font, hue, keypoint_colours, write_picture
from placl.overlay import contact_sheet as sheet

TILE = 160  # side of an instance on the sheet, pixels
SHARP = 2  # the page's crops, and the sheet's before they are reduced, have so many times the side
CONTEXT = 1.25  # how much is shown around a box
NO_SKELETON = Skeleton(("none",))  # draws nothing, for plain images
GREY, DIM = (72, 76, 84), (205, 208, 214)

# Hues, in turns, that a side's keypoints are spread over: left is warm, right is cold, the middle is green.
WARM, COLD, GREEN = (-0.07, 0.14), (0.50, 0.74), (0.19, 0.44)


def contact_sheet(instances: Instances, out: Path, count: int = 24, seed: int = 0) -> list[Path]:
    """Write ``out`` (.png unless it says otherwise) and a page of the same name (.html) beside it."""
    picture = out if out.suffix.lower() in SUFFIXES else out.with_name(out.name.removesuffix(".html") + ".png")
    rows = choose(instances, count, seed)
    skeleton = instances.skeleton or NO_SKELETON
    colours = palette(skeleton)
    views = [view_of(instances, row) for row in rows.tolist()]
    tiles = [_tile(view, skeleton, colours) for view in views]
    captions = [instances.images[instances.image_index[row]].name for row in rows]
    legend = list(zip(colours, skeleton.keypoints, strict=True)) if instances.skeleton else []
    hollow = "occluded" if instances.skeleton else ""
    shown = f"{len(rows):,} of {len(instances):,} instances"
    write_picture(picture, sheet(tiles, captions, shown, side=TILE, legend=legend, hollow=hollow))
    cards = [_card(instances, row, view) for row, view in zip(rows.tolist(), views, strict=True)]
    html = picture.with_suffix(".html")
    write_atomic(html, page(shown, cards, instances.skeleton, colours, keypoint_colours(skeleton)))
    return [picture, html]


def choose(instances: Instances, count: int, seed: int) -> np.ndarray:
    """(at most count,) rows: labelled ones before others, and of each class as many as of any other, drawn by lot."""
    n, unlabelled = len(instances), ~instances.labelled
    lot = np.random.default_rng(seed).permutation(n)
    kinds = np.unique(instances.classes or np.zeros(n), return_inverse=True)[1]
    groups = 2 * kinds + unlabelled
    by_group = lot[np.argsort(groups[lot], kind="stable")]
    sizes = np.bincount(groups)
    turn = np.empty(n, np.int64)  # each is the how-many-eth of its group, as the lot has it
    turn[by_group] = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = lot[np.lexsort((turn[lot], unlabelled[lot]))[:count]]
    return np.asarray(chosen[np.lexsort((chosen, unlabelled[chosen]))])


def palette(skeleton: Skeleton) -> list[Colour]:
    """A colour for each keypoint: left warm, right cold, and the two of a pair in the same place of their ranges.

    Without pairs there are no sides to tell: the whole circle is used.
    """
    if not skeleton.flip_pairs:
        return dot_colours(skeleton)
    colours: list[Colour] = [MIDDLE] * len(skeleton)
    sides = keypoint_colours(skeleton)
    for number, pair in enumerate(skeleton.flip_pairs):
        for k in pair:
            low, high = WARM if sides[k] == LEFT else COLD
            colours[k] = hue(high + (low - high) * (number + 0.5) / len(skeleton.flip_pairs))
    middle = [k for k in range(len(skeleton)) if all(k not in pair for pair in skeleton.flip_pairs)]
    for number, k in enumerate(middle):
        colours[k] = hue(GREEN[0] + (GREEN[1] - GREEN[0]) * (number + 0.5) / len(middle))
    return colours


@dataclass(frozen=True)
class View:
    """The square around an instance, and the instance in its pixels."""

    crop: np.ndarray | None  # (S, S, 3) uint8 RGB; None: unreadable
    keypoints: np.ndarray  # (K, 2)
    visibility: np.ndarray  # (K,)
    box: np.ndarray | None  # (4,) xywh; None: the whole image
    reason: str = ""  # why it cannot be read


def view_of(instances: Instances, row: int, side: int = SHARP * TILE) -> View:
    visibility, points = instances.visibility[row], instances.keypoints[row].astype(np.float64)
    try:
        image = decode(instances.images[instances.image_index[row]])
    except UnreadableImageError as error:
        return View(None, points, np.zeros_like(visibility), None, str(error))
    whole = bool(np.isnan(instances.boxes[row, 0]))
    box = whole_where_nan(instances.boxes[row : row + 1], np.array([image.shape[1::-1]], np.float64))
    scale, *shift = crop_maps(box, view=side, context=1.0 if whole else CONTEXT, size=side)[0]
    crop = cut(image, np.array([scale, *shift]), side)
    corner = (box[0, :2] - 0.5 - shift) / scale + 0.5  # edges lie half a pixel before centres
    in_crop = None if whole else np.concatenate([corner, box[0, 2:] / scale])
    return View(crop, (points - shift) / scale, visibility, in_crop)


def _tile(view: View, skeleton: Skeleton, colours: list[Colour]) -> np.ndarray:
    """(TILE, TILE, 3): drawn large and reduced, which makes lines and dots smooth."""
    if view.crop is None:
        return _blank(view.reason)
    # Below the threshold of 0: not drawn. Below WEAK: hollow.
    trust = np.select([view.visibility == VISIBLE, view.visibility == OCCLUDED], [1.0, 0.0], -1.0)
    points = view.keypoints
    if not len(points):
        points, trust = np.zeros((1, 2)), np.full(1, -1.0)
    drawn = draw(
        view.crop,
        points[None],
        trust[None],
        skeleton,
        boxes=None if view.box is None else view.box[None],
        colours=colours,
        weight=2.0,
    )
    return np.asarray(cv2.resize(drawn, (TILE, TILE), interpolation=cv2.INTER_AREA))


def _blank(reason: str) -> np.ndarray:
    """A grey tile that says why there is no image."""
    tile = Image.new("RGB", (TILE, TILE), GREY)
    pen, words, lines = ImageDraw.Draw(tile), reason.split(), [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if font(13).getlength(longer) < TILE - 24 else [*lines, word]
    text = "\n".join(lines[:6])
    pen.multiline_text((TILE / 2, TILE / 2), text, fill=DIM, font=font(13), anchor="mm", align="center")
    return np.asarray(tile)


def _card(instances: Instances, row: int, view: View) -> Card:
    image = int(instances.image_index[row])
    return Card(
        name=instances.images[image].name,
        identity=instances.ids[row],
        kind=instances.classes[row] if instances.classes else "",
        split=instances.splits[image] if instances.splits else "",
        crop=view.crop,
        reason=view.reason,
        keypoints=view.keypoints,
        visibility=view.visibility,
        box=view.box,
    )
