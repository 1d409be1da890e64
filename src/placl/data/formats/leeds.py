"""Leeds Sports Pose (LSP, 2,000 images) and its extension (LSPET, 10,000): one ``joints.mat`` beside ``images/``.

The two files look alike and mean different things. Only the shape of the array tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from placl.data.formats.common import drawn_boxes, find_image, missing_note, renamed
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.matlab import load_mat, mat_shapes
from placl.data.instances import Instances
from placl.data.pool import OCCLUDED, UNLABELLED, VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

# The order of README.txt; left and right are the person's.
NAMES = (
    "right_ankle", "right_knee", "right_hip", "left_hip", "left_knee", "left_ankle", "right_wrist", "right_elbow",
    "right_shoulder", "left_shoulder", "left_elbow", "left_wrist", "neck", "head_top",
)  # fmt: skip
EDGES = (
    (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11), (12, 13), (8, 12), (9, 12),
    (2, 8), (3, 9),
)  # fmt: skip
SKELETON = Skeleton(NAMES, EDGES, flip_pairs_by_name(NAMES))


@dataclass(frozen=True)
class Edition:
    """What sets one of the two datasets apart from the other."""

    name: str
    title: str
    shape: tuple[int, int]  # of the array, before the images
    axes: tuple[int, int, int]  # to (N, 14, 3)
    image: str  # file name of image number i
    meaning: tuple[int, int]  # visibility of a joint whose flag is 0, and of one whose flag is 1
    train: int | None  # so many images train and the others test; None: all train


# In LSP the flag says "occluded" and every joint is labelled. In LSPET it says "visible", and what is not visible is
# not labelled: its coordinates are junk, down to -322.
EDITIONS = (
    Edition("lsp", "Leeds Sports Pose", (3, 14), (2, 1, 0), "im{:04d}.jpg", (VISIBLE, OCCLUDED), 1000),
    Edition("lspet", "Leeds Sports Pose Extended", (14, 3), (2, 0, 1), "im{:05d}.jpg", (UNLABELLED, VISIBLE), None),
)


def read_leeds(path: Path, options: Options, edition: Edition) -> Found:
    """One person to an image, the box drawn around the labelled joints: neither dataset has boxes."""
    file = path / "joints.mat" if path.is_dir() else path
    whole = _joints(file, edition)  # (N, 14, 3)
    root = options.images or file.parent
    places = [find_image([root], edition.image.format(number)) for number in range(1, len(whole) + 1)]
    files = tuple(place for place in places if place is not None)
    notes = missing_note(file, len(whole), len(files), edition.image.format(1), root)
    kept = np.array([row for row, place in enumerate(places) if place is not None], np.int64)
    joints = whole[kept]
    visibility = np.where(joints[..., 2] == 1, edition.meaning[1], edition.meaning[0]).astype(np.uint8)
    # Counted from 0, though MATLAB counts from 1: annotators clicked on web pages, and joints near the border are as
    # dense in [0, 1) as in the next pixels (LSPET: 23, 19, 20, 21), with hardly any below.
    points = np.where(visibility[..., None] > UNLABELLED, joints[..., :2], 0).astype(np.float32)
    boxes, drawn = drawn_boxes(points, visibility)
    train = len(whole) if edition.train is None else edition.train
    instances = Instances(
        skeleton=renamed(SKELETON, options.keypoints),
        images=files,
        image_index=np.arange(len(files), dtype=np.int64),
        boxes=boxes,
        keypoints=points,
        visibility=visibility,
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        ids=tuple(f"{edition.image.format(row + 1)}#{row + 1}" for row in kept),
        sources=(str(file),) * len(files),
        classes=("person",) * len(files),
        splits=tuple("train" if row < train else "test" for row in kept),
        drawn=drawn,
    )
    return Found(instances, notes)


def _joints(file: Path, edition: Edition) -> np.ndarray:
    """(N, 14, 3) float64: x, y and the flag."""
    joints = load_mat(file, "joints")
    if not isinstance(joints, np.ndarray) or joints.ndim != 3 or joints.shape[:2] != edition.shape or not joints.size:
        found = getattr(joints, "shape", "no shape")
        other = next((e for e in EDITIONS if isinstance(found, tuple) and found[:2] == e.shape), None)
        hint = f"Pass --format {other.name}." if other else "Is this the official file?"
        raise InputError(
            f'{file}: "joints" has shape {found}, {edition.title} has {(*edition.shape, "images")}. {hint}'
        )
    if joints.dtype.kind not in "fiu":
        raise InputError(f'{file}: "joints" does not hold numbers. Is this the official file?')
    joints = joints.transpose(edition.axes).astype(np.float64)
    for row, joint in np.argwhere(~np.isfinite(joints).all(axis=2)):
        raise InputError(f"{_where(file, edition, row, joint)} has a coordinate that is not finite. Fix it.")
    for row, joint in np.argwhere(~np.isin(joints[..., 2], (0, 1))):
        raise InputError(f"{_where(file, edition, row, joint)} has flag {joints[row, joint, 2]:g}, expected 0 or 1.")
    return joints


def _where(file: Path, edition: Edition, row: int, joint: int) -> str:
    return f"{file}: {NAMES[joint]} of {edition.image.format(row + 1)}"


def _format(edition: Edition) -> Format:
    def claims(path: Path) -> bool:
        shape = mat_shapes(path / "joints.mat" if path.is_dir() else path).get("joints", ())
        return len(shape) == 3 and shape[:2] == edition.shape

    return Format(edition.name, edition.title, claims, lambda path, options: read_leeds(path, options, edition))


LSP, LSPET = map(_format, EDITIONS)
