"""Tables of labels and the images beside them -> :class:`~placl.data.instances.Instances`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

import numpy as np

from placl.data.formats.common import Leads, boxes_where_none_are, find_image, real_file, require_image
from placl.data.formats.deeplabcut_table import Table
from placl.data.formats.folder import SUFFIXES
from placl.data.formats.format import Found
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

FRAMES = "labeled-data"  # the folder that both tools keep labelled images in


@dataclass(frozen=True)
class Part:
    """A table, the folders its image names are relative to, and images that are unlabelled if no table lists them."""

    table: Table | None
    roots: list[Path]
    frames: tuple[tuple[str, Path], ...] = ()  # name and file
    split: str = ""


@dataclass(frozen=True)
class Naming:
    """What is known of bodyparts beside the tables: their order, edges between them, and names to give them."""

    bodyparts: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    keypoints: tuple[str, ...] | None = None  # --keypoints


@dataclass
class _Rows:
    """Images in order, each with its name, source and part of the dataset."""

    images: list[Path]
    names: list[str]
    sources: list[str]
    splits: list[str]


def instances_of(path: Path, parts: Sequence[Part], naming: Naming) -> Found:
    """An instance for each individual that is labelled in an image; an image without any is one unlabelled instance."""
    tables = [part.table for part in parts if part.table is not None]
    bodyparts = _bodyparts(path, tables, naming.bodyparts)
    skeleton = _skeleton(path, bodyparts, naming)
    rows, notes = _Rows([], [], [], []), _unique_notes(tables)
    taken = Leads()
    chosen, owners, points = [], [], []
    for part in parts:
        if part.table is not None:
            start, known = len(rows.images), part.table.with_bodyparts(bodyparts)  # (R, I, K, 2)
            kept, labelled = _find_rows(part, rows, taken, notes)
            labelled = labelled[kept]
            labelled[:, 0] |= ~labelled.any(axis=1)
            row, individual = np.nonzero(labelled)
            chosen.append(start + row)
            owners += [part.table.individuals[i] for i in individual]
            points.append(known[kept][row, individual])
        start = len(rows.images)
        _add_frames(part, rows, taken)
        chosen.append(np.arange(start, len(rows.images)))
        owners += [""] * len(chosen[-1])
        points.append(np.full((len(chosen[-1]), len(bodyparts), 2), np.nan, np.float32))
    image_index = np.concatenate(chosen).astype(np.int64)
    if not len(image_index):
        raise InputError(f"{path}: lists no images. Label some, or pass the folder of images instead.")
    found = np.concatenate(points)  # (N, K, 2)
    visibility = np.where(np.isnan(found[..., 0]), UNLABELLED, VISIBLE).astype(np.uint8)
    keypoints = np.nan_to_num(found, nan=0.0)
    boxes, area, drawn = boxes_where_none_are(image_index, keypoints, visibility)
    instances = Instances(
        skeleton=skeleton,
        images=tuple(rows.images),
        image_index=image_index,
        boxes=boxes,
        keypoints=keypoints,
        visibility=visibility,
        area=area,
        ids=_ids(rows, image_index, owners, visibility),
        sources=tuple(rows.sources),
        splits=tuple(rows.splits) if any(rows.splits) else (),
        drawn=drawn,
    )
    return Found(instances, tuple(notes))


def images_in(folder: Path) -> list[str]:
    """Names of the image files that lie directly in a folder, in order."""
    names = (entry.name for entry in os.scandir(folder) if entry.is_file() and not entry.name.startswith("."))
    return sorted(name for name in names if name.lower().endswith(SUFFIXES))


def _bodyparts(path: Path, tables: list[Table], order: tuple[str, ...]) -> tuple[str, ...]:
    """Those of all tables, in the project's order; the project's own while nothing is labelled."""
    used = dict.fromkeys(part for table in tables for part in table.bodyparts)
    bodyparts = tuple(part for part in order if part in used or not used)
    bodyparts += tuple(part for part in used if part not in bodyparts)
    if not bodyparts:
        raise InputError(f"{path}: names no bodyparts. Pass a folder with labels, or its images with --format images.")
    return bodyparts


def _skeleton(path: Path, bodyparts: tuple[str, ...], naming: Naming) -> Skeleton:
    names = naming.keypoints or bodyparts
    if len(names) != len(bodyparts):
        raise InputError(f"{path}: has {len(bodyparts)} bodyparts, --keypoints names {len(names)}. Name each of them.")
    number = {part: i for i, part in enumerate(bodyparts)}
    # A skeleton may mention unique bodyparts, or those of the template that no one has removed.
    edges = [(number[a], number[b]) for a, b in naming.edges if a in number and b in number and a != b]
    try:
        return Skeleton(names, tuple(dict.fromkeys(edges)), flip_pairs_by_name(names))
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from error


def _unique_notes(tables: list[Table]) -> list[str]:
    unique = list(dict.fromkeys(part for table in tables for part in table.unique))
    if not unique:
        return []
    return [f"{tables[0].path.name}: unique bodyparts left out, they belong to no animal: {', '.join(unique)}."]


def _find_rows(part: Part, rows: _Rows, taken: Leads, notes: list[str]) -> tuple[list[int], np.ndarray]:
    """Add the table's images; which of its rows were kept, and (R, I) which individuals are labelled."""
    table = part.table
    assert table is not None
    labelled = ~np.isnan(table.points[..., 0]).all(axis=2)
    kept, missing = [], []
    for i, (name, needed) in enumerate(zip(table.names, labelled.any(axis=1).tolist(), strict=True)):
        image = require_image(part.roots, name, str(table.path)) if needed else find_image(part.roots, name)
        if image is None:
            missing.append(name)
            continue
        if image in taken:
            taken.add(image, name, str(table.path))
            raise InputError(f'{table.path}: image "{name}" is in another table as well. Keep one.')
        taken.add(image, name, str(table.path))
        kept.append(i)
        _add(rows, tidy(image), name, str(table.path), part.split)
    if missing:
        notes.append(f'{table.path.name}: {len(missing)} unlabelled rows without an image left out ("{missing[0]}").')
    return kept, labelled


