"""COCO keypoints json -> :class:`~placl.data.instances.Instances`.

A file is checked as whole arrays, so that 150,000 annotations take seconds. Only when an array is wrong are its records
looked at one by one, to name the culprit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.coco_files import image_files, splits_of, stated_sizes
from placl.data.formats.coco_records import Record, checked_table, name_of, quoted, read_records, with_keypoints
from placl.data.formats.coco_writing import write_coco
from placl.data.formats.common import box_around, load_json, numbers, peek_json
from placl.data.formats.faces import FACE_PAIRS
from placl.data.formats.format import Format, Found, Options
from placl.data.instances import Instances, plain_instances
from placl.data.pool import UNLABELLED, VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

NAMELESS = "keypoint_"  # and a number: what keypoints are called that nobody has named


def read_coco(path: Path, images: Path | None = None, *, keypoints: tuple[str, ...] | None = None) -> Instances:
    """Every annotation that is not a crowd. Those without a labelled keypoint are unlabelled instances.

    ``images`` is the folder that file names are relative to (default: the json's own). ``keypoints`` renames the
    keypoints. Where nothing names them they are numbered; if nothing is labelled either, there is no skeleton. Beside
    categories with keypoints, those without are left out.
    """
    records, annotations, categories = read_records(path, with_categories=True)
    annotations = with_keypoints(annotations, categories)
    if keypoints is not None:
        categories = {key: _renamed(category, keypoints) for key, category in categories.items()}
    skeleton = _skeleton(path, annotations, categories)
    labels = _labels(path, annotations, categories, skeleton)  # (N, K, 3)
    visibility = labels[..., 2].astype(np.uint8)
    points = np.where(visibility[..., None] > UNLABELLED, labels[..., :2], 0).astype(np.float32)
    boxes = _boxes(path, annotations, points, visibility)
    labelled = np.flatnonzero((visibility > UNLABELLED).any(axis=1))
    files, index = image_files(
        path, images, records, annotations, required={annotations[i]["image_id"] for i in labelled}
    )
    return Instances(
        skeleton=skeleton,
        images=files,
        image_index=index,
        boxes=boxes,
        keypoints=points,
        visibility=visibility,
        area=_areas(path, annotations, boxes),
        ids=_ids(path, records, annotations),
        sources=(str(path),) * len(files),
        classes=tuple(str(categories[annotation["category_id"]].get("name", "")) for annotation in annotations),
        splits=splits_of(files, index, records, annotations),
        drawn=np.array([a.get("bbox") is None or a.get("bbox_drawn") is True for a in annotations], dtype=bool),
        head_length=_heads(path, annotations),
        stated=stated_sizes(len(files), index, records, annotations),
    )


def _heads(path: Path, annotations: list[Record]) -> np.ndarray | None:
    """(N,) float32 of "head_length", which goes beyond COCO: what PCKh divides by; NaN where one has none."""
    rows = [i for i, annotation in enumerate(annotations) if annotation.get("head_length") is not None]
    if not rows:
        return None
    given = [annotations[i] for i in rows]
    lists = [[annotation["head_length"]] for annotation in given]
    heads = np.full(len(annotations), np.nan, np.float32)
    wrong = ': "head_length" is not a number.'
    heads[rows] = checked_table(path, given, "head_length", lists, 1, lambda _: wrong)[:, 0]
    return heads


def read_boxes(path: Path, images: Path) -> Instances:
    """The boxes of a COCO json and nothing else: neither labels nor categories are looked at.

    Where there is no box, or one that was drawn around keypoints, it is the whole image, once.
    """
    records, annotations, _ = read_records(path, with_categories=False)
    given = [a.get("bbox") is not None and a.get("bbox_drawn") is not True for a in annotations]
    boxes = np.full((len(annotations), 4), np.nan)
    boxes[given] = given_boxes(path, [a for a, known in zip(annotations, given, strict=True) if known])
    files, index = image_files(path, images, records, annotations, required=set())
    area = np.where(given, _areas(path, annotations, boxes), np.nan).astype(np.float32)
    everyone = plain_instances(files, _ids(path, records, annotations), index, boxes, area)
    first = np.unique(index, return_index=True)[1]
    return everyone.take(np.flatnonzero(np.array(given) | np.isin(np.arange(len(index)), first)))


def coco_skeleton(category: Record) -> Skeleton:
    """The skeleton of a COCO category, which may carry ``flip_pairs`` (0-based) and ``sigmas`` beyond COCO."""
    title = f"category {quoted(category.get('name'))}"
    names = category.get("keypoints")
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError(f'{title}: "keypoints" is not a list of names. Name every keypoint.')
    edges = _pairs(category, "skeleton")
    if not any(0 in edge for edge in edges):  # COCO counts from 1; AnimalPose and ATRW from 0
        edges = tuple((a - 1, b - 1) for a, b in edges)
    if any(not 0 <= end < len(names) for edge in edges for end in edge):
        edges = ()  # CrowdPose ships the edges of COCO's 17 keypoints with its own 14: drawing any would be wrong
    flip_pairs = _pairs(category, "flip_pairs") if "flip_pairs" in category else flip_pairs_by_name(tuple(names))
    sigmas = category.get("sigmas") or []
    if sigmas and (numbers([sigmas], (len(names),)) is None or not all(0 < sigma < np.inf for sigma in sigmas)):
        raise InputError(f'{title}: "sigmas" is not a list of {len(names)} positive numbers.')
    try:
        return Skeleton(tuple(names), edges, flip_pairs, tuple(map(float, sigmas)))
    except ValueError as error:
        raise InputError(f"{title}: {error}.") from error


def _pairs(category: Record, key: str) -> tuple[tuple[int, int], ...]:
    pairs = category.get(key) or []
    if not isinstance(pairs, list) or any(
        type(pair) is not list or len(pair) != 2 or {type(end) for end in pair} != {int} for pair in pairs
    ):
        raise InputError(f'category {quoted(category.get("name"))}: "{key}" is not a list of pairs of integers.')
    return tuple((pair[0], pair[1]) for pair in pairs)


def _renamed(category: Record, names: tuple[str, ...]) -> Record:
    """The category with other keypoint names. Edges and the like go by number: they stay if there are as many."""
    old = category.get("keypoints")
    kept = category if isinstance(old, list) and len(old) == len(names) else {"name": category.get("name")}
    return {**kept, "keypoints": list(names)}


def _skeleton(path: Path, annotations: list[Record], categories: dict[Any, Record]) -> Skeleton | None:
    """That of the first category in use; all categories in use must name the same keypoints."""
    used = {annotation["category_id"] for annotation in annotations}
    first, *others = [category for key, category in categories.items() if key in used]
    names = first.get("keypoints") or []
    for other in others:
        if (other.get("keypoints") or []) != names:
            raise InputError(
                f"{path}: categories {quoted(first.get('name'))} and {quoted(other.get('name'))} name different "
                f"keypoints: {quoted(names)} against {quoted(other.get('keypoints'))}. Use one file for each."
            )
    if not names:
        count = max((len(a["keypoints"]) for a in annotations if isinstance(a.get("keypoints"), list)), default=0) // 3
        if not count:
            return None
        first = {**first, "keypoints": [f"{NAMELESS}{i + 1}" for i in range(count)]}
        first.setdefault("flip_pairs", [list(pair) for pair in FACE_PAIRS.get(count, ())])
    try:
        return coco_skeleton(first)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _labels(
    path: Path, annotations: list[Record], categories: dict[Any, Record], skeleton: Skeleton | None
) -> np.ndarray:
    """(N, K, 3) float64 of x, y, visibility; zeros where an annotation has no keypoints."""
    k = 0 if skeleton is None else len(skeleton)
    labels = np.zeros((len(annotations), k, 3))
    rows = [i for i, annotation in enumerate(annotations) if annotation.get("keypoints") not in (None, [])]
    if skeleton is None or not rows:
        return labels

    def wrong(annotation: Record) -> str:
        values, category = annotation["keypoints"], quoted(categories[annotation["category_id"]].get("name"))
        if isinstance(values, list) and len(values) != 3 * k and len(values) % 3 == 0:
            advice = "Fix the file or name as many: --keypoints, or `keypoints` of a source."
            return f" has {len(values) // 3} keypoints, category {category} has {k}. {advice}"
        return f': "keypoints" is not a list of {3 * k} numbers (x, y, visibility of each).'

    given = [annotations[i] for i in rows]
    lists = [annotation["keypoints"] for annotation in given]
    table = checked_table(path, given, "keypoints", lists, 3 * k, wrong).reshape(-1, k, 3)
    for row, point in np.argwhere(~np.isin(table[..., 2], range(VISIBLE + 1))):
        where, name = name_of(path, given[row]), quoted(skeleton.keypoints[point])
        raise InputError(f"{where}: keypoint {name} has visibility {table[row, point, 2]:g}, expected 0, 1 or 2.")
    labels[rows] = table
    return labels


def _boxes(path: Path, annotations: list[Record], points: np.ndarray, visibility: np.ndarray) -> np.ndarray:
    """(N, 4) float64 xywh; that of the labelled keypoints where an annotation has none."""
    boxes = np.empty((len(annotations), 4))
    rows = [i for i, annotation in enumerate(annotations) if annotation.get("bbox") is not None]
    boxes[rows] = given_boxes(path, [annotations[i] for i in rows])
    for i in sorted(set(range(len(annotations))) - set(rows)):
        labelled = np.unique(points[i][visibility[i] > UNLABELLED].astype(np.float64), axis=0)
        if len(labelled) < 2:
            raise InputError(f'{name_of(path, annotations[i])} has no "bbox" and too few keypoints to draw one around.')
        boxes[i] = box_around(labelled)
    return boxes


def given_boxes(path: Path, annotations: list[Record]) -> np.ndarray:
    """(N, 4) float64 xywh of annotations that have a box."""
    lists = [annotation["bbox"] for annotation in annotations]
    table = checked_table(path, annotations, "bbox", lists, 4, lambda _: ': "bbox" is not a list of 4 numbers.')
    for row in np.flatnonzero((table[:, 2:] <= 0).any(axis=1)):
        box = annotations[row]["bbox"]
        raise InputError(f"{name_of(path, annotations[row])}: its box {box} has no size. Fix or remove it.")
    return table


def _areas(path: Path, annotations: list[Record], boxes: np.ndarray) -> np.ndarray:
    """(N,) float32; that of the box where an annotation has none, or 0 as some tools write."""
    areas = [[annotation.get("area") or 0] for annotation in annotations]
    table = checked_table(path, annotations, "area", areas, 1, lambda _: ': "area" is not a number.')[:, 0]
    for row in np.flatnonzero(table < 0):
        raise InputError(f"{name_of(path, annotations[row])}: its area {table[row]:g} is negative.")
    return np.where(table > 0, table, boxes[:, 2] * boxes[:, 3]).astype(np.float32)


def _ids(path: Path, images: dict[Any, Record], annotations: list[Record]) -> tuple[str, ...]:
    ids = tuple(f"{images[a['image_id']]['file_name']}#{a['id']}" for a in annotations)
    if len(set(ids)) < len(ids):
        raise InputError(f'{path}: annotation ids such as 1 and "1" are mixed. Make every id an integer.')
    return ids


def _claims(path: Path) -> bool:
    data = peek_json(path)
    return isinstance(data, dict) and all(isinstance(data.get(key), list) for key in ("images", "annotations"))


def _read(path: Path, options: Options) -> Found:
    instances = read_coco(path, options.images, keypoints=options.keypoints)
    notes = []
    skeleton = instances.skeleton
    if skeleton is not None and skeleton.keypoints[0] == f"{NAMELESS}1":
        pairs = "" if skeleton.flip_pairs else " Nothing tells left from right: set augment.flip=0."
        notes.append(f"{path.name}: names no keypoints; the {len(skeleton)} are numbered.{pairs}")
    content = load_json(path)
    annotations = [annotation for annotation in content["annotations"] if annotation.get("iscrowd") != 1]
    categories = {category["id"]: category for category in content["categories"]}
    bare = len(annotations) - len(with_keypoints(annotations, categories))
    if bare:
        notes.append(f"{path.name}: {bare} annotations of categories without keypoints are left out.")
    edges = any(isinstance(category, dict) and category.get("skeleton") for category in content["categories"])
    if skeleton is not None and not skeleton.edges and edges and options.keypoints is None:
        notes.append(f"{path.name}: its skeleton is of other keypoints than it names; no edges are drawn.")
    without = len(content["images"]) - len(instances.images)
    if without > 0:
        other = "no other" if bare else "no"
        notes.append(f"{path.name}: {without} images have {other} annotation and are left out.")
    return Found(instances, tuple(notes))


FORMAT = Format("coco", "COCO keypoints", _claims, _read, write_coco)
