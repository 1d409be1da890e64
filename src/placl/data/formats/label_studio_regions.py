"""The regions of a Label Studio annotation, rectangles and keypoints, as objects.

Coordinates are percentages of the image's width and height, measured from the image's corner: the centre of the first
pixel is at 50 / width.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.objects import Box, Object, holds, upright
from placl.data.images import image_size
from placl.data.pool import VISIBLE
from placl.errors import InputError

Record = dict[str, Any]
Size = tuple[int, int]  # width and height, pixels
LARGEST = 1e6  # per cent, or degrees; what is beyond is no place, and neither is NaN
SHAPES = ("keypointlabels", "rectanglelabels", "rectangle")


def objects_in(where: str, image: Path, name: str, results: list[Record]) -> list[Object]:
    """A rectangle each, with its keypoints. Keypoints that no rectangle is for are one instance."""
    # Of the file as it is, which may have been resized since it was labelled.
    size = _real_size(image) if results else None
    rectangles: dict[str, Object] = {}
    for i, region in enumerate(results):
        if region.get("type") in SHAPES[1:]:
            box = _box(where, region, size or _stated_size(region, image))
            label = region["value"].get("rectanglelabels")
            kind = str(label[0]) if isinstance(label, list) and label else ""
            rectangles[str(region.get("id", i))] = Object(image, name, kind, box)
    linked = _links(results)
    groups: dict[str, Object] = dict(rectangles)
    for region in results:
        if region.get("type") != "keypointlabels":
            continue
        value = region.get("value")
        names = value.get("keypointlabels") if isinstance(value, dict) else None
        if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
            raise InputError(f"{where}: a keypoint has not exactly one label. Fix it in Label Studio.")
        pixels = size or _stated_size(region, image)
        x, y = (number - 0.5 for number in _numbers(where, region, ("x", "y"), pixels))
        key = _owner(where, names[0], (x, y), rectangles, linked.get(str(region.get("id")), []), region)
        points = groups.setdefault(key, Object(image, name)).points
        if names[0] in points:
            raise InputError(
                f'{where}: keypoint "{names[0]}" occurs twice in an instance. Delete one, or tie each to its rectangle.'
            )
        points[names[0]] = (x, y, VISIBLE)
    return list(groups.values()) or [Object(image, name)]


def _links(results: list[Record]) -> dict[str, list[str]]:
    """What each region is tied to by a relation, whichever way the arrow goes."""
    links: dict[str, list[str]] = defaultdict(list)
    for relation in results:
        if relation.get("type") == "relation":
            ends = str(relation.get("from_id")), str(relation.get("to_id"))
            links[ends[0]].append(ends[1])
            links[ends[1]].append(ends[0])
    return links


def _owner(
    where: str,
    name: str,
    point: tuple[float, float],
    rectangles: dict[str, Object],
    linked: list[str],
    region: Record,
) -> str:
    """The rectangle of a keypoint: its parent, one that it is tied to, the only one, or the only one around it."""
    for candidate in (str(region.get("parentID")), *linked):
        if candidate in rectangles:
            return candidate
    if not rectangles:  # Label Studio's own YOLO backend then tells instances apart by their notes
        meta = region.get("meta")
        return json.dumps(meta["text"]) if isinstance(meta, dict) and "text" in meta else ""
    around = [key for key, found in rectangles.items() if found.box is not None and holds(found.box, *point)]
    if len(rectangles) == 1:
        around = list(rectangles)
    if len(around) != 1:
        raise InputError(
            f'{where}: keypoint "{name}" is inside {len(around)} rectangles. Tie it to its own with a relation.'
        )
    return around[0]


def _numbers(where: str, region: Record, keys: tuple[str, ...], size: Size) -> list[float]:
    """The given values of a region in pixels of the image, from its corner."""
    value = region.get("value")
    numbers: list[Any] = [value.get(key) if isinstance(value, dict) else None for key in keys]
    for key, number in zip(keys, numbers, strict=True):
        if type(number) not in (int, float) or not abs(number) < LARGEST:
            raise InputError(f'{where}: "{key}" of a {region.get("type")} is {json.dumps(number)}, not a number.')
    if region.get("image_rotation"):
        raise InputError(f"{where}: its image was turned in Label Studio. Turn the file itself instead.")
    width, height = size
    return [
        number / 100 * (height if key in ("y", "height") else width) for key, number in zip(keys, numbers, strict=True)
    ]


def _real_size(image: Path) -> Size | None:
    try:
        return image_size(image)
    except InputError:
        return None


def _stated_size(region: Record, image: Path) -> Size:
    """What the export says of an image that cannot be read, or the reason why it cannot."""
    width, height = (region.get(f"original_{side}") for side in ("width", "height"))
    if type(width) is type(height) is int and width > 0 and height > 0:
        return width, height
    return image_size(image)


def _box(where: str, region: Record, size: Size) -> Box:
    """xywh around a rectangle, which may be turned about its first corner."""
    x, y, width, height = _numbers(where, region, ("x", "y", "width", "height"), size)
    if width <= 0 or height <= 0:
        raise InputError(f"{where}: a rectangle has no size. Delete it in Label Studio.")
    rotation = region["value"].get("rotation") or 0
    if type(rotation) not in (int, float) or not abs(rotation) < LARGEST:
        raise InputError(f"{where}: a rectangle is turned by {json.dumps(rotation)}, not by a number of degrees.")
    if not rotation:
        return x, y, width, height
    angle = math.radians(rotation)
    across, down = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    return upright(
        np.array([x, y]) + np.array([across * 0, across * width, down * height, across * width + down * height])
    )
