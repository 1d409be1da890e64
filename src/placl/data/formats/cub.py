"""CUB-200-2011: birds with 15 parts, in text files of one record to a line, all numbered from 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placl.data.formats.common import renamed, require_image
from placl.data.formats.format import Format, Found, Options
from placl.data.instances import Instances
from placl.data.pool import VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

# From beak to tail over the back and over the belly; eyes, wings and legs hang on it.
BONES = (
    ("beak", "forehead"), ("forehead", "crown"), ("crown", "nape"), ("nape", "back"), ("back", "tail"),
    ("beak", "throat"), ("throat", "breast"), ("breast", "belly"), ("belly", "tail"),
    ("left_eye", "beak"), ("right_eye", "beak"), ("left_wing", "back"), ("right_wing", "back"),
    ("left_leg", "belly"), ("right_leg", "belly"),
)  # fmt: skip


def read_cub(path: Path, options: Options) -> Found:
    """One bird to an image. Its class is its species as in "001.Black_footed_Albatross", its split the official one."""
    root = _root(path)
    images = _names(root / "images.txt")
    numbers = np.array(list(images), np.int64)
    skeleton, points, visibility = _parts(root, numbers)
    boxes = _by_image(root / "bounding_boxes.txt", numbers, 4)  # x, y, width, height, from 0 as some start at 0
    for row in np.flatnonzero((boxes[:, 2:] <= 0).any(axis=1)):
        raise InputError(f"{root / 'bounding_boxes.txt'}: the box of image {numbers[row]} has no size. Fix it.")
    names = _names(root / "classes.txt")
    classes = _by_image(root / "image_class_labels.txt", numbers, 1)[:, 0]
    for row in np.flatnonzero(~np.isin(classes, list(names))):
        file = root / "image_class_labels.txt"
        raise InputError(f"{file}: image {numbers[row]} is of class {classes[row]:g}, which classes.txt lacks.")
    training = _by_image(root / "train_test_split.txt", numbers, 1)[:, 0]
    roots = [options.images or root]
    listed = root / "images.txt"
    files = tuple(require_image(roots, name, f"{listed}: image {number}") for number, name in images.items())
    if len(set(files)) < len(files):
        raise InputError(f"{listed}: two images are one file, {_repeated(files)}. List every image once.")
    instances = Instances(
        skeleton=renamed(skeleton, options.keypoints),
        images=files,
        image_index=np.arange(len(files), dtype=np.int64),
        boxes=boxes,
        keypoints=points,
        visibility=visibility,
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        ids=tuple(f"{name}#{number}" for number, name in images.items()),
        sources=(str(listed),) * len(files),
        classes=tuple(names[int(number)] for number in classes),
        splits=tuple("train" if flag else "test" for flag in training),
    )
    return Found(instances)


def _parts(root: Path, numbers: np.ndarray) -> tuple[Skeleton, np.ndarray, np.ndarray]:
    """The skeleton, (N, K, 2) keypoints and (N, K) visibility; parts that cannot be seen are not labelled."""
    names = _names(root / "parts" / "parts.txt")
    order = np.array(list(names), np.int64)
    keypoints = tuple(name.replace(" ", "_") for name in names.values())
    place = {name: k for k, name in enumerate(keypoints)}
    if len(place) < len(keypoints):
        raise InputError(f"{root / 'parts' / 'parts.txt'}: {_repeated(keypoints)} occurs twice. Name every part once.")
    edges = tuple((place[a], place[b]) for a, b in BONES if a in place and b in place)
    skeleton = Skeleton(keypoints, edges, flip_pairs_by_name(keypoints))

    file = root / "parts" / "part_locs.txt"
    table, lines = _table(file, 5)  # image, part, x, y, visible
    known = np.isin(table[:, 0], numbers)  # an images.txt cut to a sample leaves lines of other images behind
    table, lines = table[known], lines[known]
    for row in np.flatnonzero(~np.isin(table[:, 1], order)):
        raise InputError(f"{file}: line {lines[row]} is of part {table[row, 1]:g}, which parts.txt lacks.")
    for row in np.flatnonzero(~np.isin(table[:, 4], (0, 1))):
        raise InputError(f"{file}: line {lines[row]} has visibility {table[row, 4]:g}, expected 0 or 1.")
    image, part = _positions(numbers, table[:, 0]), _positions(order, table[:, 1])
    first = np.unique(image * len(order) + part, return_index=True)[1]
    for row in np.setdiff1d(np.arange(len(table)), first):
        raise InputError(f"{file}: line {lines[row]} repeats part {table[row, 1]:g} of image {table[row, 0]:g}.")
    seen = table[:, 4] == 1
    points = np.zeros((len(numbers), len(order), 2), np.float32)
    visibility = np.zeros((len(numbers), len(order)), np.uint8)
    # Counted from 0: parts are medians of clicks on web pages, in the frame of boxes that start at 0.
    points[image[seen], part[seen]] = table[seen, 2:4]
    visibility[image[seen], part[seen]] = VISIBLE
    return skeleton, points, visibility


def _by_image(file: Path, numbers: np.ndarray, width: int) -> np.ndarray:
    """(N, width) float64: what a file with one line to an image says of the given images."""
    table, lines = _table(file, width + 1)
    order = np.argsort(table[:, 0], kind="stable")
    twice = np.flatnonzero(np.diff(table[order, 0]) == 0)
    for row in order[twice + 1]:
        raise InputError(f"{file}: line {lines[row]} repeats image {table[row, 0]:g}. Keep one line to an image.")
    for number in numbers[~np.isin(numbers, table[:, 0])]:
        raise InputError(f"{file}: has no line for image {number}, which images.txt lists.")
    return np.asarray(table[_positions(table[:, 0], numbers), 1:])


def _positions(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of the wanted numbers stands among the known ones, which have them all."""
    order = np.argsort(known, kind="stable")
    return np.asarray(order[np.searchsorted(known[order], wanted)])