def _add_frames(part: Part, rows: _Rows, taken: Leads) -> None:
    for name, file in part.frames:
        if file not in taken:
            taken.add(file, name, str(file.parent))
            _add(rows, file, name, str(file.parent), part.split)


def _add(rows: _Rows, image: Path, name: str, source: str, split: str) -> None:
    rows.images.append(image)
    rows.names.append(name)
    rows.sources.append(source)
    rows.splits.append(split)


def tidy(image: Path) -> Path:
    """Without detours (a/../b), unless a link makes the detour lead elsewhere."""
    short = os.path.normpath(image)
    return Path(short) if real_file(Path(short)) == real_file(image) else image


def short_name(name: str) -> str:
    """From labeled-data on, or without the way up that leads from a table to another folder's images."""
    parts = name.split("/")
    if FRAMES in parts:
        last = len(parts) - 1 - parts[::-1].index(FRAMES)
        return "/".join(parts[last:])
    return "/".join(dropwhile(lambda part: part == "..", parts))


def _ids(rows: _Rows, image_index: np.ndarray, owners: list[str], visibility: np.ndarray) -> tuple[str, ...]:
    """As in ``labeled-data/VIDEO/img.png#mus1``, wherever the project lies, as far as that is unique."""
    choices = ([short_name(name) for name in rows.names], rows.names, [str(image) for image in rows.images])
    names = next(choice for choice in choices if len(set(choice)) == len(choice))
    labelled = np.asarray((visibility > UNLABELLED).any(axis=1))
    return tuple(
        f"{names[i]}#{owner}" if owner and known else names[i]
        for i, owner, known in zip(image_index, owners, labelled, strict=True)
    )
