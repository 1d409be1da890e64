"""The image files that a COCO file names, each looked for and none by two names, and what it says of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.coco_records import BEYOND, Record, quoted
from placl.data.formats.common import shown
from placl.errors import InputError


def image_files(
    path: Path, folder: Path | None, images: dict[Any, Record], annotations: list[Record], required: set[Any]
) -> tuple[tuple[Path, ...], np.ndarray]:
    """The image files of the annotations, and (N,) int64 into them. Images that are not ``required`` may be missing."""
    root = path.parent if folder is None else folder
    if not root.is_dir():
        raise InputError(f"{root}: is not a folder. Pass the folder of the images as --images DIR.")
    listing = _Listing(root)
    files: list[Path] = []
    names: list[str] = []  # that led to them
    position: dict[str, int] = {}  # of a file, by its text, which is hashed ten times as fast
    leads_to: dict[Any, int] = {}  # image id -> file
    for key in dict.fromkeys(annotation["image_id"] for annotation in annotations):
        name = images[key]["file_name"]
        file = _find(listing, name)
        if file is None:
            if key in required:
                raise InputError(
                    f"{path}: image {quoted(key)} {quoted(name)} does not exist under {shown(root)}. Pass --images DIR."
                )
            file = Path(os.path.join(root, name))
        leads_to[key] = place = position.setdefault(str(file), len(files))
        if place == len(files):
            files.append(file)
            names.append(name)
        elif names[place] != name:
            raise InputError(
                f"{path}: {quoted(names[place])} and {quoted(name)} both lead to {file}. Pass --images DIR."
            )
    index = [leads_to[annotation["image_id"]] for annotation in annotations]
    return tuple(files), np.array(index, np.int64)


def splits_of(
    files: tuple[Path, ...], index: np.ndarray, images: dict[Any, Record], annotations: list[Record]
) -> tuple[str, ...]:
    """(M,) what the images say under "split", which goes beyond COCO; empty if none does."""
    splits = [""] * len(files)
    for file, annotation in zip(index, annotations, strict=True):
        splits[file] = str(images[annotation["image_id"]].get("split") or "")
    return tuple(splits) if any(splits) else ()


def stated_sizes(count: int, index: np.ndarray, images: dict[Any, Record], annotations: list[Record]) -> np.ndarray:
    """(M, 2) what the images say under "width" and "height"; NaN where that is no number of pixels."""
    stated = np.full((count, 2), np.nan)
    for file, annotation in zip(index, annotations, strict=True):
        size = [images[annotation["image_id"]].get(key) for key in ("width", "height")]
        if all(type(side) is int and 0 < side < BEYOND for side in size):
            stated[file] = size
    return stated


class _Listing:
    """Which files exist, by listing each folder once: ten times as fast as asking for ten thousand of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: dict[str, dict[str, Path]] = {}  # as names spell them -> what is in them

    def find(self, name: str) -> Path | None:
        folder, last = os.path.split(name)
        inside = self._folders.get(folder)
        if inside is None:
            inside = self._folders[folder] = self._list(folder)
        return inside.get(last)

    def _list(self, folder: str) -> dict[str, Path]:
        try:  # as paths, which are made three times as fast here as from their text
            return {file.name: file for file in Path(os.path.join(self._root, folder)).iterdir()}
        except (OSError, ValueError):
            return {}


def _find(listing: _Listing, name: str) -> Path | None:
    """As :func:`~placl.data.formats.common.find_image`: names may be of somebody else's disk, or with backslashes."""
    found = listing.find(name)
    parts = name.replace("\\", "/").split("/")
    for start in range(len(parts)):  # the longest part of a name counts: a/b/c.png, b/c.png, c.png
        if found is not None:
            break
        tail = "/".join(parts[start:])
        found = listing.find(tail) or listing.find(os.path.join("images", tail))
    return found
