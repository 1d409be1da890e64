"""Which files are the same image: under other names, as links, or as copies.

An image in two roles is a leak, and ``placl data import`` itself makes links and copies of images.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

Identity = tuple[object, ...]


def identify(sources: Sequence[Sequence[Path]]) -> list[list[Identity]]:
    """For each image file of each source, something that is equal for equal images.

    A file is known by its place on the disk, whatever its names. Files of different sources that are equally long are
    compared by content.
    """
    stats = [[_stat(path) for path in paths] for paths in sources]
    seen_in: dict[int, set[int]] = {}  # length -> the sources that have files of it
    for number, files in enumerate(stats):
        for found in files:
            if found is not None:
                seen_in.setdefault(found.st_size, set()).add(number)
    return [
        [_identity(path, found, seen_in) for path, found in zip(paths, files, strict=True)]
        for paths, files in zip(sources, stats, strict=True)
    ]


def _identity(path: Path, found: os.stat_result | None, seen_in: dict[int, set[int]]) -> Identity:
    if found is None:
        return "missing", str(path.absolute())
    if len(seen_in[found.st_size]) > 1:
        content = _content(str(path), found.st_size, found.st_mtime_ns)
        if content is not None:
            return "content", content
    return "file", found.st_dev, found.st_ino


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=1_000_000)
def _content(path: str, size: int, changed: int) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read()).digest()
    except OSError:
        return None
