"""What readers share: finding image files, boxes where a format has none, numbers from text."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from placl.data.pool import UNLABELLED
from placl.data.skeleton import Skeleton
from placl.errors import InputError


def load_json(path: Path) -> Any:
    """The content of a JSON file. The last one is remembered: it is looked at to be recognised, and then read."""
    try:
        status = path.stat()
        return _parsed(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({error}).") from error


@lru_cache(maxsize=1)
def _parsed(path: Path, size: int, changed: int) -> Any:
    data = path.read_bytes()
    try:
        return from_json(data)  # twice as fast
    except ValueError:
        return json.loads(data)  # which takes more, and says better what is wrong


def forget_json() -> None:
    """Read the next file anew, whatever was read last."""
    _parsed.cache_clear()


def peek_json(path: Path) -> Any:
    """As :func:`load_json` for a file that may be anything; None if it is no JSON file."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    try:
        return load_json(path)
    except InputError:
        return None


def find_image(roots: list[Path], name: str) -> Path | None:
    """The file that a source calls ``name``: below one of the roots, in images/ there, or by its last part alone.

    Names may have been written on another system: backslashes and absolute paths of somebody else's disk.
    """
    name = name.replace("\\", "/")
    parts = name.split("/")
    tails = ["/".join(parts[-n:]) for n in range(len(parts), 0, -1)]  # longest first: a/b/c.png, b/c.png, c.png
    for root in map(os.fspath, roots):
        for tail in tails:
            for place in (os.path.join(root, tail), os.path.join(root, "images", tail)):
                if os.path.isfile(place):
                    return Path(place)
    return None


def common_folder(files: Sequence[Path]) -> Path | None:
    """The deepest folder that all files lie in; None if they are on several drives, which share none."""
    try:
        return Path(os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files]))
    except ValueError:
        return None


def way_from(folder: Path | None, file: Path) -> Path:
    """From a folder to a file in it; without a folder, the drive's name and all that follows, as in C/photos/1.png."""
    full = Path(os.path.abspath(file))
    if folder is not None:
        return full.relative_to(folder)
    drive = re.sub(r"\W+", "_", full.drive).strip("_")
    return Path(drive, *full.parts[1:])


def shown(folder: Path) -> str:
    """A folder as a sentence names it: ``under ..`` would be no help."""
    return "the current folder" if folder == Path() else str(folder)


def require_image(roots: list[Path], name: str, where: str) -> Path:
    """As :func:`find_image`; ``where`` names the file and record for the complaint."""
    found = find_image(roots, name)
    if found is None:
        raise InputError(f'{where}: image "{name}" does not exist under {shown(roots[0])}. Pass --images DIR.')
    return found


class Leads:
    """Which name led to each image: two names of one file would put two sets of labels on one image, unnoticed."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __contains__(self, image: Path) -> bool:
        return real_file(image) in self._names

    def add(self, image: Path, name: str, where: str) -> None:
        """``where`` names the file and record for the complaint. One name may come again."""
        known = self._names.setdefault(real_file(image), name)
        if known != name and _plain(known) != _plain(name):
            both = f"{json.dumps(known, ensure_ascii=False)} and {json.dumps(name, ensure_ascii=False)}"
            raise InputError(f"{where}: {both} both lead to {image}. Pass --images DIR.")


def _plain(name: str) -> str:
    return posixpath.normpath(name.replace("\\", "/"))


def real_file(file: Path) -> str:
    """Where it really lies: links to folders are followed, links to files are not, which would be slow."""
    return os.path.join(_real_folder(os.path.join(os.getcwd(), os.path.dirname(file))), file.name)


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def box_around(points: np.ndarray) -> np.ndarray:
    """(4,) xywh of (P, 2) keypoints: the pixels from the first to the last, whole, so never an empty box."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.concatenate([low, high - low + 1]).astype(np.float64)


def boxes_where_none_are(
    image_index: np.ndarray, keypoints: np.ndarray, visibility: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes (N, 4), areas (N,) and which are drawn (N,), for a source that has none.

    One animal to an image: the whole image, as for plain unlabelled images, which have to look alike. Otherwise the box
    around the labelled keypoints; with fewer than two different ones, the whole image.
    """
    n = len(image_index)
    boxes, drawn = np.full((n, 4), np.nan), np.zeros(n, bool)
    if n and np.unique(image_index, return_counts=True)[1].max() > 1:
        boxes, drawn = drawn_boxes(keypoints, visibility)
    return boxes, (boxes[:, 2] * boxes[:, 3]).astype(np.float32), drawn


def drawn_boxes(points: np.ndarray, visibility: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, 4) boxes around labelled keypoints and which are drawn (N,); fewer than two keypoints: the whole image."""
    known = (visibility > UNLABELLED)[..., None]  # (N, K, 1)
    low = np.where(known, points, np.inf).min(axis=1, initial=np.inf).astype(np.float64)
    high = np.where(known, points, -np.inf).max(axis=1, initial=-np.inf).astype(np.float64)
    drawn = np.asarray((high > low).any(axis=1))  # two different ones differ somewhere
    boxes = np.full((len(points), 4), np.nan)
    boxes[drawn] = np.concatenate([low, high - low + 1], axis=1)[drawn]  # whole pixels, as in box_around
    return boxes, drawn


def missing_note(file: Path, total: int, present: int, example: str, root: Path) -> tuple[str, ...]:
    """People keep parts of a dataset beside its one annotation file: that is worth a line, but not a refusal."""
    if not present:
        raise InputError(
            f'{file}: none of its {total:,} images, such as "{example}", is under {shown(root)}. Pass --images DIR.'
        )
    missing = total - present
    return (f"{file}: {missing:,} of {total:,} images are missing and left out.",) if missing else ()


def renamed(skeleton: Skeleton, names: tuple[str, ...] | None) -> Skeleton:
    """The skeleton with other keypoint names, if a person gave some."""
    if names is None:
        return skeleton
    if len(names) != len(skeleton):
        raise InputError(f"--keypoints names {len(names)} keypoints, the dataset has {len(skeleton)}. Name them all.")
    try:
        return replace(skeleton, keypoints=names)
    except ValueError as error:
        raise InputError(f"--keypoints: {error}. Name each once.") from error


def checked_numbers(
    file: Path, kind: str, records: list[dict[str, Any]], key: str, shape: tuple[int, ...]
) -> np.ndarray:
    """(R, *shape) finite float64: what all records have under a key, or an error that names the first bad record."""
    values = [record.get(key) for record in records]
    table = numbers(values, shape)
    if table is None:
        culprit = next(row for row, value in enumerate(values) if numbers([value], shape) is None)
        expected = " x ".join(map(str, shape)) + " numbers" if shape else "a number"
        raise InputError(f'{file}: {kind} {culprit}: "{key}" is not {expected}. Fix or remove it.')
    for row in np.flatnonzero(~np.isfinite(table).reshape(len(records), -1).all(axis=1)):
        raise InputError(f'{file}: {kind} {row}: "{key}" holds a number that is not finite. Fix or remove it.')
    return table


def numbers(values: list[Any], shape: tuple[int, ...]) -> np.ndarray | None:
    """(R, *shape) float64, or None if some value is not nested lists of numbers (true and "1" are none)."""
    flat = values
    for size in shape:
        if not all(type(value) is list and len(value) == size for value in flat):
            return None
        flat = list(chain.from_iterable(flat))
    if not set(map(type, flat)) <= {int, float}:
        return None
    try:
        return np.array(flat, np.float64).reshape(len(values), *shape)
    except OverflowError:  # an integer beyond every float
        return None
