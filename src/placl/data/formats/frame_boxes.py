"""Boxes of a COCO file whose images are the frames of one video, by frame number, counted from 0.

The number of a frame is what its image has under "frame_index" or "frame_id", else the last number of its file name,
as in clip_000012.png or clip.mp4#000012.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from placl.data.formats.coco import given_boxes
from placl.data.formats.coco_records import Record, quoted, read_records
from placl.data.formats.folder import SUFFIXES
from placl.data.formats.frames import VIDEOS
from placl.errors import InputError

KEYS = ("frame_index", "frame_id")
LAST_NUMBER = re.compile(r"(\d{1,12})$", re.ASCII)


@dataclass(frozen=True)
class FrameBox:
    box: np.ndarray | None  # (4,) xywh; None: the whole frame
    image_id: int | str
    category_id: int | str


def read_frame_boxes(path: Path) -> dict[int, list[FrameBox]]:
    """The boxes of each frame. Where an annotation has none, or one drawn around keypoints, the whole frame, once."""
    images, annotations, _ = read_records(path, with_categories=False)
    given = [a for a in annotations if a.get("bbox") is not None and a.get("bbox_drawn") is not True]
    boxes = {a["id"]: box for a, box in zip(given, given_boxes(path, given), strict=True)}
    numbers = _numbers(path, images)
    found: dict[int, list[FrameBox]] = {}
    for annotation in annotations:
        box = boxes.get(annotation["id"])
        here = found.setdefault(numbers[annotation["image_id"]], [])
        if box is not None or all(other.box is not None for other in here):
            here.append(FrameBox(box, annotation["image_id"], annotation.get("category_id", 1)))
    return found


def _numbers(path: Path, images: dict[int | str, Record]) -> dict[int | str, int]:
    """The frame of each image; no frame is two images."""
    numbers = {key: _number(path, image) for key, image in images.items()}
    owner: dict[int, int | str] = {}
    for key, number in numbers.items():
        other = owner.setdefault(number, key)
        if other != key:
            raise InputError(
                f"{path}: images {quoted(other)} and {quoted(key)} are both frame {number}. "
                'Give each its own "frame_index", and the file the frames of one video.'
            )
    return numbers


def _number(path: Path, image: Record) -> int:
    for key in KEYS:
        if key in image:
            number = image[key]
            if type(number) is not int or number < 0:
                raise InputError(
                    f'{path}: image {quoted(image["id"])}: "{key}" is {quoted(number)}, not a number of a frame from 0.'
                )
            return number
    name = image["file_name"]
    if name.lower().endswith(SUFFIXES):
        name = name.rpartition(".")[0]
    last = None if name.lower().endswith(VIDEOS) else LAST_NUMBER.search(name)  # .mp4 is no frame 4
    if last is None:
        raise InputError(
            f"{path}: image {quoted(image['id'])}: {quoted(image['file_name'])} does not end with a frame's number. "
            'Give it a "frame_index", counted from 0.'
        )
    return int(last[1])
