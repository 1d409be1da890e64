"""Who is labelled, unlabelled (in two fixed halves), validation and test: drawn once by seed, stored in the run.

:class:`Problem` is what training gets of it. Labels of unlabelled instances are taken off when it is made, and the
test instances are not in it at all: what a training cannot reach, it cannot learn from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from placl.data.pool import Pool, concatenate
from placl.errors import InputError

AT_ONCE = 1 << 14  # instances that are hashed at once


@dataclass(frozen=True)
class Split:
    """Instance ids by role."""

    labelled: tuple[str, ...]
    half_1: tuple[str, ...]
    half_2: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        everyone = [i for ids in self.roles().values() for i in ids]
        if len(set(everyone)) != len(everyone):
            raise ValueError("an instance is in two parts of the split")

    def roles(self) -> dict[str, tuple[str, ...]]:
        return {name: getattr(self, name) for name in ("labelled", "half_1", "half_2", "val", "test")}

    def to_json(self) -> str:
        return json.dumps({**self.roles(), "sha256": self._sha256()}, indent=0)

    @staticmethod
    def from_json(text: str) -> Split:
        """ValueError or TypeError where it is not what was written. Files of older versions have no hash."""
        content: dict[str, Any] = json.loads(text)
        written = content.pop("sha256", None)
        split = Split(**{name: tuple(ids) for name, ids in content.items()})
        if written is not None and written != split._sha256():
            raise ValueError("it is not what was written")
        return split

    def _sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.roles()).encode()).hexdigest()


class Members(Protocol):
    """What a division goes by: a pool has it."""

    @property
    def image(self) -> np.ndarray: ...  # (N,) a number per image

    @property
    def ids(self) -> tuple[str, ...]: ...


def draw_split(
    pool: Members,
    source: np.ndarray,  # (N,) of "labelled", "unlabelled", "val", "test": the file each instance comes from
    *,
    label_fraction: float,
    val_fraction: float,
    test_fraction: float,
    seed: int,
) -> Split:
    """Divide a pool. Training, val and test never share an image, nor do the two halves.

    Unlabelled instances on validation or test images have no part to be in and are left out. Those on labelled images
    are unlabelled instances like others: training sees these images anyway.
    """
    random = np.random.default_rng([seed, 1])
    train = _shuffled_by_image(pool, np.flatnonzero(source == "labelled"), random)
    val: list[int] = np.flatnonzero(source == "val").tolist()
    test: list[int] = np.flatnonzero(source == "test").tolist()
    if not test and test_fraction > 0:
        test, train = _cut(pool, train, round(test_fraction * len(train)))
    if not val and val_fraction > 0:
        val, train = _cut(pool, train, round(val_fraction * len(train)))
    labelled, hidden = _cut(pool, train, max(1, round(label_fraction * len(train))) if train else 0)
    on_exam = np.isin(pool.image, pool.image[np.array(val + test, dtype=np.int64)])
    plain: list[int] = np.flatnonzero((source == "unlabelled") & ~on_exam).tolist()
    unlabelled = _shuffled_by_image(pool, np.array(hidden + plain), random)
    half_1, half_2 = _halves(pool, unlabelled)

    def ids(index: list[int]) -> tuple[str, ...]:
        return tuple(pool.ids[int(i)] for i in index)

    return Split(ids(labelled), ids(half_1), ids(half_2), ids(val), ids(test))


def _shuffled_by_image(pool: Members, index: np.ndarray, random: np.random.Generator) -> list[int]:
    images: dict[int, list[int]] = {}
    for i in index.astype(int):
        images.setdefault(int(pool.image[i]), []).append(int(i))
    groups = list(images.values())
    return [i for n in random.permutation(len(groups)) for i in groups[int(n)]]


def _cut(pool: Members, index: list[int], count: int) -> tuple[list[int], list[int]]:
    """The first ``count`` instances, and more until an image is complete; and the rest."""
    while 0 < count < len(index) and pool.image[index[count - 1]] == pool.image[index[count]]:
        count += 1
    return index[:count], index[count:]


def _halves(pool: Members, index: list[int]) -> tuple[list[int], list[int]]:
    """Cut between two images, as near to the middle as there is a place, in the middle's second half if in doubt."""
    images = [int(pool.image[i]) for i in index]
    places = [n for n in range(1, len(index)) if images[n - 1] != images[n]] or [len(index)]
    count = min(places, key=lambda n: (abs(2 * n - len(index)), -n))
    return index[:count], index[count:]


@dataclass(frozen=True)
class Problem:
    """All that training may know: labelled instances, images without labels, and the validation set."""

    labelled: Pool
    halves: tuple[Pool, Pool]  # without labels
    val: Pool

    def unlabelled_half(self, round_number: int, cross_training: bool = True) -> Pool:
        """3.3: D_u^(1) in odd rounds, D_u^(2) in even ones; both together without cross-training."""
        if cross_training:
            return self.halves[(round_number + 1) % 2]
        return self.unlabelled

    @property
    def unlabelled(self) -> Pool:
        return concatenate(list(self.halves))


def make_problem(pool: Pool, split: Split, needs_val: bool = True) -> Problem:
    """Take the labels off what is unlabelled and leave the test set out."""
    part = {role: take_ids(pool, ids) for role, ids in split.roles().items() if role != "test"}
    if not part["labelled"].labelled.any():
        raise InputError("no labelled instance: at least one annotation needs a keypoint with visibility > 0.")
    if needs_val and not part["val"].labelled.any():
        raise InputError(
            "the validation split is empty: name a source in data.val, set data.val_fraction above 0, or label more "
            "images (the instances of one image stay together)."
        )
    halves = part["half_1"].without_labels(), part["half_2"].without_labels()
    return Problem(part["labelled"], halves, part["val"])


def take_ids(pool: Pool, ids: tuple[str, ...]) -> Pool:
    place = {name: i for i, name in enumerate(pool.ids)}
    missing = [name for name in ids if name not in place]
    if missing:
        raise InputError(f'the run\'s split names "{missing[0]}", which the data no longer has.')
    return pool.take(np.array([place[name] for name in ids], dtype=np.int64))


def fingerprint(pool: Pool) -> str:
    """A hash of what a pool says (ids, labels, geometry) and of its crops, or of the cache that they are in."""
    skeleton = pool.skeleton
    told = [skeleton.keypoints, skeleton.flip_pairs, skeleton.sigmas, pool.view]
    digest = hashlib.sha256(json.dumps(told).encode())
    for start in range(0, len(pool), AT_ONCE):  # the bytes of "\n".join(pool.ids)
        digest.update(("\n" * (start > 0) + "\n".join(pool.ids[start : start + AT_ONCE])).encode())
    head = [] if pool.head is None else [pool.head]
    for array in (pool.keypoints, pool.visibility, pool.length, pool.area, pool.to_image, *head):
        for start in range(0, len(array), AT_ONCE):
            digest.update(np.ascontiguousarray(array[start : start + AT_ONCE]).tobytes())
    if isinstance(pool.crops, np.memmap):  # a cache, whose folder is named by a hash of what made it
        digest.update(Path(str(pool.crops.filename)).parent.name.encode())
        digest.update(pool.rows.tobytes())
    else:
        for start in range(0, len(pool), AT_ONCE):
            digest.update(pool.images(np.arange(start, min(start + AT_ONCE, len(pool)))).tobytes())
    return digest.hexdigest()
