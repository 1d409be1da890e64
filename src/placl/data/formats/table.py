"""A plain csv: a row an instance, with its image, id, class, split and box, then NAME_x, NAME_y, NAME_v of keypoints.

Only "image" has to be there: a table from elsewhere may leave out what it does not know. Empty cells are the same.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.coco_writing import relative_name
from placl.data.formats.common import Leads, boxes_where_none_are, find_image
from placl.data.formats.deeplabcut_instances import tidy
from placl.data.formats.deeplabcut_table import number_in, read_rows
from placl.data.formats.format import Format, Found, Options
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError
from placl.files import write_csv

BOX = ("x", "y", "width", "height")
FIXED = ("image", "id", "class", "split", *BOX, "area", "drawn", "head_length")
BEYOND = 1e30  # float32 holds it
PARTS = ("_x", "_y", "_v")
Rows = list[tuple[int, list[str]]]  # number of the line, cells


def read_table(path: Path, options: Options) -> Found:
    (_, header), *rows = read_rows(path)
    header = [cell.strip() for cell in header]
    names = _keypoint_names(path, header)
    for line, cells in rows:
        if len(cells) != len(header):
            raise InputError(f"{path}: line {line} has {len(cells)} cells, the first has {len(header)}. Fix the file.")
    if not rows:
        raise InputError(f"{path}: has no rows below its header. Pass a csv file with instances.")
    keypoints, visibility = _keypoints(path, header, rows, names)
    images, image_index = _images(path, options, _text(header, rows, "image"), rows, visibility)
    boxes, area, drawn = _boxes(path, header, rows, image_index, keypoints, visibility)
    head_length = _numbers(path, header, rows, ["head_length"])[:, 0] if "head_length" in header else None
    classes = _text(header, rows, "class")
    instances = Instances(
        skeleton=_skeleton(path, names, options.keypoints),
        images=images,
        image_index=image_index,
        boxes=boxes,
        keypoints=keypoints,
        visibility=visibility,
        area=area,
        ids=_ids(path, header, rows),
        head_length=None if head_length is None else head_length.astype(np.float32),
        sources=(str(path),) * len(images),
        classes=tuple(classes) if any(classes) else (),
        splits=_splits(path, header, rows, image_index, len(images)),
        drawn=drawn,
    )
    return Found(instances)


def _keypoint_names(path: Path, header: list[str]) -> tuple[str, ...]:
    """The keypoints that the header names. Every column is known, and there once."""
    rest = [cell for cell in header if cell not in FIXED]
    names = tuple(cell[:-2] for cell in rest if cell.endswith("_x"))
    known = {name + part for name in names for part in PARTS}
    for cell in header:
        if header.count(cell) > 1:
            raise InputError(f'{path}: has two columns "{cell}". Keep one.')
        if cell not in FIXED and cell not in known:
            raise InputError(
                f'{path}: column "{cell}" is not known. Columns are {", ".join(FIXED)} and NAME_x, _y, _v.'
            )
    needed = ["image", *(name + "_y" for name in names), *(BOX if set(BOX) & set(header) else ())]
    for cell in needed:
        if cell not in header:
            raise InputError(f'{path}: column "{cell}" is missing. Add it.')
    return names


def _skeleton(path: Path, names: tuple[str, ...], given: tuple[str, ...] | None) -> Skeleton | None:
    if given is not None and len(given) != len(names) and names:
        raise InputError(f"{path}: has {len(names)} keypoints, --keypoints names {len(given)}. Name each of them.")
    if not names:
        return None
    try:
        return Skeleton(given or names, (), flip_pairs_by_name(given or names))
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from error


def _text(header: list[str], rows: Rows, column: str) -> list[str]:
    if column not in header:
        return [""] * len(rows)
    place = header.index(column)
    return [cells[place] if column == "id" else cells[place].strip() for _, cells in rows]


def _numbers(path: Path, header: list[str], rows: Rows, columns: Sequence[str]) -> np.ndarray:
    """(N, C) float64 of the columns, NaN where cells are empty."""
    places = [header.index(column) for column in columns]
    try:
        flat = [float(cells[i]) if cells[i] else np.nan for _, cells in rows for i in places]
    except ValueError:
        flat = [number_in(path, line, cells[0], cells[i]) for line, cells in rows for i in places]
    values = np.array(flat, np.float64).reshape(len(rows), len(columns))
    for row, column in np.argwhere(np.abs(values) > BEYOND):
        where = f'{path}: line {rows[row][0]}: "{columns[column]}"'
        raise InputError(f"{where} is not finite or beyond every image. Fix the cell or empty it.")
    return values


def _keypoints(path: Path, header: list[str], rows: Rows, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(N, K, 2) float32 and (N, K) uint8. Without a NAME_v, what has coordinates is visible."""
    n, k = len(rows), len(names)
    given = _numbers(path, header, rows, [name + part for name in names for part in PARTS[:2]]).reshape(n, k, 2)
    missing = np.isnan(given)
    points = np.where(missing, 0, given).astype(np.float32)
    visibility = np.where(missing.any(axis=2), UNLABELLED, VISIBLE).astype(np.float64)
    for j in (j for j, name in enumerate(names) if name + "_v" in header):
        told = _numbers(path, header, rows, [names[j] + "_v"])[:, 0]
        visibility[:, j] = np.where(np.isnan(told), visibility[:, j], told)
    for row, j in np.argwhere(~np.isin(visibility, range(VISIBLE + 1))):
        where = f'{path}: line {rows[row][0]}: keypoint "{names[j]}"'
        raise InputError(f"{where} has visibility {visibility[row, j]:g}, expected 0, 1 or 2.")
    half = (missing[..., 0] != missing[..., 1]) | (missing.any(axis=2) & (visibility > UNLABELLED))
    for row, j in np.argwhere(half):
        where = f'{path}: line {rows[row][0]}: keypoint "{names[j]}"'
        raise InputError(f"{where} lacks a coordinate. Fill in x and y, or empty both.")
    points[visibility == UNLABELLED] = 0
    return points, visibility.astype(np.uint8)


