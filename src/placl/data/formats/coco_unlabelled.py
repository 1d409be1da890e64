"""A COCO file as unlabelled images: those with boxes by their boxes, all others whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placl.data.formats.coco import read_boxes
from placl.data.formats.coco_files import image_files
from placl.data.formats.coco_records import read_records
from placl.data.formats.format import Found
from placl.data.instances import Instances, plain_instances


def read_images(path: Path, images: Path) -> Found:
    """Neither labels nor categories are looked at. An image without annotations is there to be used all the same."""
    records, annotations, _ = read_records(path, with_categories=False, may_be_bare=True)
    annotated = {annotation["image_id"] for annotation in annotations}
    bare = [{"image_id": key} for key in records if key not in annotated]
    boxed = read_boxes(path, images) if annotations else _nothing()
    taken = set(boxed.images)
    files, index = image_files(path, images, records, bare, required=set())
    names = {files[i]: records[one["image_id"]]["file_name"] for i, one in zip(index, bare, strict=True)}
    whole = {file: name for file, name in names.items() if file not in taken}
    note = f"{path.name}: {len(whole)} images have no annotation; they are taken whole."
    return Found(_with_whole(boxed, whole), (note,) if whole and annotations else ())


def _with_whole(boxed: Instances, whole: dict[Path, str]) -> Instances:
    n = len(whole)
    return plain_instances(
        images=(*boxed.images, *whole),
        ids=(*boxed.ids, *whole.values()),
        image_index=np.concatenate([boxed.image_index, len(boxed.images) + np.arange(n, dtype=np.int64)]),
        boxes=np.concatenate([boxed.boxes, np.full((n, 4), np.nan)]),
        area=np.concatenate([boxed.area, np.full(n, np.nan, np.float32)]),
    )


def _nothing() -> Instances:
    return plain_instances((), (), np.zeros(0, np.int64), np.zeros((0, 4)), np.zeros(0, np.float32))
