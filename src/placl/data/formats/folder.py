"""Plain images: a folder, or one file. Every image is one unlabelled instance, or one for each box of a COCO json."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from placl.data.formats.coco import read_boxes
from placl.data.formats.common import require_image
from placl.data.formats.format import Format, Found, Options
from placl.data.instances import Instances, plain_instances
from placl.errors import InputError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
RUN = {"config.yaml", "journal.jsonl"}  # a folder that holds both is a run's


def read_folder(path: Path, boxes: Path | None = None) -> Instances:
    """Every image below ``path``, hidden ones aside; with ``boxes``, its boxes on those images, without labels."""
    return read_images(path, boxes).instances


def read_images(path: Path, boxes: Path | None = None, besides: Collection[Path] = ()) -> Found:
    """As :func:`read_folder`, and how many images were left out. In a folder, ``besides`` are not looked at."""
    root = path if path.is_dir() else path.parent
    there = _image_names(path)
    names = _without(root, there, besides) if path.is_dir() else there
    notes = []
    if len(names) < len(there):
        notes.append(f"{path}: {len(there) - len(names)} images lie where pictures are written to, and are left out.")
    if not names:
        raise InputError(f"{path}: holds no images but those that placl draws. Name another place with --overlay.")
    if boxes is None:
        return Found(_whole(root, names), tuple(notes))
    instances = _boxes_on(path, root, names, boxes)
    if len(instances.images) < len(names):
        count = len(names) - len(instances.images)
        notes.append(f"{boxes.name}: {count} images in {path} have no box there and are left out.")
    return Found(instances, tuple(notes))


def _whole(root: Path, names: list[str]) -> Instances:
    n = len(names)
    return plain_instances(
        images=tuple(root / name for name in names),
        ids=tuple(names),
        image_index=np.arange(n, dtype=np.int64),
        boxes=np.full((n, 4), np.nan),
        area=np.full(n, np.nan, np.float32),
    )


def _image_names(path: Path) -> list[str]:
    """Sorted, relative to the folder, with forward slashes on every system."""
    if path.is_file():
        if not path.name.lower().endswith(SUFFIXES):
            raise InputError(f"{path}: is not an image. Known are {', '.join(SUFFIXES)}.")
        return [path.name]
    if not path.is_dir():
        raise InputError(f"{path}: does not exist. Pass a folder of images or an image.")
    names = sorted(_below(path))
    if not names:
        raise InputError(f"{path}: holds no images. Known are {', '.join(SUFFIXES)}.")
    return names


def _below(path: Path) -> Iterator[str]:
    """The images in a folder and in its folders, but not in hidden ones and not in those of runs: placl drew these."""
    for folder, folders, files in os.walk(path):
        below = Path(folder).relative_to(path)
        if below.parts and RUN.issubset(files):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        visible = (name for name in files if not name.startswith("."))
        yield from ((below / name).as_posix() for name in visible if name.lower().endswith(SUFFIXES))


def _without(root: Path, names: list[str], besides: Collection[Path]) -> list[str]:
    """The names that are neither one of the files nor below one of the folders."""
    start = root.resolve()
    inside = [place.relative_to(start).as_posix() for place in map(Path.resolve, besides) if start in place.parents]
    return [name for name in names if not any(name == other or name.startswith(f"{other}/") for other in inside)]


def _boxes_on(path: Path, root: Path, names: list[str], boxes: Path) -> Instances:
    instances = read_boxes(boxes, root)
    present = {root / name for name in names}
    kept = [i for i, image in enumerate(instances.images) if image in present]
    rows = np.flatnonzero(np.isin(instances.image_index, kept))
    if not len(rows):
        raise InputError(f"{boxes}: none of its boxes is on an image in {path}. Check its file names.")
    return plain_instances(
        images=tuple(instances.images[i] for i in kept),
        ids=tuple(instances.ids[i] for i in rows),
        image_index=np.searchsorted(kept, instances.image_index[rows]).astype(np.int64),
        boxes=instances.boxes[rows],
        area=instances.area[rows],
    )


def _claims(path: Path) -> bool:
    if path.is_file():
        return path.suffix.lower() in SUFFIXES
    return path.is_dir() and any(True for _ in _below(path))


def read_list(path: Path, options: Options) -> Found:
    """A text file with the name of an image on each line, relative to the file or to ``options.images``."""
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error}).") from error
    if not names:
        raise InputError(f"{path}: names no image. Write one a line.")
    roots = [options.images or path.parent, path.parent]
    found = [require_image(roots, name, f"{path}: line {number}") for number, name in enumerate(names, start=1)]
    images = dict(zip(found, names, strict=True))  # each once
    n = len(images)
    boxes, area = np.full((n, 4), np.nan), np.full(n, np.nan, np.float32)
    notes = () if n == len(names) else (f"{path.name}: {len(names) - n} images are named more than once.",)
    return Found(plain_instances(tuple(images), tuple(images.values()), np.arange(n), boxes, area), notes)


def _claims_list(path: Path) -> bool:
    if path.suffix.lower() != ".txt" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        first = next((line.strip() for line in file if line.strip()), "")
    return first.lower().endswith(SUFFIXES)


LIST = Format("list", "list of image files", _claims_list, read_list)
FORMAT = Format("images", "plain images", _claims, lambda path, options: Found(read_folder(path)), None)
