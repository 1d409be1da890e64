"""MPII Human Pose: the official MATLAB release, and the json lists that HRNet's authors and mmpose made of it.

Both count pixels from 1, as MATLAB does, and give a person's place as a centre and a scale instead of a box.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from placl.data.formats.common import (
    Leads,
    checked_numbers,
    drawn_boxes,
    find_image,
    load_json,
    missing_note,
    peek_json,
    renamed,
    require_image,
)
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.matlab import load_mat, mat_shapes
from placl.data.formats.mpii_release import NAMES, Person, many, people_of
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

EDGES = (
    (0, 1), (1, 2), (2, 6), (6, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 9), (10, 11), (11, 12), (12, 7), (7, 13),
    (13, 14), (14, 15),
)  # fmt: skip
SKELETON = Skeleton(NAMES, EDGES, flip_pairs_by_name(NAMES))
HEIGHT = 200  # a person's scale is its height divided by so many pixels


def read_mpii(path: Path, options: Options) -> Found:
    file = path if path.is_file() or not path.is_dir() else _release_in(path) or path / "mpii_human_pose_v1_u12_1.mat"
    return _read_release(file, options) if file.suffix.lower() == ".mat" else _read_list(file, options)


def boxes_of(places: np.ndarray) -> np.ndarray:
    """(N, 4) xywh from centres (from 1) and scales: the square of the person's height.

    As in HRNet, the centre moves down by 15 pixels of a person of 200, "to avoid cropping limbs". HRNet's factor of
    1.25 is left out: it is the context that every crop gets around its box.
    """
    side = HEIGHT * places[:, 2:]  # (N, 1)
    centre = places[:, :2] + [0, 15] * places[:, 2:] - 1  # (N, 2) pixel centres from 0
    return np.concatenate([centre + 0.5 - side / 2, side, side], axis=1)


def _instances(people: list[Person], files: dict[str, Path], source: Path, options: Options) -> Instances:
    from placl.metrics.pck import head_length  # whose package is slow to import

    labels = np.array([person.labels for person in people])  # (N, 16, 3)
    visibility = labels[..., 2].astype(np.uint8)
    points = np.where(visibility[..., None] > UNLABELLED, labels[..., :2] - 1, 0).astype(np.float32)
    boxes = boxes_of(np.array([person.place for person in people]))
    placeless = np.flatnonzero(np.isnan(boxes).any(axis=1))
    drawn = np.zeros(len(people), bool)
    boxes[placeless], drawn[placeless] = drawn_boxes(points[placeless], visibility[placeless])
    heads = head_length(np.array([person.head for person in people])).astype(np.float32)
    heads[heads == 0] = np.nan
    leads = Leads()
    for name in dict.fromkeys(person.image for person in people):
        leads.add(files[name], name, str(source))
    position = {file: i for i, file in enumerate(dict.fromkeys(files[person.image] for person in people))}
    return Instances(
        skeleton=renamed(SKELETON, options.keypoints),
        images=tuple(position),
        image_index=np.array([position[files[person.image]] for person in people], np.int64),
        boxes=boxes,
        keypoints=points,
        visibility=visibility,
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        ids=tuple(person.id for person in people),
        head_length=None if np.isnan(heads).all() else heads,
        sources=(str(source),) * len(position),
        classes=("person",) * len(people),
        drawn=drawn,
    )


def _read_list(file: Path, options: Options) -> Found:
    """A json list of people. ``joints_vis`` says labelled or not; occluded joints are not told apart."""
    records = load_json(file)
    if not isinstance(records, list) or not records:
        raise InputError(f"{file}: is not a list of people, or an empty one. Is this a json of MPII?")
    for i, record in enumerate(records):
        if not isinstance(record, dict) or not isinstance(record.get("image"), str) or not record["image"]:
            raise InputError(f'{file}: person {i} is not an object with an "image".')
    nothing = {"joints": [[-1, -1]] * 16, "joints_vis": [0] * 16}  # as in the test set
    records = [record if "joints" in record else record | nothing for record in records]
    joints = checked_numbers(file, "person", records, "joints", (16, 2))
    flags = checked_numbers(file, "person", records, "joints_vis", (16,))
    for i, joint in np.argwhere(~np.isin(flags, (0, 1))):
        flag = f"{flags[i, joint]:g}"
        raise InputError(f'{file}: person {i}: "joints_vis" of {NAMES[joint]} is {flag}, expected 0 or 1.')
    labels = np.concatenate([joints, VISIBLE * flags[..., None]], axis=2)  # (N, 16, 3)
    centres = checked_numbers(file, "person", records, "center", (2,))
    scales = checked_numbers(file, "person", records, "scale", ())
    places = np.column_stack([centres, scales])
    places[(centres[:, 0] == -1) | (scales <= 0)] = np.nan  # how HRNet writes that they are unknown
    heads, notes = _heads_beside(file, len(records))
    if placeless := int(np.isnan(places).any(axis=1).sum()):
        notes += (f"{file.name}: {placeless:,} people have no centre or scale; boxes are drawn around their joints.",)
    people = [
        Person(record["image"], f"{record['image']}#{i}", labels[i], places[i], heads[i])
        for i, record in enumerate(records)
    ]
    roots = _roots(file, options)
    files: dict[str, Path] = {}
    for i, person in enumerate(people):
        if person.image not in files:
            files[person.image] = require_image(roots, person.image, f"{file}: person {i}")
    return Found(_instances(people, files, file, options), notes)


def _heads_beside(file: Path, count: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Head rectangles (N, 4), from the file that HRNet (gt_valid.mat) and mmpose (mpii_gt_val.mat) put beside."""
    unknown = np.full((count, 4), np.nan)
    stem = file.stem.removeprefix("mpii_")
    place = next((p for p in (file.with_name(f"{x}gt_{stem}.mat") for x in ("", "mpii_")) if p.is_file()), None)
    if place is None:
        return unknown, ()
    corners = load_mat(place, "headboxes_src")  # (2, 2, N): corner, x or y, person
    if np.shape(corners) != (2, 2, count):
        return unknown, (f"{place}: its head boxes are not those of the {count:,} people of {file.name}; not used.",)
    return np.asarray(corners, np.float64).transpose(2, 0, 1).reshape(count, 4), ()


