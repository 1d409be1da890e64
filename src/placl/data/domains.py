"""Across domains: labels of the source, images of the target, and a skeleton of the keypoints that they share.

Labels of the target's training images are refused, or taken off here where a person says so; its validation and test
parts keep theirs. What comes out are roles as of any other dataset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from placl import config as configuration
from placl.config import Data, Source
from placl.config_checks import ACROSS
from placl.data.dividing import without_labels
from placl.data.formats.registry import WITHOUT_LABELS, recognise
from placl.data.instances import Instances, Roles
from placl.data.roles import SOURCE_VAL, as_role, validating_role, with_labels
from placl.data.sharing import Part, Shared, share
from placl.data.sources import by_split, path_of, read_given, read_labelled, read_unlabelled
from placl.errors import InputError

# Keys of a dataset file that say where its data are; the others are the training's own.
READ = {"protocol", "root", "labeled", "unlabeled", "val", "test", "images", "boxes", "keypoints", "context", "margin"}


@dataclass(frozen=True)
class Domains:
    parts: tuple[Part, ...]  # labelled, val, test and then unlabelled, all with the shared skeleton
    shared: Shared
    notes: tuple[str, ...]


def read_domains(settings: Data) -> Domains:
    """Everything that `data.source` and `data.target`, or a protocol across domains, say."""
    notes: list[str] = []
    sources = _sources(settings, notes)
    if settings.protocol is not None:  # it has its own validation part
        roles, _, told = read_given(settings)
        notes += told
        target = settings.protocol.removeprefix(ACROSS)
        val_of = "target" if any(role == "val" and target in found.classes for role, found in roles) else "source"
        parts = [Part(role, found, settings.protocol, role == "labelled") for role, found in roles]
        parts += [part for part in sources if part.role == "labelled"]
    else:
        parts = [*sources, *_targets(settings, notes)]
        validating, told = validating_role(((part.role, part.instances) for part in parts), settings.val_from)
        notes += told
        val_of = "source" if validating == SOURCE_VAL else "target"
        parts = [replace(part, role=own) for part in parts if (own := as_role(part.role, validating))]
    parts.sort(key=lambda part: part.role == "unlabelled")  # images that others name are left out of what comes last
    shared, parts = share(parts, notes)
    return Domains(tuple(parts), replace(shared, val_of=val_of), tuple(notes))


def _sources(settings: Data, notes: list[str]) -> list[Part]:
    """Labels to train on, and what a source itself keeps for validation."""
    parts = []
    for given in settings.source:
        roles, _, told = read_given(_dataset(given, settings, notes))
        notes += told
        _refuse_no_label(given, roles)
        unused = sum(len(found) for role, found in roles if role in ("test", "unlabelled"))
        if unused:
            notes.append(f"{_name(given)}: {unused} test and unlabelled instances of the source take no part.")
        own = {"labelled": "labelled", "val": SOURCE_VAL}
        parts += [Part(own[role], found, _name(given), True) for role, found in roles if role in own]
    return parts


def _refuse_no_label(given: Path | Source, roles: Roles) -> None:
    """Every class that was chosen has something to learn from."""
    trained = [with_labels(found) for role, found in roles if role == "labelled"]
    if not any(map(len, trained)):
        raise InputError(
            f"{path_of(given)}: no labelled instance to train on: no annotation has a keypoint with v > 0."
        )
    there = {name for found in trained for name in found.classes}
    for name in (given.classes or ()) if isinstance(given, Source) else ():
        if name not in there:
            raise InputError(f"{path_of(given)}: class {name} has no labelled instance to train on.")


def _targets(settings: Data, notes: list[str]) -> list[Part]:
    """Images without labels to train on, and the labelled parts that validate and test."""
    parts = []
    for given in settings.target:
        for role, found in _target_roles(given, settings, notes):
            if role == "labelled":
                _refuse_labels(given, found, settings)
                role, plain = "unlabelled", without_labels(found)
            else:
                plain = found
            parts.append(Part(role, plain, _name(given), False, found.skeleton))
    for role, files in (("val", settings.val), ("test", settings.test)):
        for given in files:
            read = read_labelled(given, settings)
            notes += read.notes
            parts.append(Part(role, read.instances, _name(given), False))
    if not any(len(part.instances) for part in parts if part.role == "unlabelled"):
        raise InputError(f"{path_of(settings.target[0])}: no image of the target to train on.")
    return parts


def _target_roles(given: Path | Source, settings: Data, notes: list[str]) -> Roles:
    path = path_of(given)
    if _is_dataset_file(path):
        roles, _, told = read_given(_dataset(given, settings, notes))
        notes += told
        return roles
    known = recognise(path)
    if known in WITHOUT_LABELS or (known is None and path.is_dir()):
        read = read_unlabelled(given, settings)
        notes += read.notes
        return [("unlabelled", read.instances)]
    read = read_labelled(given, settings)
    notes += read.notes
    divided = bool(settings.val or settings.test)  # by a person, whose word goes before the file's
    return [("labelled", read.instances)] if divided else by_split(given, read.instances, notes)


def _refuse_labels(given: Path | Source, instances: Instances, settings: Data) -> None:
    labels = int(instances.labelled.sum())
    if labels and not settings.ignore_target_labels:
        raise InputError(
            f"{_name(given)}: {labels} of the target's training instances have labels. Set "
            "data.ignore_target_labels=true to train on their images alone; labels to train on belong into source."
        )


def _name(given: Path | Source) -> str:
    """The path, and the classes where some were chosen: one file may be the source and the target."""
    chosen = given.classes if isinstance(given, Source) else None
    return str(path_of(given)) + (f" ({', '.join(chosen)})" if chosen else "")


def _is_dataset_file(path: Path) -> bool:
    return path.suffix.lower() in (".yaml", ".yml") and path.is_file() and recognise(path) is None


def _dataset(given: Path | Source, settings: Data, notes: list[str]) -> Data:
    """A dataset file's own data section; or one of a single source."""
    path = path_of(given)
    if not _is_dataset_file(path):
        return Data(labeled=(given,), images=settings.images)
    beside = sorted(given.model_fields_set - {"path"}) if isinstance(given, Source) else []
    if beside:
        raise InputError(f"{path}: is a dataset file. Write {beside[0]} into it, at the source that it is of.")
    data = configuration.load(None, {"data": str(path)}).data
    if data.source or data.target:
        raise InputError(f"{path}: has a source and a target itself. Name it with data={path}.")
    unread = sorted(data.model_fields_set - READ)
    if unread:
        notes.append(f"{path}: {', '.join(unread)}: not read here; data.KEY=VALUE sets it for this training.")
    return data.model_copy(update={"label_fraction": 1.0})
