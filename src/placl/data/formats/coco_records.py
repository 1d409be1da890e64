"""The records of a COCO file, checked: ids that fit together, numbers that are numbers, names for complaints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.common import load_json, numbers
from placl.errors import InputError

Record = dict[str, Any]
BEYOND = 1e12  # pixels, or square pixels


def read_records(
    path: Path, *, with_categories: bool, may_be_bare: bool = False
) -> tuple[dict[Any, Record], list[Record], dict[Any, Record]]:
    """Images by id, annotations in order and categories by id; every annotation points at one of each.

    A file that ``may_be_bare`` needs no annotations, as long as it has images.
    """
    data = load_json(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not a JSON object. A COCO file has images, annotations and categories.")
    if may_be_bare:
        data = {"annotations": [], **data}
    images = _by_id(path, data, "images", "image")
    categories = _by_id(path, data, "categories", "category") if with_categories else {}
    annotations = [a for a in _by_id(path, data, "annotations", "annotation").values() if a.get("iscrowd") != 1]
    for key, known in (("image_id", images), ("category_id", categories))[: 1 + with_categories]:
        for annotation in annotations:
            value = annotation.get(key)
            if type(value) not in (int, str) or value not in known:
                kind = key.removesuffix("_id")
                raise InputError(f"{name_of(path, annotation)} points to {kind} {quoted(value)}, which the file lacks.")
    for image in images.values():
        if "filename" in image:  # as ATRW's authors write it
            image.setdefault("file_name", image["filename"])
        if not isinstance(image.get("file_name"), str):
            raise InputError(f'{path}: image {quoted(image["id"])} has no "file_name".')
    if not (annotations or (may_be_bare and images)):
        raise InputError(f"{path}: has no instances. Give it annotations, or pass the folder of its images instead.")
    return images, annotations, categories


def _by_id(path: Path, data: Record, key: str, kind: str) -> dict[Any, Record]:
    found = data.get(key)
    if not isinstance(found, list):
        raise InputError(f'{path}: "{key}" is {"not a list" if key in data else "missing"}. Is this a COCO file?')
    records: dict[Any, Record] = {}
    for i, record in enumerate(found):
        if not isinstance(record, dict) or type(record.get("id")) not in (int, str):
            raise InputError(f'{path}: {key}[{i}] is not an object with an integer or text "id".')
        if record["id"] in records:
            raise InputError(f"{path}: {kind} id {quoted(record['id'])} occurs twice. Ids must be unique.")
        records[record["id"]] = record
    return records


def with_keypoints(annotations: list[Record], categories: dict[Any, Record]) -> list[Record]:
    """Without those of categories that have no keypoints, if others have: cars beside people. All, if none has."""
    named = {key for key, category in categories.items() if category.get("keypoints")}
    chosen = named | {annotation["category_id"] for annotation in annotations if annotation.get("keypoints")}
    return [annotation for annotation in annotations if annotation["category_id"] in chosen] or annotations


def checked_table(
    path: Path, records: list[Record], key: str, rows: list[Any], width: int, wrong: Callable[[Record], str]
) -> np.ndarray:
    """(R, width) finite float64 from the rows, one for each record, or an error that names the first bad record."""
    table = numbers(rows, (width,))
    if table is None:
        culprit = next(record for record, row in zip(records, rows, strict=True) if numbers([row], (width,)) is None)
        raise InputError(name_of(path, culprit) + wrong(culprit))
    for row in np.flatnonzero(~np.isfinite(table).all(axis=1)):
        raise InputError(f'{name_of(path, records[row])}: "{key}" holds a number that is not finite.')
    for row in np.flatnonzero((np.abs(table) > BEYOND).any(axis=1)):
        raise InputError(f'{name_of(path, records[row])}: "{key}" holds a number beyond any image.')
    return table


def name_of(path: Path, annotation: Record) -> str:
    return f"{path}: annotation {quoted(annotation['id'])}"


def quoted(value: object) -> str:
    """As JSON writes it: text in quotes, on one line."""
    return json.dumps(value, ensure_ascii=False)
