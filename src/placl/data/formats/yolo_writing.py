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
from placl.data.formats.yolo_yaml import SPLITS
from placl.data.images import image_size
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED
from placl.errors import InputError
from placl.files import disk_errors

UNKNOWN = "all"  # the folder of images that belong to no split; it is named for training and for validation
TOLERANCE = 0.01  # an image with a keypoint further outside is passed over by Ultralytics


def write_yolo(instances: Instances, path: Path) -> list[Path]:
    """``path`` is the folder, or the yaml in it. Numbers are written in full, so that pixels survive.

    Keypoints outside the image become unlabelled ones. An image without any instance but an unlabelled whole one gets
    no label file: Ultralytics takes it for background.
    """
    folder = path.parent if path.suffix.lower() in (".yaml", ".yml") else path
    if instances.skeleton is None:
        raise InputError(f"{folder}: a YOLO pose dataset needs keypoints, and plain images have none.")
    for name in ("images", "labels"):
        if (folder / name).exists():
            raise InputError(f"{folder}: has a folder {name} already. Name a new folder for the dataset.")
    places = _places(instances)
    names = tuple(name for name in dict.fromkeys(instances.classes) if name) or ("object",)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with disk_errors(folder):
        try:
            for name in ("images", "labels"):
                (part / name).mkdir(parents=True)
            for image, place in zip(instances.images, places, strict=True):
                _link(image, part / "images" / place)
            for place, lines in zip(places, _lines(instances, names), strict=True):
                if lines:
                    file = part / "labels" / Path(place).with_suffix(".txt")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            (part / "data.yaml").write_text(_yaml(instances, names), encoding="utf-8")
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("images", "labels", "data.yaml"):  # the yaml last: with it, the dataset is whole
                os.replace(part / name, folder / name)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return [folder / "data.yaml"]


def _places(instances: Instances) -> list[str]:
    """Where each image goes below images/: its split, then its way from the folder that those of the split share."""
    splits = instances.splits or ("",) * len(instances.images)
    for split, image in zip(splits, instances.images, strict=True):
        if split not in ("", *SPLITS):
            raise InputError(f'{image}: is in split "{split}"; Ultralytics knows {", ".join(SPLITS)} only.')
    parents: dict[str, list[str]] = {}
    for split, image in zip(splits, instances.images, strict=True):
        parents.setdefault(split, []).append(str(image.absolute().parent))
    base = {split: os.path.commonpath(folders) for split, folders in parents.items()}
    taken: set[Path] = set()
    places = []
    for split, image in zip(splits, instances.images, strict=True):
        place = Path(split or UNKNOWN) / os.path.relpath(image.absolute(), base[split])
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
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(image.resolve(), target)
    except OSError:  # another disk, or one that has no links
        shutil.copyfile(image, target)


def _lines(instances: Instances, names: tuple[str, ...]) -> list[list[str]]:
    """The lines of each image's label file."""
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
    lines: list[list[str]] = [[] for _ in instances.images]
    alone = np.bincount(instances.image_index, minlength=len(instances.images))[instances.image_index] == 1
    for i in np.flatnonzero(~(whole & alone)):
        kind = number_of.get(instances.classes[i], 0) if instances.classes else 0
        keypoints = zip(points[i].tolist(), visibility[i].tolist(), strict=True)
        labels = " ".join(f"{x!r} {y!r} {v}" for (x, y), v in keypoints)
        lines[instances.image_index[i]].append(f"{kind} {' '.join(map(repr, numbers[i].tolist()))} {labels}")
    return lines


def _inside(boxes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Boxes whose centre is not in the image, which Ultralytics does not accept, are cut off at its border."""
    low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    middle = (low + high) / 2
    away = ((middle < 0) | (middle > size)).any(axis=1)
    low = np.clip(low, 0, size - 1)
    cut = np.concatenate([low, np.clip(high, low + 1, size) - low], axis=1)
    return np.where(away[:, None], cut, boxes)


def _yaml(instances: Instances, names: tuple[str, ...]) -> str:
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
    content = folders | {
        "names": dict(enumerate(names)),
        "kpt_shape": [len(skeleton), 3],
        "flip_idx": skeleton.flip_order.tolist(),
        "kpt_names": {number: list(skeleton.keypoints) for number in range(len(names))},
        "skeleton": [list(edge) for edge in skeleton.edges],
        "sigmas": list(skeleton.sigmas),
    }
    head = "# YOLO pose, written by placl. Images without a label file are background to Ultralytics.\n"
    if "" in splits:
        head += (
            f"# images/{UNKNOWN} belongs to no split and stands for both train and val: divide it before you compare.\n"
        )
    return head + yaml.safe_dump(content, sort_keys=False, default_flow_style=None, allow_unicode=True)
