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

from placl.data.crop_cache import build_pool, crew_for
from placl.data.crop_file import reserve
from placl.data.formats.format import Options
from placl.data.importing import Imported, default_folder, read_any, refuse_target
from placl.data.instances import Instances
from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.files import disk_errors, sync

ARRAYS = ("rows", "keypoints", "visibility", "length", "area", "to_image", "image")
FORMAT = 1  # raise it when files of the old layout can no longer be read


FILES = {"pool.json", "crops.npy", "head.npy", *(f"{name}.npy" for name in ARRAYS[1:])}
FACTS = {"splits": "", "classes": "", "drawn": False}  # what goes beyond a pool, by instance, and where it is unknown


def write_pool(pool: Pool, folder: Path, facts: dict[str, list[Any]] | None = None) -> Path:
    """``folder`` must not be there yet, or be empty. ``facts`` are lists beside the ids, see :func:`read_facts`."""
    building = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.part")
    with disk_errors(folder):
        try:
            building.mkdir(parents=True)
            target = reserve(building / "crops.npy", (len(pool), *pool.crops.shape[1:]))
            for start in range(0, len(pool), 1024):
                some = pool.rows[start : start + 1024]
                target.write(np.arange(start, start + len(some)), pool.crops[some])
            for name in ARRAYS[1:]:
                np.save(building / f"{name}.npy", getattr(pool, name), allow_pickle=False)
            if pool.head is not None:
                np.save(building / "head.npy", pool.head, allow_pickle=False)
            rest = {"format": FORMAT, "view": pool.view, "ids": pool.ids, "skeleton": asdict(pool.skeleton)}
            (building / "pool.json").write_text(json.dumps(rest | (facts or {})), encoding="utf-8")
            for file in building.iterdir():
                sync(file)
            if folder.is_dir():
                folder.rmdir()
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
        crops = np.load(folder / "crops.npy", mmap_mode="r", allow_pickle=False)
        if crops.dtype != np.uint8 or crops.ndim != 4 or crops.shape[::3] != (len(facts["ids"]), 3):
            raise ValueError(f"its crops are {crops.dtype} of shape {crops.shape}")
        return Pool(
            skeleton=skeleton_from(facts["skeleton"]),
            crops=crops,
            rows=np.arange(len(facts["ids"])),
            ids=tuple(facts["ids"]),
            view=float(facts["view"]),
            head=np.load(head, allow_pickle=False) if head.exists() else None,
            **arrays,
        )
    except Exception as error:  # numpy reads a head as Python, which fails in as many ways as Python has
        raise _not_a_pool(folder, error) from error


def read_facts(folder: Path) -> dict[str, list[Any]]:
    """What a source told of the instances beyond their pool, in the order of its ids.

    "splits" ("train", "unlabelled", "val", "test"; "" unknown), "classes", and "drawn": boxes around the keypoints.
    """
    try:
        content = json.loads((folder / "pool.json").read_text(encoding="utf-8"))
        count = len(content["ids"])
        facts = {name: content.get(name, [unknown] * count) for name, unknown in FACTS.items()}
        for name, values in facts.items():
            if not isinstance(values, list) or len(values) != count:
                raise ValueError(f"{name} are not {count}")
        return facts
    except Exception as error:  # whatever damaged JSON has where lists are expected
        raise _not_a_pool(folder, error) from error


def _not_a_pool(folder: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split())
    return InputError(f"{folder}: is not a packed pool ({reason}). Make it again: placl data import --to pool.")


def _facts(instances: Instances) -> dict[str, list[Any]]:
    splits = instances.splits or ("",) * len(instances.images)
    drawn = np.zeros(len(instances), bool) if instances.drawn is None else instances.drawn
    return {
        "splits": [splits[image] for image in instances.image_index],
        "classes": list(instances.classes or ("",) * len(instances)),
        "drawn": drawn.tolist(),
    }


def skeleton_from(facts: dict[str, Any]) -> Skeleton:
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
    refuse_target(source, out, overwrite)
    if out.is_dir() and (foreign := sorted({path.name for path in out.iterdir()} - FILES)):
        raise InputError(f"{out}: holds more than a packed pool ({foreign[0]}). Name another folder with --out.")
    cache = out.with_name(f".{out.name}.crops")
    try:
        with crew_for([source], workers or os.cpu_count() or 1) as crew:
            name, instances, notes = read_any(source, format_name, protocol, options)
            pool, skipped = build_pool(instances, view=size, cache=cache, progress=on_progress, crew=crew)
        place = {identity: row for row, identity in enumerate(instances.ids)}
        kept = instances.take(np.array([place[identity] for identity in pool.ids], np.int64))
        if out.exists():
            shutil.rmtree(out)
        write_pool(pool, out, _facts(kept))
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return Imported(name, kept, (out / "pool.json",), (*(f"skipped {line}" for line in skipped), *notes))
