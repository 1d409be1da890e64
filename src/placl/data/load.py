"""From the paths of a configuration to one pool: every source read, joined and cropped once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from placl.config import Data
from placl.data.crop_cache import build_pool
from placl.data.formats.coco import read_boxes, read_coco
from placl.data.formats.folder import read_folder
from placl.data.instances import Instances, join
from placl.data.pool import Pool
from placl.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """All instances of a training, and the kind of file each comes from."""

    pool: Pool
    source: np.ndarray  # (N,) "labelled", "unlabelled", "val" or "test"
    notes: tuple[str, ...] = ()  # what was left out on purpose, a line each
    skipped: tuple[str, ...] = ()  # unlabelled images that could not be read, and why


def default_cache() -> Path:
    """The user's cache folder, as the platform has it; ``PLACL_CACHE`` overrules."""
    if chosen := os.environ.get("PLACL_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "placl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "placl"


def load_dataset(
    settings: Data, input_size: int, *, workers: int = 1, on_progress: Callable[[int, int], None] | None = None
) -> Dataset:
    if not settings.labeled:
        raise InputError("no labels: name a COCO keypoint file with --labeled or data.labeled.")
    sources: list[tuple[str, Instances]] = []
    for role, files in (("labelled", settings.labeled), ("val", settings.val), ("test", settings.test)):
        hides = role == "labelled" and settings.label_fraction < 1
        sources += [
            (role, read_coco(path, settings.images, keypoints=settings.keypoints, draw_boxes=not hides))
            for path in files
        ]
    taken = _images_by_role(sources)
    notes: list[str] = []
    for path in settings.unlabeled:
        found = read_unlabelled(path, settings)
        rest = _without(found, set(taken))
        if len(rest) < len(found):
            notes.append(f"{path}: {len(found) - len(rest)} instances are of images that other files name; left out.")
        sources.append(("unlabelled", rest))
        taken |= dict.fromkeys((image.resolve() for image in rest.images), "unlabelled")
    skeleton = next((s.skeleton for _, s in sources if s.skeleton is not None), None)
    if skeleton is None:
        raise InputError(f"{settings.labeled[0]}: no annotation has keypoints. Name a file that has labels.")
    instances = join([found.with_skeleton(skeleton) for _, found in sources])
    role_of = np.concatenate([np.full(len(found), role, dtype="<U10") for role, found in sources])
    pool, skipped = build_pool(
        instances,
        view=input_size,
        context=settings.context,
        margin=settings.margin,
        cache=settings.cache or default_cache(),
        progress=on_progress,
        workers=workers,
    )
    # A labelled file's instance without any keypoint is an unlabelled one.
    roles = dict(zip(instances.ids, role_of, strict=True))
    source = np.array([roles[name] for name in pool.ids], dtype="<U10")
    source[(source == "labelled") & ~pool.labelled] = "unlabelled"
    if not (source == "labelled").any():
        raise InputError(f"{settings.labeled[0]}: no labelled instance: no annotation has a keypoint with v > 0.")
    return Dataset(pool, source, tuple(notes), tuple(skipped))


def read_unlabelled(path: Path, settings: Data) -> Instances:
    """A folder or image, or a COCO json of which only the boxes are read."""
    if path.suffix.lower() == ".json":
        return read_boxes(path, settings.images or path.parent)
    return read_folder(path, settings.boxes)


def _images_by_role(sources: list[tuple[str, Instances]]) -> dict[Path, str]:
    """Each image's role; an image may not be in two, or a split would leak."""
    roles: dict[Path, str] = {}
    for role, found in sources:
        for image in found.images:
            image = image.resolve()
            if roles.setdefault(image, role) != role:
                raise InputError(
                    f"{image.name}: is a {roles[image]} image and a {role} image. An image has one role; "
                    "take it out of one of the files."
                )
    return roles


def _without(instances: Instances, taken: set[Path]) -> Instances:
    bad = np.array([image.resolve() in taken for image in instances.images], dtype=bool)
    if not bad.any():
        return instances
    return instances.take(np.flatnonzero(~bad[instances.image_index]))