def _read_release(file: Path, options: Options) -> Found:
    """Every person with a position or joints, in training and test images. The labels of test images are not public."""
    release = load_mat(file, "RELEASE")
    images, training = many(getattr(release, "annolist", None)), many(getattr(release, "img_train", None))
    if not images or len(images) != len(training):
        raise InputError(f"{file}: annolist has {len(images)} images, img_train {len(training)}. Is this the release?")
    people: list[Person] = []
    splits: dict[str, str] = {}
    for i, (image, train) in enumerate(zip(images, training, strict=True), start=1):
        found = people_of(file, i, image)
        people += found
        splits |= {person.image: "train" if train == 1 else "test" for person in found}
    if not people:
        raise InputError(f"{file}: nobody in it has a position or joints. Is this the official release?")
    roots = _roots(file, options)
    places = {name: find_image(roots, name) for name in splits}
    files = {name: place for name, place in places.items() if place is not None}
    notes = missing_note(file, len(places), len(files), people[0].image, roots[0])
    if empty := len(images) - len(places):
        notes += (f"{file}: {empty:,} of {len(images):,} images have nobody with a position or joints; left out.",)
    instances = _instances([person for person in people if person.image in files], files, file, options)
    split_of = {place: splits[name] for name, place in files.items()}
    return Found(replace(instances, splits=tuple(split_of[image] for image in instances.images)), notes)


def _roots(file: Path, options: Options) -> list[Path]:
    """Where images are looked for: HRNet and mmpose put the lists into annot/ or annotations/ beside images/."""
    return [options.images] if options.images is not None else [file.parent, file.parent.parent]


def _release_in(folder: Path) -> Path | None:
    """The release as it is unpacked beside images/, in a folder of its own or not."""
    places = (folder, folder / "mpii_human_pose_v1_u12_2", folder / "annotations", folder / "annot")
    return next((file for place in places for file in sorted(place.glob("mpii_human_pose*.mat"))), None)


def _claims(path: Path) -> bool:
    if path.is_dir():
        return _release_in(path) is not None
    if path.suffix.lower() == ".mat":
        return "RELEASE" in mat_shapes(path)
    data = peek_json(path)
    first = data[0] if isinstance(data, list) and data else None
    return isinstance(first, dict) and "image" in first and ("joints" in first or {"center", "scale"} <= first.keys())


FORMAT = Format("mpii", "MPII Human Pose", _claims, read_mpii)