def _table(file: Path, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(L, width) finite numbers, and the line (L,) that each row is on."""
    rows = [(number, text) for number, text in enumerate(_text(file).splitlines(), start=1) if text.strip()]
    if not rows:
        raise InputError(f"{file}: is empty. Is the dataset whole?")
    lines = np.array([number for number, _ in rows])
    table = _parsed([text for _, text in rows], width)
    if table is None:
        culprit = next(number for number, text in rows if _parsed([text], width) is None)
        raise InputError(f"{file}: line {culprit} is not {width} numbers. Fix or remove it.")
    for row in np.flatnonzero(~np.isfinite(table).all(axis=1)):
        raise InputError(f"{file}: line {lines[row]} holds a number that is not finite. Fix or remove it.")
    return table, lines


def _parsed(texts: list[str], width: int) -> np.ndarray | None:
    try:
        table = np.loadtxt(texts, ndmin=2, comments=None)
    except ValueError:
        return None
    return table if table.shape[1] == width else None


def _names(file: Path) -> dict[int, str]:
    """Number -> name, in the order of the lines."""
    names: dict[int, str] = {}
    for line, text in enumerate(_text(file).splitlines(), start=1):
        number, _, name = text.strip().partition(" ")
        if not number and not name:
            continue
        if not (number.isascii() and number.isdigit() and len(number) < 16 and name.strip()):
            raise InputError(f'{file}: line {line} is not a number and a name, as in "1 back".')
        if int(number) in names:
            raise InputError(f"{file}: line {line} repeats number {number}. Numbers must be unique.")
        names[int(number)] = name.strip()
    if not names:
        raise InputError(f"{file}: is empty. Is the dataset whole?")
    return names


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}). Is the dataset whole?") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not text. Is this the official file?") from error


def _repeated(items: tuple[object, ...]) -> object:
    return next(item for i, item in enumerate(items) if item in items[:i])


def _root(path: Path) -> Path:
    """The folder itself, or CUB_200_2011 in it."""
    return next((place for place in (path, path / "CUB_200_2011") if _is_root(place)), path)


def _is_root(place: Path) -> bool:
    """Also of a dataset that lacks a file, which its reader then names."""
    return (place / "images.txt").is_file() and any(
        (place / name).is_file() for name in ("parts/part_locs.txt", "bounding_boxes.txt", "image_class_labels.txt")
    )


FORMAT = Format("cub", "CUB-200-2011", lambda path: _is_root(_root(path)), read_cub)
