"""What readers share: finding image files, boxes where a format has none, numbers from text."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.pool import UNLABELLED
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
    return json.loads(path.read_bytes())


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


def require_image(roots: list[Path], name: str, where: str) -> Path:
    """As :func:`find_image`; ``where`` names the file and record for the complaint."""
    found = find_image(roots, name)
    if found is None:
        raise InputError(f'{where}: image "{name}" does not exist under {roots[0]}. Pass --images DIR.')
    return found


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
        for i in range(n):
            known = keypoints[i][visibility[i] > UNLABELLED]
            if len(np.unique(known, axis=0)) > 1:
                boxes[i], drawn[i] = box_around(known), True
    return boxes, (boxes[:, 2] * boxes[:, 3]).astype(np.float32), drawn
