"""What the data.yaml of a YOLO pose dataset says: keypoints, classes, and the images of every split."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from placl.data.formats.coco import NAMELESS
from placl.data.formats.common import find_image
from placl.data.formats.folder import SUFFIXES
from placl.data.formats.format import Options
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError
from placl.plain_yaml import load_yaml

SPLITS = ("train", "val", "test")
MOST_KEYPOINTS = 10_000  # whatever a yaml asks for
STRANGERS = 20_000  # files more than images, labels and all, that a folder of images may hold: a whole disk has more
TOLERANCE = 0.01  # Ultralytics passes over an image with a keypoint that is further outside


def yaml_in(folder: Path) -> Path | None:
    """data.yaml, or the only yaml of a pose dataset there is."""
    files = sorted(file for file in folder.glob("*.y*ml") if is_pose(file))
    named = [file for file in files if file.stem == "data"]
    return named[0] if named else files[0] if len(files) == 1 else None


def is_pose(file: Path) -> bool:
    if file.suffix.lower() not in (".yaml", ".yml") or not file.is_file():
        return False
    try:
        return "kpt_shape" in config_of(file)
    except InputError:
        return False


def config_of(file: Path) -> dict[str, Any]:
    try:
        data = load_yaml(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{file}: is not YAML ({' '.join(str(error).split())}).") from error
    if not isinstance(data, dict):
        raise InputError(f"{file}: is not a mapping. A YOLO pose dataset has train, val, names and kpt_shape there.")
    return data


def shape_of(file: Path, data: dict[str, Any]) -> tuple[int, int]:
    shape = data.get("kpt_shape")
    if isinstance(shape, list) and [type(n) for n in shape] == [int, int]:
        count, numbers = shape
        if 1 <= count <= MOST_KEYPOINTS and numbers in (2, 3):
            return count, numbers
    raise InputError(f"{file}: kpt_shape is {shape}, expected [number of keypoints, 2 or 3].")


def skeleton_of(file: Path, data: dict[str, Any], count: int, options: Options) -> tuple[Skeleton, list[str]]:
    """Ultralytics reads ``flip_idx`` and ``kpt_names``; ``skeleton`` (edges) and ``sigmas`` are written by us."""
    notes = []
    given = data.get("kpt_names", data.get("node_names"))
    if isinstance(given, dict):  # one list for each class, which have the same keypoints
        given = next(iter(given.values()), None)
    names = options.keypoints or (tuple(map(str, given)) if isinstance(given, list) and given else None)
    if names is None:
        names = tuple(f"{NAMELESS}{i + 1}" for i in range(count))
        notes.append(f"{file.name}: names no keypoints; the {count} are numbered.")
    if len(names) != count:
        raise InputError(f"{file}: kpt_shape has {count} keypoints, but {len(names)} are named. Name all, in order.")
    flip = data.get("flip_idx")
    if flip is None:
        pairs = flip_pairs_by_name(names)
    elif isinstance(flip, list) and sorted(map(str, flip)) == sorted(map(str, range(count))):
        pairs = tuple((i, j) for i, j in enumerate(map(int, flip)) if i < j and int(flip[j]) == i)
    else:
        raise InputError(f"{file}: flip_idx is {flip}, expected each number from 0 to {count - 1} once.")
    try:
        edges = tuple((int(a), int(b)) for a, b in data.get("skeleton") or [])
        return Skeleton(names, edges, pairs, tuple(map(float, data.get("sigmas") or []))), notes
    except (TypeError, ValueError) as error:
        raise InputError(f"{file}: its skeleton is wrong ({error}).") from error


def classes_of(file: Path, data: dict[str, Any]) -> list[str]:
    names = data.get("names")
    if isinstance(names, dict) and set(names) == set(range(len(names))):
        names = [names[i] for i in range(len(names))]
    if names is None and type(data.get("nc")) is int:
        names = [f"class_{i}" for i in range(data["nc"])]
    if not isinstance(names, list) or not names:
        raise InputError(f"{file}: names is not a list of classes. Write it as names: {{0: bird}}.")
    return [str(name) for name in names]


def drawn_of(
    file: Path, data: dict[str, Any], ids: list[str], whole: np.ndarray, notes: list[str]
) -> np.ndarray | None:
    """(N,) which boxes were drawn around keypoints: ``boxes_drawn``, which we write, is true or a list of ids."""
    given = data.get("boxes_drawn") or False
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        if missing := sorted(set(given) - set(ids)):
            notes.append(
                f"{file.name}: boxes_drawn names {len(missing)} boxes that are not there, such as {missing[0]}."
            )
        named = set(given)
        return np.asarray(np.array([name in named for name in ids], bool) & ~whole)
    if not isinstance(given, bool):
        raise InputError(f"{file}: boxes_drawn is {given}, expected true, false or a list of image#line.")
    return np.asarray(~whole) if given else None


def images_of(file: Path, data: dict[str, Any], options: Options, notes: list[str]) -> dict[Path, str]:
    """Every image and its split, "" for images that are in several: many a yaml has one folder for train and val."""
    base = str(data.get("path") or "")
    bases = [file.parent / base, file.parent, Path(base)] + ([options.images] if options.images else [])
    found: dict[Path, set[str]] = {}
    for split in SPLITS:
        value = data.get(split, data.get("validation") if split == "val" else None)
        for name in value if isinstance(value, list) else [value] if value else []:
            place = _place(bases, str(name))
            if place is not None:
                for image in _listed(place, bases) if place.is_file() else _below(place):
                    found.setdefault(image, set()).add(split)
            elif split == "train":
                raise InputError(f'{file}: train is "{name}", which is not below {bases[0]}. Pass --images DIR.')
            else:
                notes.append(f'{file.name}: {split} is "{name}", which is not there; left out.')
    if not found:
        raise InputError(f"{file}: no image is in its train, val and test. Check the folders that it names.")
    several = sum(len(splits) > 1 for splits in found.values())
    if several:
        notes.append(f"{file.name}: {several} images are in more than one of train, val and test; taken as in none.")
    return {image: next(iter(splits)) if len(splits) == 1 else "" for image, splits in found.items()}


def _place(bases: list[Path], name: str) -> Path | None:
    """Roboflow's ../train/images means train/images beside the yaml."""
    names = [name, name.removeprefix("../")]
    return next((base / n for n in names for base in bases if os.path.exists(base / n)), None)  # False for a bad name


def _below(folder: Path) -> list[Path]:
    images, others = list[str](), 0
    for place, _, files in os.walk(folder):
        found = [name for name in files if name[0] != "." and name.lower().endswith(SUFFIXES)]
        images += [os.path.join(place, name) for name in found]
        others += len(files) - len(found)
        if others > len(images) + STRANGERS:
            raise InputError(f"{folder}: is named as a folder of images, and holds much else. Name that of the images.")
    return [Path(name) for name in sorted(images)]


def _listed(file: Path, bases: list[Path]) -> list[Path]:
    images = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as a list of images ({error}).") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            image = find_image([file.parent, *bases], line.strip().removeprefix("./"))
            if image is None:
                raise InputError(f'{file}: line {number}: image "{line.strip()}" does not exist. Pass --images DIR.')
            images.append(image)
    return images
