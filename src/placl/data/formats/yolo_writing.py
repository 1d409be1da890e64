"""Instances -> a YOLO pose folder that Ultralytics trains on as it is.

Ultralytics finds labels by putting labels/ for images/ in the path of an image, so the images have to be there too:
they are linked, or copied where the disk does not link. Unlike other formats' writers, this one makes whole folders.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from placl.data.crops import whole_where_nan
from placl.data.formats.common import common_folder, way_from
from placl.data.formats.yolo_yaml import SPLITS, TOLERANCE
from placl.data.images import image_size
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED
from placl.errors import InputError
from placl.files import disk_errors, link_or_copy

PARTS = ("images", "labels", "data.yaml")
UNKNOWN = "all"  # the folder of images that belong to no split; it is named for training and for validation
HEAD = "# YOLO pose, written by placl."  # by which we know what we may replace


def write_yolo(instances: Instances, path: Path) -> list[Path]:
    """``path`` is the folder, or the yaml in it. Numbers are written in full, so that pixels survive.

    Keypoints outside the image become unlabelled ones. An image without any instance but an unlabelled whole one gets
    no label file: Ultralytics takes it for background. What was written here before is replaced, nothing else is.
    """
    folder = path.parent if path.suffix.lower() in (".yaml", ".yml") else path
    if instances.skeleton is None:
        raise InputError(
            f"{folder}: a YOLO pose dataset needs keypoints, and plain images have none. Pass --keypoints."
        )
    _refuse_others(folder)
    places = _places(instances)
    names = tuple(name for name in dict.fromkeys(instances.classes) if name) or ("object",)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with disk_errors(folder):
        try:
            for name in ("images", "labels"):
                (part / name).mkdir(parents=True)
            for image, place in zip(instances.images, places, strict=True):
                _link(image, part / "images" / place)
            lines = _lines(instances, names)
            for number, rows in lines.items():
                file = part / "labels" / Path(places[number]).with_suffix(".txt")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("\n".join(rows.values()) + "\n", encoding="utf-8")
            content = _yaml(instances, names) | _drawn(instances, places, lines)
            (part / "data.yaml").write_text(_text(content), encoding="utf-8")
            _move(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return [folder / "data.yaml"]


def _refuse_others(folder: Path) -> None:
    try:
        ours = (folder / "data.yaml").read_text(encoding="utf-8", errors="replace").startswith(HEAD)
    except OSError:
        ours = False
    for name in () if ours else PARTS:
        if (folder / name).exists():
            raise InputError(f"{folder}: has {name} already, which was not written here. Name a new folder.")


def _move(part: Path, folder: Path) -> None:
    """The yaml last: with it, the dataset is whole. Till then, the old one says that the folder is ours."""
    folder.mkdir(parents=True, exist_ok=True)
    (part / "old").mkdir()
    for name in PARTS:
        if name != "data.yaml" and (folder / name).exists():
            os.replace(folder / name, part / "old" / name)
        os.replace(part / name, folder / name)


def _places(instances: Instances) -> list[str]:
    """Where each image goes below images/: its split, then its way from the folder that those of the split share."""
    splits = instances.splits or ("",) * len(instances.images)
    for split, image in zip(splits, instances.images, strict=True):
        if split not in ("", *SPLITS):
            raise InputError(f'{image}: is in split "{split}"; Ultralytics knows {", ".join(SPLITS)} only.')
    parts: dict[str, list[Path]] = {}
    for split, image in zip(splits, instances.images, strict=True):
        parts.setdefault(split, []).append(image)
    base = {split: common_folder(images) for split, images in parts.items()}
    taken: set[Path] = set()
    places = []
    for split, image in zip(splits, instances.images, strict=True):
        place = Path(split or UNKNOWN) / way_from(base[split], image)
        stem, number = place.stem, 1
        while place.with_suffix("") in taken:  # a.jpg and a.png would share a label file
            number += 1
            place = place.with_stem(f"{stem}-{number}")
        taken.add(place.with_suffix(""))
        places.append(place.as_posix())
    return places


def _link(image: Path, target: Path) -> None:
    if not image.is_file():
        raise InputError(f"{image}: does not exist, and a YOLO dataset needs its images.")
    link_or_copy(image, target)


def _lines(instances: Instances, names: tuple[str, ...]) -> dict[int, dict[int, str]]:
    """The lines of each image's label file: image -> instance -> line."""
    sizes = np.array([image_size(image) for image in instances.images], np.float64).reshape(-1, 2)
    size = sizes[instances.image_index]  # (N, 2)
    boxes = _inside(whole_where_nan(instances.boxes, size), size)
    numbers = np.concatenate([(boxes[:, :2] + boxes[:, 2:] / 2) / size, boxes[:, 2:] / size], axis=1)  # (N, 4)
    points = (instances.keypoints.astype(np.float64) + 0.5) / size[:, None]  # (N, K, 2), from the corner
    outside = ((points < -TOLERANCE) | (points > 1 + TOLERANCE)).any(axis=2)
    visibility = np.where(outside, UNLABELLED, instances.visibility)
    points[visibility == UNLABELLED] = 0
    number_of = {name: number for number, name in enumerate(names)}
    whole = np.isnan(instances.boxes).any(axis=1) & ~instances.labelled
    lines: dict[int, dict[int, str]] = {}
    alone = np.bincount(instances.image_index, minlength=len(instances.images))[instances.image_index] == 1
    for i in np.flatnonzero(~(whole & alone)).tolist():
        kind = number_of.get(instances.classes[i], 0) if instances.classes else 0
        keypoints = zip(points[i].tolist(), visibility[i].tolist(), strict=True)
        labels = " ".join(f"{x!r} {y!r} {v}" for (x, y), v in keypoints)
        line = f"{kind} {' '.join(map(repr, numbers[i].tolist()))} {labels}"
        lines.setdefault(int(instances.image_index[i]), {})[i] = line
    return lines


