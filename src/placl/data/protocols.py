"""The paper's datasets (4.1) in their official layout: which images train, validate and test, and how they are scored.

A protocol checks the number of images it finds against the paper's and says what differs. Where the paper draws images
at random without naming them, they are drawn here by a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import numpy as np

from placl.config_checks import ACROSS
from placl.data.formats import animalpose, coco, cub, leeds, mpii
from placl.data.formats.format import Options
from placl.data.instances import Instances, Roles
from placl.data.roles import ValFrom, across_classes, as_role, validating_role
from placl.errors import InputError

SEED = 0  # of what the paper leaves to chance
ANIMALS = ("cat", "dog", "sheep", "cow", "horse")  # in the order of Table 2


@dataclass(frozen=True)
class Protocol:
    """A dataset with the paper's splits."""

    name: str
    title: str
    metric: Literal["pck", "pckh", "oks"]
    alpha: float | None  # of PCK and PCKh
    counts: dict[str, int]  # images by role, in the paper
    read: Callable[[Path], tuple[Roles, list[str]]]


def read_protocol(name: str, root: Path | None, val_from: ValFrom = "target") -> tuple[Roles, list[str]]:
    """Instances by role ("labelled", "unlabelled", "val", "test") and notes, among them what differs from the paper.

    ``val_from`` says whose labels validate where one class is the target of the others.
    """
    protocol = protocol_named(name)
    if root is None:
        raise InputError(f"data.protocol={name}: name the folder of {protocol.title} with data.root.")
    if not root.is_dir():
        raise InputError(f"{root}: is not a folder. Name the folder of {protocol.title} with data.root.")
    roles, notes = protocol.read(root)
    if name.startswith(ACROSS):
        validating, told = validating_role(roles, val_from)
        roles = [(own, part) for role, part in roles if (own := as_role(role, validating))]
        notes = notes + told
    return roles, notes + _differences(protocol, roles)


