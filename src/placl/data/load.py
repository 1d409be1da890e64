"""From the sources of a configuration to one pool: every source read, joined and cropped once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from placl.config import Data, Source
from placl.data.correcting import ByInstance, read_corrections
from placl.data.crew import Crew
from placl.data.crop_cache import build_pool, crew_for
from placl.data.dividing import without_labels
from placl.data.formats import coco, folder
from placl.data.formats.format import Found, Options
from placl.data.formats.registry import read_source, recognise
from placl.data.identity import Identity, identify
from placl.data.instances import Instances, Roles, join
from placl.data.pool import Pool
from placl.errors import InputError

ROLE_OF_SPLIT = {"val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class Dataset:
    """All instances of a training, and the role that their source gives each."""

    pool: Pool
    source: np.ndarray  # (N,) "labelled", "unlabelled", "val" or "test"
    notes: tuple[str, ...] = ()  # what was left out on purpose, a line each
    skipped: tuple[str, ...] = ()  # unlabelled images that could not be read, and why
    corrections: ByInstance = field(default_factory=dict)  # what people said of instances


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
    given = [*map(_path, (*settings.labeled, *settings.unlabeled)), *filter(None, [settings.root])]
    with crew_for(given, workers) as crew:
        return _load_dataset(settings, input_size, crew, on_progress)


def _load_dataset(
    settings: Data, input_size: int, crew: Crew, on_progress: Callable[[int, int], None] | None
) -> Dataset:
    instances, role_of, notes = read_instances(settings)
    skeleton = instances.skeleton
    assert skeleton is not None
    if not skeleton.flip_pairs:
        notes.append(
            "no keypoints are known to be left and right of each other. If some are, mirrored images teach wrong "
            "labels: set augment.flip=0 and label.flip=false, or name them left_... and right_... (--keypoints)."
        )
    corrections, told = read_corrections(settings.corrections, skeleton.keypoints)
    pool, skipped = build_pool(
        instances,
        view=input_size,
        context=settings.context,
        margin=settings.margin,
        cache=settings.cache or default_cache(),
        progress=on_progress,
        crew=crew,
    )
    # A labelled file's instance without any keypoint is an unlabelled one.
    roles = dict(zip(instances.ids, role_of, strict=True))
    source = np.array([roles[name] for name in pool.ids], dtype="<U10")
    source[(source == "labelled") & ~pool.labelled] = "unlabelled"
    if not (source == "labelled").any():
        raise InputError(f"{_named(settings)}: no labelled instance: no annotation has a keypoint with v > 0.")
    return Dataset(pool, source, (*notes, *told), tuple(skipped), corrections)


def read_instances(settings: Data) -> tuple[Instances, np.ndarray, list[str]]:
    """All instances of a configuration's sources, (N,) their roles, and what a person should know."""
    sources, notes = read_sources(settings)
    skeleton = next((s.skeleton for _, s in sources if s.skeleton is not None), None)
    if skeleton is None:
        raise InputError(f"{_named(settings)}: no annotation has keypoints. Name a file that has labels.")
    instances = join([found.with_skeleton(skeleton) for _, found in sources])
    role_of = np.concatenate([np.full(len(found), role, dtype="<U10") for role, found in sources])
    return instances, role_of, notes


def read_sources(settings: Data) -> tuple[Roles, list[str]]:
    """Every source with its role, an image in one role only; and what a person should know."""
    if settings.protocol is not None:
        from placl.data.protocols import read_protocol

        sources, notes = read_protocol(settings.protocol, settings.root)
    else:
        sources, notes = _read_labelled(settings)
    names = [role for role, _ in sources]
    for given in settings.unlabeled:
        found = read_unlabelled(given, settings)
        notes += found.notes
        sources.append(("unlabelled", found.instances))
        names.append(str(_path(given)))
    return _one_role_each(sources, names, notes), notes