def _inside(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Boxes whose centre is not in the image, which Ultralytics does not accept, are cut off at its border."""
    low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    middle = (low + high) / 2
    away = ((middle < 0) | (middle > size)).any(axis=1)
    low = np.clip(low, 0, size - 1)
    cut = np.concatenate([low, np.clip(high, low + 1, size) - low], axis=1)
    return np.where(away[:, None], cut, boxes)


def _drawn(instances: Instances, places: list[str], lines: dict[int, dict[int, str]]) -> dict[str, Any]:
    """``boxes_drawn``: true, or image#line of each box that was drawn around keypoints, as a reader numbers them."""
    if instances.drawn is None or not instances.drawn.any():
        return {}
    if (instances.drawn | np.isnan(instances.boxes).any(axis=1)).all():  # a whole image is no box
        return {"boxes_drawn": True}
    numbered = ((image, i, n) for image, rows in lines.items() for n, i in enumerate(rows, start=1))
    return {"boxes_drawn": [f"images/{places[image]}#{n}" for image, i, n in numbered if instances.drawn[i]]}


def _yaml(instances: Instances, names: tuple[str, ...]) -> dict[str, Any]:
    skeleton = instances.skeleton
    assert skeleton is not None
    splits = set(instances.splits or ("",) * len(instances.images))
    folders: dict[str, Any] = {}
    for split in SPLITS:
        places = [f"images/{split}"] if split in splits else []
        places += [f"images/{UNKNOWN}"] if "" in splits and split != "test" else []
        folders[split] = places[0] if len(places) == 1 else places
    if not folders["test"]:
        del folders["test"]
    return folders | {
        "names": dict(enumerate(names)),
        "kpt_shape": [len(skeleton), 3],
        "flip_idx": skeleton.flip_order.tolist(),
        "kpt_names": {number: list(skeleton.keypoints) for number in range(len(names))},
        "skeleton": [list(edge) for edge in skeleton.edges],
        "sigmas": list(skeleton.sigmas),
    }


def _text(content: dict[str, Any]) -> str:
    head = f"{HEAD} Images without a label file are background to Ultralytics.\n"
    if f"images/{UNKNOWN}" in (content["train"], *content["train"]):
        head += (
            f"# images/{UNKNOWN} belongs to no split and stands for both train and val: divide it before you compare.\n"
        )
    return head + yaml.safe_dump(content, sort_keys=False, default_flow_style=None, allow_unicode=True)
