"""From the sources of a configuration to one pool: every source read, joined and cropped once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placl.config import Data, Source
from placl.data.crop_cache import build_pool
from placl.data.dividing import without_labels
from placl.data.formats import coco, folder
from placl.data.formats.format import Found, Options
from placl.data.formats.registry import read_source, recognise
from placl.data.instances import Instances, join
from placl.data.pool import Pool
from placl.errors import InputError

Roles = list[tuple[str, Instances]]  # "labelled", "unlabelled", "val" or "test", and what has that role


@dataclass(frozen=True)
class Dataset:
    """All instances of a training, and the role that their source gives each."""

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
    sources, notes = read_sources(settings)
    named = _named(settings)
    skeleton = next((s.skeleton for _, s in sources if s.skeleton is not None), None)
    if skeleton is None:
        raise InputError(f"{named}: no annotation has keypoints. Name a file that has labels.")
    if not skeleton.flip_pairs:
        notes.append(
            "no keypoints are known to be left and right of each other. If some are, mirrored images teach wrong "
            "labels: set augment.flip=0 and label.flip=false, or name them left_... and right_... (--keypoints)."
        )
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
        raise InputError(f"{named}: no labelled instance: no annotation has a keypoint with v > 0.")
    return Dataset(pool, source, tuple(notes), tuple(skipped))


def read_sources(settings: Data) -> tuple[Roles, list[str]]:
    """Every source with its role, an image in one role only; and what a person should know."""
    if settings.protocol is not None:
        from placl.data.protocols import read_protocol

        sources, notes = read_protocol(settings.protocol, settings.root)
    else:
        sources, notes = _read_labelled(settings)
    taken = _images_by_role(sources)
    for given in settings.unlabeled:
        found = read_unlabelled(given, settings)
        notes += found.notes
        rest = _without(found.instances, set(taken))
        if left_out := len(found.instances) - len(rest):
            notes.append(f"{_path(given)}: {left_out} instances are of images that other files name; left out.")
        sources.append(("unlabelled", rest))
        taken |= dict.fromkeys((image.resolve() for image in rest.images), "unlabelled")
    return sources, notes


def _read_labelled(settings: Data) -> tuple[Roles, list[str]]:
    if not settings.labeled:
        raise InputError("no labels: name a COCO keypoint file with --labeled or data.labeled.")
    sources: Roles = []
    notes: list[str] = []
    for role, files in (("labelled", settings.labeled), ("val", settings.val), ("test", settings.test)):
        for given in files:
            found = _read(given, settings)
            if role == "labelled" and settings.label_fraction < 1 and not settings.trust_drawn_boxes:
                _refuse_drawn_boxes(given, found.instances)
            sources.append((role, found.instances))
            notes += found.notes
    return sources, notes


def read_unlabelled(given: Path | Source, settings: Data) -> Found:
    """Images, frames or boxes; of annotation files, the labels and boxes drawn around them are not used."""
    path, options = _path(given), _options(given, settings)
    known = recognise(path)
    plain = known is coco.FORMAT or path.suffix.lower() == ".json"
    if plain and not isinstance(given, Source) and known in (coco.FORMAT, None):
        return Found(coco.read_boxes(path, options.images or path.parent))
    if not path.exists() or (known is folder.FORMAT and settings.boxes is not None):
        return Found(folder.read_folder(path, settings.boxes))
    found = _read(given, settings)
    return Found(without_labels(found.instances), found.notes)


def _read(given: Path | Source, settings: Data) -> Found:
    path, options = _path(given), _options(given, settings)
    if not isinstance(given, Source):
        # A .json that no format knows is a broken COCO file: its reader can say what is wrong.
        known = coco.FORMAT.name if path.suffix.lower() == ".json" and recognise(path) is None else None
        return read_source(path, known, options)[1]
    found = read_source(path, given.format, options)[1]
    instances = found.instances
    kept = np.ones(len(instances), bool)
    for what, wanted, values in (
        ("split", None if given.split is None else (given.split,), _per_instance(instances)),
        ("class", given.classes, instances.classes),
    ):
        if wanted is None:
            continue
        known_values = sorted(set(values))
        missing = [name for name in wanted if name not in known_values]
        if missing:
            has = ", ".join(filter(None, known_values)) or "none"
            raise InputError(f'{path}: has no {what} "{missing[0]}". Known here: {has}.')
        kept &= np.isin(np.array(values), wanted)
    return Found(instances.take(np.flatnonzero(kept)), found.notes)


def _per_instance(instances: Instances) -> tuple[str, ...]:
    """(N,) the split of each instance's image."""
    return tuple(instances.splits[i] for i in instances.image_index) if instances.splits else ()


def _path(given: Path | Source) -> Path:
    return given.path if isinstance(given, Source) else given


def _options(given: Path | Source, settings: Data) -> Options:
    options = Options(images=settings.images, keypoints=settings.keypoints)
    if not isinstance(given, Source):
        return options
    return replace(options, images=given.images or options.images, count=given.frames, sampling=given.sampling)


def _named(settings: Data) -> str:
    return str(settings.root if settings.protocol else _path(settings.labeled[0]))


def _refuse_drawn_boxes(given: Path | Source, instances: Instances) -> None:
    if instances.drawn is not None and instances.drawn.any():
        first = instances.ids[int(np.flatnonzero(instances.drawn)[0])]
        raise InputError(
            f"{_path(given)}: {first} has no box, and one drawn around its keypoints would give hidden labels away. "
            "Add boxes, set data.label_fraction=1, or data.trust_drawn_boxes=true to use them all the same."
        )


def _images_by_role(sources: Roles) -> dict[Path, str]:
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