def _images(
    path: Path, options: Options, names: list[str], rows: Rows, visibility: np.ndarray
) -> tuple[tuple[Path, ...], np.ndarray]:
    """The image files, and (N,) which of them each row is on. Only labelled images have to exist already."""
    roots = [path.parent] if options.images is None else [options.images, path.parent]
    labelled = np.asarray((visibility > UNLABELLED).any(axis=1))
    found: dict[str, Path | None] = {}
    files: dict[str, Path] = {}
    leads = Leads()
    for name, (line, _), needed in zip(names, rows, labelled, strict=True):
        if not name:
            raise InputError(f"{path}: line {line} names no image. Fill in the cell.")
        if name not in found:
            found[name] = file = find_image(roots, name)
            files[name] = tidy(roots[0] / name if file is None else file)
            leads.add(files[name], name, f"{path}: line {line}")
        if found[name] is None and needed:
            raise InputError(f'{path}: line {line}: image "{name}" does not exist under {roots[0]}. Pass --images DIR.')
    number = {file: i for i, file in enumerate(dict.fromkeys(files.values()))}
    return tuple(number), np.array([number[files[name]] for name in names], np.int64)


def _boxes(
    path: Path, header: list[str], rows: Rows, image_index: np.ndarray, keypoints: np.ndarray, visibility: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Boxes, areas and which are drawn; without any box columns, as for every format that has no boxes."""
    if "x" not in header:
        return boxes_where_none_are(image_index, keypoints, visibility)
    boxes = _numbers(path, header, rows, BOX)
    missing = np.isnan(boxes)
    wrong = (missing.any(axis=1) & ~missing.all(axis=1)) | (boxes[:, 2:] <= 0).any(axis=1)
    for row in np.flatnonzero(wrong):
        raise InputError(f"{path}: line {rows[row][0]}: its box is not whole or has no size. Fill in {', '.join(BOX)}.")
    area = boxes[:, 2] * boxes[:, 3]
    if "area" in header:
        told = _numbers(path, header, rows, ["area"])[:, 0]
        area = np.where(np.isnan(told), area, told)
    for row in np.flatnonzero(area < 0):
        raise InputError(f"{path}: line {rows[row][0]}: its area {area[row]:g} is negative. Fix the cell or empty it.")
    drawn = _numbers(path, header, rows, ["drawn"])[:, 0] == 1 if "drawn" in header else None
    return boxes, area.astype(np.float32), drawn


def _ids(path: Path, header: list[str], rows: Rows) -> tuple[str, ...]:
    """Those of the table; without, the image's name and, behind a #, the number of the row."""
    names, given = _text(header, rows, "image"), _text(header, rows, "id")
    ids = [own or f"{name}#{i}" for i, (own, name) in enumerate(zip(given, names, strict=True), start=1)]
    seen: set[str] = set()
    for (line, _), own in zip(rows, ids, strict=True):
        if own in seen:
            raise InputError(f'{path}: line {line}: id "{own}" occurs twice. Ids must be unique.')
        seen.add(own)
    return tuple(ids)


def _splits(path: Path, header: list[str], rows: Rows, image_index: np.ndarray, count: int) -> tuple[str, ...]:
    splits: dict[int, str] = {}
    for (line, _), image, split in zip(rows, image_index.tolist(), _text(header, rows, "split"), strict=True):
        if splits.setdefault(image, split) != split:
            raise InputError(
                f'{path}: line {line}: its image is in split "{splits[image]}" above and "{split}" here. Choose one.'
            )
    return tuple(splits[i] for i in range(count)) if any(splits.values()) else ()


def _claims(path: Path) -> bool:
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header = [cell.strip() for cell in next(csv.reader(islice(file, 1)), [])]
        names = _keypoint_names(path, header)
    except (OSError, UnicodeDecodeError, csv.Error, InputError):
        return False
    return bool(names) or {"id", *BOX} <= set(header)


def write_table(instances: Instances, path: Path) -> list[Path]:
    """``path`` is the csv, or a folder for an annotations.csv. Edges, flip pairs and sigmas are not carried.

    Empty cells stand for the box of a whole image and for keypoints that are not labelled.
    """
    file = path if path.suffix.lower() == ".csv" else path / "annotations.csv"
    names = [relative_name(image, file.parent) for image in instances.images]
    keypoints = () if instances.skeleton is None else instances.skeleton.keypoints
    columns: dict[str, Sequence[Any]] = {
        "image": [names[i] for i in instances.image_index],
        "id": instances.ids,
        "class": instances.classes or [""] * len(instances),
        "split": [instances.splits[i] if instances.splits else "" for i in instances.image_index],
        **{column: _cells(instances.boxes[:, j]) for j, column in enumerate(BOX)},
        "area": _cells(instances.area),
    }
    if instances.drawn is not None:
        columns["drawn"] = instances.drawn.astype(int).tolist()
    if instances.head_length is not None:
        columns["head_length"] = _cells(instances.head_length)
    known = instances.visibility > UNLABELLED
    for j, name in enumerate(keypoints):
        points = np.where(known[:, j, None], instances.keypoints[:, j], np.float32(np.nan))
        columns[name + "_x"], columns[name + "_y"] = _cells(points[:, 0]), _cells(points[:, 1])
        columns[name + "_v"] = instances.visibility[:, j].tolist()
    write_csv(file, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    return [file]


def _cells(values: np.ndarray) -> list[str]:
    """The shortest text that reads back the same; empty for NaN."""
    text: list[str] = np.where(np.isnan(values), "", values.astype(str)).tolist()
    return text


FORMAT = Format("csv", "plain csv", _claims, read_table, write_table)
