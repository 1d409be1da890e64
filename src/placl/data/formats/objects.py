"""Objects as annotation tools give them, one by one: named points and perhaps a box -> :class:`Instances`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from placl.data.formats.common import boxes_where_none_are
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED
from placl.data.skeleton import Skeleton

Box = tuple[float, float, float, float]  # xywh in pixels, edges between pixels


@dataclass
class Object:
    """One instance: the points that belong together, and the box around them if somebody has drawn one."""

    image: Path
    name: str  # the image's, and what else an id needs before its number
    kind: str = ""
    box: Box | None = None
    points: dict[str, tuple[float, float, int]] = field(default_factory=dict)  # x, y (pixel centres), visibility


def holds(box: Box, x: float, y: float) -> bool:
    """Whether a keypoint, with pixel centres at integers, is in a box or on its border."""
    return box[0] <= x + 0.5 <= box[0] + box[2] and box[1] <= y + 0.5 <= box[1] + box[3]


def upright(corners: np.ndarray) -> Box:
    """xywh around (4, 2) corners, which may be turned."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    return float(low[0]), float(low[1]), float(high[0] - low[0]), float(high[1] - low[1])


def instances_of(path: Path, objects: list[Object], skeleton: Skeleton | None) -> Instances:
    """All objects of a source, numbered within what they are named after."""
    order = {name: k for k, name in enumerate(skeleton.keypoints if skeleton else ())}
    keypoints = np.zeros((len(objects), len(order), 2), np.float32)
    visibility = np.full(keypoints.shape[:2], UNLABELLED, np.uint8)
    for i, found in enumerate(objects):
        for name, (x, y, visible) in found.points.items():
            keypoints[i, order[name]], visibility[i, order[name]] = (x, y), visible
    images = tuple(dict.fromkeys(found.image for found in objects))
    position = {image: i for i, image in enumerate(images)}
    index = np.array([position[found.image] for found in objects], np.int64)
    boxes, _, drawn = boxes_where_none_are(index, keypoints, visibility)
    for i, found in enumerate(objects):
        if found.box is not None:
            boxes[i], drawn[i] = found.box, False
    kinds = tuple(found.kind for found in objects)
    return Instances(
        skeleton=skeleton,
        images=images,
        image_index=index,
        boxes=boxes,
        keypoints=keypoints,
        visibility=visibility,
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        ids=tuple(_numbered(found.name for found in objects)),
        sources=(str(path),) * len(images),
        classes=kinds if any(kinds) else (),
        drawn=drawn,
    )


def _numbered(names: Iterable[str]) -> list[str]:
    count: dict[str, int] = {}
    ids = []
    for name in names:
        count[name] = count.get(name, 0) + 1
        ids.append(f"{name}{count[name]}")
    return ids
