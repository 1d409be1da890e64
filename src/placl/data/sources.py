"""The sources of a dataset, each read as what it is: labels of the split and classes that were chosen, or images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from placl.config import Data, Source
from placl.data.dividing import without_labels
from placl.data.formats import coco, folder
from placl.data.formats.coco_unlabelled import read_images
from placl.data.formats.format import Found, Options
from placl.data.formats.registry import read_source, recognise
from placl.data.identity import Identity, identify
from placl.data.instances import Instances, Roles, own_roles
from placl.errors import InputError


def read_given(settings: Data) -> tuple[Roles, list[str], list[str]]:
    """Every source of a dataset with its role, the names of the sources, and what a person should know."""
    sources, notes = _read_protocol(settings) if settings.protocol is not None else _read_labelled(settings)
    names = [role for role, _ in sources]
    for given in settings.unlabeled:
        found = read_unlabelled(given, settings)
        notes += found.notes
        sources.append(("unlabelled", found.instances))
        names.append(str(path_of(given)))
    named = tuple(f"videos/{path_of(given).name}: a video" for given in settings.unlabeled)
    return sources, names, [note for note in notes if not note.startswith(named)]


def _read_protocol(settings: Data) -> tuple[Roles, list[str]]:
    from placl.data.protocols import read_protocol

    assert settings.protocol is not None
    return read_protocol(settings.protocol, settings.root, settings.val_from)


def _read_labelled(settings: Data) -> tuple[Roles, list[str]]:
    sources: Roles = []
    notes: list[str] = []
    for role, files in (("labelled", settings.labeled), ("val", settings.val), ("test", settings.test)):
        for given in files:
            found = read_labelled(given, settings)
            notes += found.notes
            divided = role == "labelled" and not (settings.val or settings.test)  # else a person has divided the data
            parts = by_split(given, found.instances, notes) if divided else [(role, found.instances)]
            for own, instances in parts:
                if own == "labelled" and settings.label_fraction < 1 and not settings.trust_drawn_boxes:
                    _refuse_drawn_boxes(given, instances)
                sources.append((own, instances))
    return sources, notes


def by_split(given: Path | Source, instances: Instances, notes: list[str]) -> Roles:
    """Where a source itself says which images validate and test, and nobody chose a split, that holds."""
    role = own_roles(instances)
    if role is None or (isinstance(given, Source) and given.split is not None):
        return [("labelled", instances)]
    parts = [(name, instances.take(np.flatnonzero(role == name))) for name in ("labelled", "val", "test")]
    parts = [(name, part) for name, part in parts if len(part)]
    counts = ", ".join(f"{len(part)} {name}" for name, part in parts)
    notes.append(
        f"{path_of(given)}: has splits of its own, which hold here: {counts}. `split` of a source chooses one."
    )
    return parts


def read_unlabelled(given: Path | Source, settings: Data) -> Found:
    """Images, frames or boxes; of annotation files, the labels and boxes drawn around them are not used.

    All images of a COCO file: those that it has no annotation for are whole.
    """
    path, options = path_of(given), _options(given, settings)
    chosen = isinstance(given, Source) and (given.format or given.split or given.classes) is not None
    known = recognise(path)
    if not chosen and (known is coco.FORMAT or (known is None and path.suffix.lower() == ".json")):
        return read_images(path, options.images or path.parent)
    if not chosen and known in (None, folder.FORMAT):  # a folder's annotation files say nothing of its other images
        return Found(folder.read_folder(path, settings.boxes))
    found = read_labelled(given, settings)
    return Found(without_labels(found.instances), found.notes)


def read_labelled(given: Path | Source, settings: Data) -> Found:
    """A source with its labels, and only the split and the classes that were chosen."""
    path, options = path_of(given), _options(given, settings)
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


def path_of(given: Path | Source) -> Path:
    return given.path if isinstance(given, Source) else given


def _options(given: Path | Source, settings: Data) -> Options:
    options = Options(images=settings.images, keypoints=settings.keypoints)
    if not isinstance(given, Source):
        return options
    return replace(
        options,
        images=given.images or options.images,
        keypoints=given.keypoints or options.keypoints,
        count=given.frames,
        sampling=given.sampling,
    )


def _refuse_drawn_boxes(given: Path | Source, instances: Instances) -> None:
    if instances.drawn is not None and instances.drawn.any():
        first = instances.ids[int(np.flatnonzero(instances.drawn)[0])]
        raise InputError(
            f"{path_of(given)}: {first} has no box, and one drawn around its keypoints would give hidden labels away. "
            "Add boxes, set data.label_fraction=1, or data.trust_drawn_boxes=true to use them all the same."
        )


def one_role_each(sources: Roles, names: list[str], notes: list[str]) -> Roles:
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
                    f"{image}: is a {roles[identity]} image and a {role} image. An image has one role; take it out of "
                    "one of the files. If they mean other folders, put them beside their images: --images is for all."
                )
        kept.append((role, sources[number][1]))
    return kept
