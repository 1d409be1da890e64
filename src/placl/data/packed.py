"""A packed pool: crops and labels of a dataset in one folder, ready to be mapped into memory.

``crops.npy`` and one ``.npy`` for every other array, ``pool.json`` for the rest. Written beside its place and renamed.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.crop_cache import build_pool
from placl.data.formats.format import Options
from placl.data.formats.registry import read_source
from placl.data.importing import Imported, default_folder, joined_roles
from placl.data.pool import Pool
from placl.data.protocols import read_protocol
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.files import disk_errors

ARRAYS = ("rows", "keypoints", "visibility", "length", "area", "to_image", "image")
FORMAT = 1  # raise it when files of the old layout can no longer be read


def write_pool(pool: Pool, folder: Path) -> Path:
    """``folder`` must not be there yet."""
    building = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.part")
    with disk_errors(folder):
        try:
            building.mkdir(parents=True)
            target = np.lib.format.open_memmap(
                building / "crops.npy", mode="w+", dtype=np.uint8, shape=(len(pool), *pool.crops.shape[1:])
            )
            for start in range(0, len(pool), 1024):
                target[start : start + 1024] = pool.crops[pool.rows[start : start + 1024]]
            target.flush()
            for name in ARRAYS[1:]:
                np.save(building / f"{name}.npy", getattr(pool, name), allow_pickle=False)
            if pool.head is not None:
                np.save(building / "head.npy", pool.head, allow_pickle=False)
            facts = {"format": FORMAT, "view": pool.view, "ids": pool.ids, "skeleton": asdict(pool.skeleton)}
            (building / "pool.json").write_text(json.dumps(facts), encoding="utf-8")
            os.rename(building, folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return folder


def read_pool(folder: Path) -> Pool:
    """A pool whose crops stay on the disk."""
    try:
        facts = json.loads((folder / "pool.json").read_text(encoding="utf-8"))
        arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in ARRAYS[1:]}
        head = folder / "head.npy"
        return Pool(
            skeleton=_skeleton(facts["skeleton"]),
            crops=np.load(folder / "crops.npy", mmap_mode="r", allow_pickle=False),
            rows=np.arange(len(facts["ids"])),
            ids=tuple(facts["ids"]),
            view=float(facts["view"]),
            head=np.load(head, allow_pickle=False) if head.exists() else None,
            **arrays,
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder}: is not a packed pool ({error}). Make it again: placl data import --to pool."
        ) from error


def _skeleton(facts: dict[str, Any]) -> Skeleton:
    edges, pairs = (tuple((int(a), int(b)) for a, b in facts[key]) for key in ("edges", "flip_pairs"))
    return Skeleton(tuple(facts["keypoints"]), edges, pairs, tuple(facts["sigmas"]))


def import_pool(
    source: Path,
    out: Path | None,
    format_name: str | None,
    protocol: str | None,
    options: Options,
    size: int,
    overwrite: bool,
    on_progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> Imported:
    """Cut a source's instances out into a packed pool."""
    out = out or default_folder(source)
    if out.exists() and not overwrite:
        raise InputError(f"{out}: is there already. Name another folder with --out, or pass --overwrite.")
    if protocol is not None:
        roles, notes = read_protocol(protocol, source)
        name, instances = protocol, joined_roles(roles)
    else:
        known, found = read_source(source, format_name, options)
        name, instances, notes = known.name, found.instances, list(found.notes)
    cache = out.with_name(f".{out.name}.crops")
    try:
        pool, skipped = build_pool(
            instances, view=size, cache=cache, progress=on_progress, workers=workers or os.cpu_count() or 1
        )
        if out.exists():
            shutil.rmtree(out)
        write_pool(pool, out)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    kept = instances.take(np.flatnonzero(np.isin(np.array(instances.ids), np.array(pool.ids))))
    return Imported(name, kept, (out / "pool.json",), (*notes, *(f"skipped {line}" for line in skipped)))
