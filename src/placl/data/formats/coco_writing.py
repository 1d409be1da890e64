"""Instances -> COCO keypoints json, with what goes beyond COCO under keys that other readers pass over."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.crops import whole_where_nan
from placl.data.images import image_size
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED
from placl.files import write_atomic


def write_coco(instances: Instances, path: Path) -> list[Path]:
    """``path`` is the json, or a folder for an annotations.json. Image names are relative to it.

    Beyond COCO: ``flip_pairs`` (0-based) and ``sigmas`` of a category, ``split`` of an image, ``head_length`` of an
    annotation (PCKh), ``bbox_drawn`` where a box was drawn around the keypoints. The box of a whole image is written as
    such.
    """
    file = path if path.suffix.lower() == ".json" else path / "annotations.json"
    sizes = np.array([image_size(image) for image in instances.images]).reshape(-1, 2)  # (M, 2) width, height
    names = tuple(dict.fromkeys(instances.classes)) or ("object",)
    content = {
        "images": _images(instances, file.parent, sizes),
        "annotations": _annotations(instances, sizes, names),
        "categories": [_category(instances, number, name) for number, name in enumerate(names, start=1)],
    }
    write_atomic(file, json.dumps(content))
    return [file]


def _images(instances: Instances, folder: Path, sizes: np.ndarray) -> list[dict[str, Any]]:
    records = []
    for number, (image, (width, height)) in enumerate(zip(instances.images, sizes.tolist(), strict=True), start=1):
        record = {"id": number, "file_name": relative_name(image, folder), "width": width, "height": height}
        if instances.splits and instances.splits[number - 1]:
            record["split"] = instances.splits[number - 1]
        records.append(record)
    return records


def relative_name(image: Path, folder: Path) -> str:
    """The way from the folder to the image, with forward slashes; its full path if it is on another drive."""
    try:
        return Path(os.path.relpath(image.absolute(), folder.absolute())).as_posix()
    except ValueError:
        return image.absolute().as_posix()


def _annotations(instances: Instances, sizes: np.ndarray, names: tuple[str, ...]) -> list[dict[str, Any]]:
    boxes = whole_where_nan(instances.boxes, sizes[instances.image_index])
    area = np.where(np.isnan(instances.area), boxes[:, 2] * boxes[:, 3], instances.area)
    labels = np.concatenate([instances.keypoints, instances.visibility[..., None]], axis=2).reshape(len(instances), -1)
    number_of = {name: number for number, name in enumerate(names, start=1)}
    ids = _numbers(instances.ids)
    records = []
    for i in range(len(instances)):
        labelled = int((instances.visibility[i] > UNLABELLED).sum())
        record: dict[str, Any] = {
            "id": ids[i],
            "image_id": int(instances.image_index[i]) + 1,
            "category_id": number_of[instances.classes[i]] if instances.classes else 1,
            "iscrowd": 0,
            "bbox": boxes[i].tolist(),
            "area": float(area[i]),
            "num_keypoints": labelled,
            "keypoints": [int(v) if v == int(v) else v for v in labels[i].tolist()],
        }
        if instances.drawn is not None and instances.drawn[i]:
            record["bbox_drawn"] = True
        if instances.head_length is not None and np.isfinite(instances.head_length[i]):
            record["head_length"] = float(instances.head_length[i])
        records.append(record)
    return records


def _numbers(ids: tuple[str, ...]) -> list[int]:
    """The annotation numbers that ids end in, as in ``bird.jpg#17``, or a count where they are not all different."""
    ends = [identity.rpartition("#")[2] for identity in ids]
    if all(end.isascii() and end.isdigit() for end in ends) and len(set(map(int, ends))) == len(ends):
        return list(map(int, ends))
    return list(range(1, len(ids) + 1))


def _category(instances: Instances, number: int, name: str) -> dict[str, Any]:
    skeleton = instances.skeleton
    if skeleton is None:
        return {"id": number, "name": name}
    return {
        "id": number,
        "name": name,
        "keypoints": list(skeleton.keypoints),
        "skeleton": [[a + 1, b + 1] for a, b in skeleton.edges],
        "flip_pairs": [list(pair) for pair in skeleton.flip_pairs],
        "sigmas": list(skeleton.sigmas),
    }
