"""YOLO pose, as Ultralytics reads it: a data.yaml, images/ and labels/ with one text file for each image.

A line of a label file is ``class cx cy w h x1 y1 v1 x2 y2 v2 ...``, divided by the image's width and height, measured
from the image's corner: the centre of the first pixel is at 0.5 / width.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placl.data.formats.coco_writing import relative_name
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.yolo_writing import write_yolo
from placl.data.formats.yolo_yaml import (
    TOLERANCE,
    classes_of,
    config_of,
    drawn_of,
    images_of,
    is_pose,
    shape_of,
    skeleton_of,
    yaml_in,
)
from placl.data.images import image_size
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, VISIBLE
from placl.errors import InputError

DECIMALS = 6  # of pixels: what dividing and multiplying by the image's size leaves is rounded away


def read_yolo(path: Path, options: Options) -> Found:
    """``path`` is the yaml or its folder. An image without a label file is an unlabelled instance, whole.

    One whose label file is empty shows nothing, as Ultralytics has it, and is left out.
    """
    file = yaml_in(path) if path.is_dir() else path
    if file is None:
        for damaged in sorted(path.glob("data.y*ml")):
            config_of(damaged)  # says what is wrong with it
        raise InputError(f"{path}: has no data.yaml with a kpt_shape. Pass the yaml of a YOLO pose dataset.")
    data = config_of(file)
    count, width = shape_of(file, data)
    skeleton, notes = skeleton_of(file, data, count, options)
    classes = classes_of(file, data)
    splits = images_of(file, data, options, notes)  # image -> split
    images = tuple(splits)
    rows, table, empty = _tables(images, count, width, len(classes))
    if len(empty) == len(images):
        raise InputError(f"{file}: the label files of all its images are empty. Label some, or delete the empty files.")
    if empty:
        notes.append(f"{file.name}: {len(empty)} images with an empty label file show nothing and are left out.")
    sizes = {image: image_size(images[image]) for image, _ in rows}
    alone = [image for image in range(len(images)) if image not in sizes and image not in empty]
    size = np.array([sizes[image] for image, _ in rows], np.float64).reshape(-1, 2)
    boxes, keypoints, visibility = _in_pixels(table, size, count, width)
    whole = np.full((len(alone), 4), np.nan)
    index = np.array([image for image, _ in rows] + alone, np.int64)
    order = np.argsort(index, kind="stable")
    names = [relative_name(image, file.parent) for image in images]
    ids = [f"{names[image]}#{number}" for image, number in rows] + [f"{names[image]}#1" for image in alone]
    kinds = [classes[int(kind)] for kind in table[:, 0]] + [""] * len(alone)
    boxes = np.concatenate([boxes, whole])[order]
    ids = [ids[i] for i in order]
    instances = Instances(
        skeleton=skeleton,
        images=images,
        image_index=index[order],
        boxes=boxes,
        keypoints=np.concatenate([keypoints, np.zeros((len(alone), count, 2), np.float32)])[order],
        visibility=np.concatenate([visibility, np.zeros((len(alone), count), np.uint8)])[order],
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        ids=tuple(ids),
        sources=(str(file),) * len(images),
        classes=tuple(kinds[i] for i in order),
        splits=tuple(splits.values()) if any(splits.values()) else (),
        drawn=drawn_of(file, data, ids, np.isnan(boxes).any(axis=1), notes),
    )
    return Found(instances.take(np.arange(len(ids))) if empty else instances, tuple(notes))


def _in_pixels(table: np.ndarray, sizes: np.ndarray, count: int, width: int) -> tuple[np.ndarray, ...]:
    """Boxes (L, 4), keypoints (L, K, 2) and visibility (L, K) of the lines; sizes (L, 2) are of their images."""
    centre, extent = table[:, 1:3] * sizes, np.maximum(table[:, 3:5] * sizes, 10**-DECIMALS)
    boxes = np.concatenate([centre - extent / 2, extent], axis=1).round(DECIMALS)
    boxes[(table[:, 1:5] == [0.5, 0.5, 1, 1]).all(axis=1)] = np.nan  # the whole image
    points = table[:, 5:].reshape(-1, count, width)
    if width == 3:
        visibility = points[..., 2].astype(np.uint8)
    else:  # Ultralytics takes what is negative for not labelled; tools that write two numbers put zeros there
        nothing = (points < 0).any(axis=2) | (points == 0).all(axis=2)
        visibility = np.where(nothing, UNLABELLED, VISIBLE).astype(np.uint8)
    keypoints = (points[..., :2] * sizes[:, None] - 0.5).round(DECIMALS)
    return boxes, np.where(visibility[..., None] > UNLABELLED, keypoints, 0).astype(np.float32), visibility


def _label_file(image: Path) -> Path:
    """As Ultralytics has it: the last images/ of the path becomes labels/; without one, beside the image."""
    parts = list(image.parts)
    for i in range(len(parts) - 2, -1, -1):
        if parts[i] == "images":
            parts[i] = "labels"
            break
    return Path(*parts).with_suffix(".txt")


def _tables(
    images: tuple[Path, ...], count: int, width: int, classes: int
) -> tuple[list[tuple[int, int]], np.ndarray, set[int]]:
    """(image, line number) of every line, its numbers (L, 5 + K * width) float64, and images whose file has no line."""
    rows: list[tuple[int, int]] = []
    tokens: list[list[str]] = []
    empty: set[int] = set()
    columns = 5 + count * width
    for i, image in enumerate(images):
        try:
            text = _label_file(image).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{_label_file(image)}: cannot be read ({error}).") from error
        if not text.strip():
            empty.add(i)
        for number, line in enumerate(text.splitlines(), start=1):
            if found := line.split():
                rows.append((i, number))
                tokens.append(found)
                if len(found) != columns:
                    raise InputError(
                        f"{_label_file(image)}: line {number} has {len(found)} numbers, kpt_shape [{count}, {width}] "
                        f"asks for {columns}. Fix the line or the yaml."
                    )
    try:
        table = np.array(tokens, np.float64).reshape(-1, columns)
    except ValueError:
        table = np.array([[_number(token) for token in line] for line in tokens])
    for row, problem in _problems(table, count, width, classes):
        raise InputError(f"{_label_file(images[rows[row][0]])}: line {rows[row][1]}: {problem}")
    return rows, table, empty


def _number(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return np.nan


def _problems(table: np.ndarray, count: int, width: int, classes: int) -> list[tuple[int, str]]:
    """The first line that is wrong in each way, and how."""
    points = table[:, 5:].reshape(-1, count, width)
    known = points[..., 2] > 0 if width == 3 else np.all(points >= 0, axis=2)  # (L, K)
    far = np.any((points[..., :2] > 1 + TOLERANCE) | (points[..., :2] < -TOLERANCE), axis=2)
    values = points[..., 2] if width == 3 else np.zeros(points.shape[:2])
    checks = {
        "has something that is not a finite number.": ~np.isfinite(table).all(axis=1),
        f"its class is not one of 0 to {classes - 1}, which the yaml names.": ~np.isin(table[:, 0], range(classes)),
        "its box has no size.": (table[:, 3:5] <= 0).any(axis=1),
        "a keypoint's visibility is not 0, 1 or 2.": ~np.isin(values, range(VISIBLE + 1)).all(axis=1),
        "a keypoint is outside the image. Divide pixels by its width and height.": np.any(far & known, axis=1),
    }
    return [(int(np.argmax(bad)), problem) for problem, bad in checks.items() if bad.any()]


def _claims(path: Path) -> bool:
    return yaml_in(path) is not None if path.is_dir() else is_pose(path)


FORMAT = Format("yolo", "YOLO pose (Ultralytics)", _claims, read_yolo, write_yolo, places_images=True)