def _read_labelled(settings: Data) -> tuple[Roles, list[str]]:
    if not settings.labeled:
        raise InputError("no labels: name a labelled source with --labeled, data.labeled or data=placl.yaml.")
    sources: Roles = []
    notes: list[str] = []
    for role, files in (("labelled", settings.labeled), ("val", settings.val), ("test", settings.test)):
        for given in files:
            found = read_labelled(given, settings)
            notes += found.notes
            divided = role == "labelled" and not (settings.val or settings.test)  # else a person has divided the data
            parts = _by_split(given, found.instances, notes) if divided else [(role, found.instances)]
            for own, instances in parts:
                if own == "labelled" and settings.label_fraction < 1 and not settings.trust_drawn_boxes:
                    _refuse_drawn_boxes(given, instances)
                sources.append((own, instances))
    if not any(role == "labelled" for role, _ in sources):
        raise InputError(f"{_path(settings.labeled[0])}: all its images are for validation or test, none to train on.")
    return sources, notes


def _by_split(given: Path | Source, instances: Instances, notes: list[str]) -> Roles:
    """Where a source itself says which images validate and test, and nobody chose a split, that holds."""
    if (isinstance(given, Source) and given.split is not None) or not set(instances.splits) & set(ROLE_OF_SPLIT):
        return [("labelled", instances)]
    split = np.array(_per_instance(instances))
    role = np.array([ROLE_OF_SPLIT.get(name, "labelled") for name in split])
    parts = [(name, instances.take(np.flatnonzero(role == name))) for name in ("labelled", "val", "test")]
    parts = [(name, part) for name, part in parts if len(part)]
    counts = ", ".join(f"{len(part)} {name}" for name, part in parts)
    notes.append(f"{_path(given)}: has splits of its own, which hold here: {counts}. `split` of a source chooses one.")
    return parts


def read_unlabelled(given: Path | Source, settings: Data) -> Found:
    """Images, frames or boxes; of annotation files, the labels and boxes drawn around them are not used."""
    path, options = _path(given), _options(given, settings)
    chosen = isinstance(given, Source) and (given.format or given.split or given.classes) is not None
    known = recognise(path)
    if not chosen and (known is coco.FORMAT or (known is None and path.suffix.lower() == ".json")):
        return Found(coco.read_boxes(path, options.images or path.parent))
    if not chosen and known in (None, folder.FORMAT):  # a folder's annotation files say nothing of its other images
        return Found(folder.read_folder(path, settings.boxes))
    found = read_labelled(given, settings)
    return Found(without_labels(found.instances), found.notes)


def read_labelled(given: Path | Source, settings: Data) -> Found:
    """A source with its labels, and only the split and the classes that were chosen."""
    path, options = _path(given), _options(given, settings)
    given = given if isinstance(given, Source) else Source(path=path)
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
    if not kept.any():
        raise InputError(f"{path}: no instance is of the split and of the classes that were chosen.")
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


def _one_role_each(sources: Roles, names: list[str], notes: list[str]) -> Roles:
    """Each image in one role, under whatever name and as whatever copy, or a split would leak.

    Two files that give an image different roles are refused; unlabelled sources lose what others have.
    """
    known = identify([found.images for _, found in sources])
    roles: dict[Identity, str] = {}
    kept: Roles = []
    for number, ((role, found), identities, name) in enumerate(zip(sources, known, names, strict=True)):
        if role == "unlabelled":
            # Each image once, also among unlabelled sources: in both halves, it would undo cross-training.
            free = np.array([identity not in roles for identity in identities], dtype=bool)
            rest = found.take(np.flatnonzero(free[found.image_index])) if not free.all() else found
            if left_out := len(found) - len(rest):
                notes.append(f"{name}: {left_out} instances are of images that other files name; left out.")
            roles |= dict.fromkeys(identities, role)
            kept.append((role, rest))
            continue
        for image, identity in zip(found.images, identities, strict=True):
            if roles.setdefault(identity, role) != role:
                raise InputError(
                    f"{image.name}: is a {roles[identity]} image and a {role} image. An image has one role; "
                    "take it out of one of the files."
                )
        kept.append((role, sources[number][1]))
    return kept