def protocol_named(name: str) -> Protocol:
    if name not in PROTOCOLS:
        near = get_close_matches(name, PROTOCOLS, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise InputError(f'protocol "{name}" is unknown.{hint} Known are {", ".join(PROTOCOLS)}.')
    return PROTOCOLS[name]


def _differences(protocol: Protocol, roles: Roles) -> list[str]:
    found = {role: sum(len(part.images) for name, part in roles if name == role) for role in protocol.counts}
    return [
        f"{protocol.name}: {found[role]:,} {role} images, the paper has {count:,}."
        for role, count in protocol.counts.items()
        if found[role] != count
    ]


def _folder(root: Path, names: tuple[str, ...], holds: str) -> Path:
    """The first of some folders below ``root`` that holds a file."""
    for place in (root / name for name in names):
        if (place / holds).exists():
            return place
    tried = " or ".join(names)
    raise InputError(f"{root}: holds no {tried} with a {holds}. Name the folder they are in.")


def _by_role(instances: Instances, role: np.ndarray) -> Roles:
    """(M,) the role of each image, "" for none -> instances by role."""
    parts = [(name, np.flatnonzero(role[instances.image_index] == name)) for name in ("labelled", "val", "test")]
    return [(name, instances.take(rows)) for name, rows in parts if len(rows)]


def _drawn_images(count: int, sizes: dict[str, int]) -> np.ndarray:
    """(M,) roles for ``count`` images: so many of each by a fixed seed, in proportion where there are too few."""
    wanted = sum(sizes.values())
    order = np.random.default_rng(SEED).permutation(count)
    role = np.full(count, "", dtype="<U10")
    ends = np.cumsum(list(sizes.values()))
    if count < wanted:
        ends = np.round(ends * count / wanted).astype(int)
    for name, start, end in zip(sizes, [0, *ends[:-1]], ends, strict=True):
        role[order[start:end]] = name
    return role


def _lspet(root: Path) -> tuple[Roles, list[str]]:
    """LSPET trains; of the 2,000 LSP images its customary training half validates and its test half tests."""
    train = leeds.LSPET.read(_folder(root, ("lspet", "lspet_dataset", "hr-lspet"), "joints.mat"), Options())
    rest = leeds.LSP.read(_folder(root, ("lsp", "lsp_dataset"), "joints.mat"), Options())
    role = np.where(np.array(rest.instances.splits) == "train", "val", "test")
    return [("labelled", train.instances), *_by_role(rest.instances, role)], [*train.notes, *rest.notes]


def _cub(root: Path) -> tuple[Roles, list[str]]:
    """By species, numbered from 1: 100 train, 50 validate, 50 test."""
    found = cub.FORMAT.read(root, Options())
    instances = found.instances
    species = np.zeros(len(instances.images), int)
    species[instances.image_index] = [_number(root, name) for name in instances.classes]
    role = np.select([species <= 100, species <= 150], ["labelled", "val"], "test")
    return _by_role(instances, role), list(found.notes)


def _number(root: Path, species: str) -> int:
    number = species.partition(".")[0]
    if not (number.isascii() and number.isdigit()):
        raise InputError(
            f'{root}: classes.txt: class "{species}" does not begin with its number, as "001.Albatross" does.'
        )
    return int(number)


def _mpii(root: Path, train: int | None) -> tuple[Roles, list[str]]:
    """Training and validation images are drawn from HRNet's train.json; its valid.json is the test set.

    ``train`` images, or all but the validation images.
    """
    parts = {}
    notes: list[str] = []
    for part in ("train", "valid"):
        file = _first_file(root, (f"annot/{part}.json", f"annotations/mpii_{part.replace('valid', 'val')}.json"))
        found = mpii.FORMAT.read(file, Options(images=root / "images"))
        parts[part], notes = found.instances, [*notes, *found.notes]
    release = next(root.rglob("mpii_human_pose*.mat"), None)
    if release is not None:  # the lists have no heads, which PCKh needs
        people = mpii.FORMAT.read(release, Options(images=root / "images")).instances
        parts = {name: _with_heads(part, people) for name, part in parts.items()}
    elif any(part.head_length is None for part in parts.values()):
        notes.append(
            f"{root}: without the release (mpii_human_pose*.mat) there are no head sizes. Set reward.metric=pck."
        )
    count = len(parts["train"].images)
    held_out = 3311
    sizes = {"val": held_out, "labelled": count - held_out if train is None else train}
    if count <= held_out:
        sizes = {"val": count // 4, "labelled": count - count // 4}  # a sample, in the paper's proportions
    return [*_by_role(parts["train"], _drawn_images(count, sizes)), ("test", parts["valid"])], notes


def _with_heads(instances: Instances, release: Instances) -> Instances:
    """Head lengths of the same people in the official release: one is known by image and joints."""

    def people(of: Instances) -> list[tuple[str, bytes]]:
        joints = np.where(of.visibility[..., None] > 0, of.keypoints, -1).round().astype(np.int64)
        return [(of.images[i].name, joint.tobytes()) for i, joint in zip(of.image_index, joints, strict=True)]

    if release.head_length is None:
        return instances
    known = dict(zip(people(release), release.head_length.tolist(), strict=True))
    found = np.array([known.get(person, np.nan) for person in people(instances)], np.float32)
    if instances.head_length is not None:
        found = np.where(np.isnan(found), instances.head_length, found)
    return replace(instances, head_length=found)


def _coco(root: Path) -> tuple[Roles, list[str]]:
    """train2017 but for 500 images that validate; val2017 tests. Only people with labelled keypoints."""
    parts: dict[str, Instances] = {}
    for part in ("train2017", "val2017"):
        file = _first_file(root, (f"annotations/person_keypoints_{part}.json",))
        instances = coco.read_coco(file, root / part)
        parts[part] = instances.take(np.flatnonzero(instances.labelled))
    count = len(parts["train2017"].images)
    role = _drawn_images(count, {"val": min(500, count // 2), "labelled": count - min(500, count // 2)})
    return [*_by_role(parts["train2017"], role), ("test", parts["val2017"])], []


def _atrw(root: Path) -> tuple[Roles, list[str]]:
    """The authors' three files, under the names they and mmpose give them."""
    roles: Roles = []
    for part, role in (("train", "labelled"), ("val", "val"), ("test", "test")):
        names = (f"keypoint_{part}.json", f"annotations/keypoint_{part}.json", f"annotations/atrw_{part}.json")
        file = _first_file(root, names)
        folders = (root / "images" / part, root / part, root / "images", root)
        roles.append((role, coco.read_coco(file, next(place for place in folders if place.is_dir()))))
    return roles, []


def _animalpose(root: Path) -> tuple[Roles, list[str]]:
    """mmpose's files have a split; that of the authors' one file is drawn by image."""
    files = [root / "annotations" / f"animalpose_{part}.json" for part in ("train", "val", "test")]
    if all(file.is_file() for file in files):
        read = [_with_sigmas(coco.read_coco(file, root)) for file in files]
        return list(zip(("labelled", "val", "test"), read, strict=True)), []
    found = animalpose.FORMAT.read(_first_file(root, ("keypoints.json",)), Options())
    sizes = PROTOCOLS["animalpose"].counts
    return _by_role(found.instances, _drawn_images(len(found.instances.images), sizes)), list(found.notes)


def _with_sigmas(instances: Instances) -> Instances:
    if instances.skeleton is None:
        return instances
    return replace(instances, skeleton=animalpose.with_sigmas(instances.skeleton))


def _animalpose_to(target: str) -> Callable[[Path], tuple[Roles, list[str]]]:
    """One class has no label: its training images are unlabelled, and its other images validate and test."""

    def read(root: Path) -> tuple[Roles, list[str]]:
        roles, notes = _animalpose(root)
        return across_classes(roles, target, ANIMALS, f"{ACROSS}{target}"), notes

    return read


def _first_file(root: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (root / name).is_file():
            return root / name
    raise InputError(f"{root}: holds no {names[0]}. Name the folder of the dataset in its official layout.")


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "lspet", "LSP Extended and LSP", "pck", 0.1, {"labelled": 10_000, "val": 1_000, "test": 1_000}, _lspet
        ),
        Protocol(
            "mpii", "MPII", "pckh", 0.5, {"labelled": 10_000, "val": 3_311}, lambda root: _mpii(root, train=10_000)
        ),
        Protocol("mpii_full", "MPII", "pckh", 0.5, {"val": 3_311}, lambda root: _mpii(root, train=None)),
        Protocol("cub", "CUB-200-2011", "pck", 0.1, {"labelled": 5_864, "val": 2_958, "test": 2_966}, _cub),
        Protocol("atrw", "ATRW", "pck", 0.1, {"labelled": 3_610, "val": 516, "test": 1_033}, _atrw),
        Protocol("coco", "MS-COCO 2017", "oks", None, {"val": 500}, _coco),
        Protocol("animalpose", "AnimalPose", "oks", None, {"labelled": 2_798, "val": 810, "test": 1_000}, _animalpose),
        *(Protocol(f"{ACROSS}{a}", f"AnimalPose to {a}", "oks", None, {}, _animalpose_to(a)) for a in ANIMALS),
    )
}
