"""The people of MPII's official release: MATLAB structures in which any field may be missing, empty or text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placl.data.pool import OCCLUDED, VISIBLE
from placl.errors import InputError

NAMES = (
    "right_ankle", "right_knee", "right_hip", "left_hip", "left_knee", "left_ankle", "pelvis", "thorax", "upper_neck",
    "head_top", "right_wrist", "right_elbow", "right_shoulder", "left_shoulder", "left_elbow", "left_wrist",
)  # fmt: skip


class Person(NamedTuple):
    """What both kinds of file say of a person, still counted from 1."""

    image: str  # its file name
    id: str
    labels: np.ndarray  # (16, 3) x, y, visibility
    place: np.ndarray  # (3,) centre x, y and scale; NaN unknown
    head: np.ndarray  # (4,) two corners of its rectangle; NaN unknown


def people_of(file: Path, number: int, image: Any) -> list[Person]:
    """Those of one image. Ids are their place in the release, counted from 1 as there."""
    name = getattr(getattr(image, "image", None), "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f"{file}: annolist({number}) has no image name. Is this the official release?")
    people = []
    for i, person in enumerate(many(getattr(image, "annorect", None)), start=1):
        where = f"{file}: annolist({number}).annorect({i})"
        labels, place = _labels(person, where), _place(person, where)
        if labels[:, 2].any() or not np.isnan(place).any():
            people.append(Person(name, f"{name}#{number}.{i}", labels, place, _head(person, where)))
    return people


def _labels(person: Any, where: str) -> np.ndarray:
    """(16, 3): x, y, visibility."""
    labels = np.zeros((16, 3))
    for point in many(getattr(getattr(person, "annopoints", None), "point", None)):
        joint = _number(point, "id", where)
        if joint not in range(16):
            raise InputError(f"{where}: a joint has id {joint:g}, expected 0 to 15.")
        x, y = _number(point, "x", where), _number(point, "y", where)
        if math.isnan(x + y):
            raise InputError(f"{where}: {NAMES[int(joint)]} has no x or y. Fix the file.")
        # Numbers, text, or nothing: the ends of the head come from its rectangle and have no visibility.
        visible = _number(point, "is_visible", where)
        labels[int(joint)] = x, y, OCCLUDED if visible == 0 else VISIBLE
    return labels


def _place(person: Any, where: str) -> np.ndarray:
    """(3,) centre and scale; NaN if one of them is missing."""
    centre = getattr(person, "objpos", None)
    place = np.array([_number(centre, "x", where), _number(centre, "y", where), _number(person, "scale", where)])
    return place if place[2] > 0 else np.full(3, np.nan)


def _head(person: Any, where: str) -> np.ndarray:
    return np.array([_number(person, side, where) for side in ("x1", "y1", "x2", "y2")])


def _number(record: Any, name: str, where: str) -> float:
    """A field of a structure: NaN if it is missing or empty."""
    value = getattr(record, name, None)
    if not isinstance(value, int | float):
        if value is None or np.size(value) == 0 or (isinstance(value, str) and not value.strip()):
            return math.nan
        try:
            value = float(value)  # as text, for one: the release has both
        except (TypeError, ValueError) as error:
            raise InputError(f'{where}: "{name}" is not a number. Fix the file.') from error
    if math.isinf(value):
        raise InputError(f'{where}: "{name}" is not finite. Fix the file.')
    return float(value)


def many(value: Any) -> list[Any]:
    """MATLAB has no lone structure: one of them, several or none are all arrays there."""
    return [] if value is None else list(np.atleast_1d(value).ravel())
