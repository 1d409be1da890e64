"""N instances in one form. Everything downstream of the readers works on a :class:`Pool` and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.skeleton import Skeleton

UNLABELLED, OCCLUDED, VISIBLE = 0, 1, 2
COLUMNS = ("rows", "keypoints", "visibility", "length", "area", "to_image", "image", "head")


@dataclass(frozen=True)
class Pool:
    """Crops and, where there are any, their keypoints.

    ``crops`` is one (rows, S, S, 3) uint8 RGB array, memory-mapped when it comes from the crop cache and shared by
    every subset: ``rows`` says which of its rows are this pool's instances. Coordinates are crop pixels with pixel
    centres at integers. A crop shows more than the network sees: the network's field of view is the central
    ``view`` pixels of the crop, the rest is margin for rotation, scaling and shifting.
    """

    skeleton: Skeleton
    crops: np.ndarray  # (R, S, S, 3) uint8, R >= N
    rows: np.ndarray  # (N,) int64 into crops
    keypoints: np.ndarray  # (N, K, 2) float32, crop pixels
    visibility: np.ndarray  # (N, K) uint8: 0 not labelled, 1 occluded, 2 visible
    length: np.ndarray  # (N,) float32, what PCK divides by, in crop pixels
    area: np.ndarray  # (N,) float32, the object's area in image pixels (OKS)
    to_image: np.ndarray  # (N, 3) float64: image = scale * crop + (tx, ty), as (scale, tx, ty)
    image: np.ndarray  # (N,) int64, a number per image file: instances of one image stay together in a split
    ids: tuple[str, ...]  # unique and stable: file name, '#', annotation id
    view: float  # side of the network's field of view in crop pixels
    head: np.ndarray | None = None  # (N,) float32, what PCKh divides by, in crop pixels; NaN where unknown

    def __len__(self) -> int:
        return len(self.rows)

    def __post_init__(self) -> None:
        n, k = len(self.rows), len(self.skeleton)
        shapes = {
            "keypoints": (self.keypoints.shape, (n, k, 2)),
            "visibility": (self.visibility.shape, (n, k)),
            "length": (self.length.shape, (n,)),
            "area": (self.area.shape, (n,)),
            "to_image": (self.to_image.shape, (n, 3)),
            "image": (self.image.shape, (n,)),
            "ids": ((len(self.ids),), (n,)),
            "head": ((n,) if self.head is None else self.head.shape, (n,)),
        }
        for name, (found, expected) in shapes.items():
            if found != expected:
                raise ValueError(f"pool: {name} has shape {found}, expected {expected}")

    @property
    def crop_size(self) -> int:
        return int(self.crops.shape[1])

    @property
    def labelled(self) -> np.ndarray:
        """(N,) bool: instances with at least one labelled keypoint."""
        return np.asarray((self.visibility > UNLABELLED).any(axis=1))

    def images(self, index: np.ndarray) -> np.ndarray:
        """(B, S, S, 3) uint8 crops of the given instances."""
        return np.asarray(self.crops[self.rows[index]])

    def take(self, index: np.ndarray) -> Pool:
        """The sub-pool of the given instances (integers or a mask); crops are shared, not copied."""
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        columns: dict[str, Any] = {name: _some(array, index) for name, array in self._columns().items()}
        return replace(self, ids=tuple(self.ids[i] for i in index), **columns)

    def _columns(self) -> dict[str, Any]:
        """The arrays that have a row per instance."""
        columns = {name: getattr(self, name) for name in COLUMNS}
        return {name: array for name, array in columns.items() if array is not None}

    def without_labels(self) -> Pool:
        """The same images with every label gone. This is all that training ever gets of unlabelled instances.

        Lengths and the area go too: they may come from a box drawn around the keypoints.
        """
        return replace(
            self,
            keypoints=_all(0, self.keypoints),
            visibility=_all(0, self.visibility),
            length=_all(1, self.length),
            area=_all(1, self.area),
            head=None if self.head is None else _all(np.nan, self.head),
        )

    def in_image(self, keypoints: np.ndarray, some: slice = slice(None)) -> np.ndarray:
        """(n, K, 2) crop coordinates of some of this pool's instances -> coordinates in their images."""
        maps = self.to_image[some]
        scale, shift = maps[:, None, :1], maps[:, None, 1:]
        return np.asarray(keypoints * scale + shift)

    # A memory map is sent to another process as its path, never as its pixels; equal rows are sent once.
    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state |= {name: _Equal(array[:1], len(array)) for name, array in self._columns().items() if _is_equal(array)}
        if isinstance(self.crops, np.memmap) and self.crops.filename is not None:
            state["crops"] = Path(str(self.crops.filename))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["crops"], Path):
            state["crops"] = _shared_map(state["crops"])
        equal = {name: value.array() for name, value in state.items() if isinstance(value, _Equal)}
        self.__dict__.update({**state, **equal})


@dataclass(frozen=True)
class _Equal:
    """An array of equal rows, which takes no memory however many there are."""

    row: np.ndarray  # (1, ...)
    count: int

    def array(self) -> np.ndarray:
        return np.broadcast_to(self.row, (self.count, *self.row.shape[1:]))


def _all(value: float, like: np.ndarray) -> np.ndarray:
    return _Equal(np.full((1, *like.shape[1:]), value, like.dtype), len(like)).array()


def _is_equal(array: np.ndarray) -> bool:
    return len(array) > 1 and array.strides[0] == 0


def _some(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    return _Equal(array[:1], len(index)).array() if _is_equal(array) else array[index]


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    first = arrays[0]
    if all(_is_equal(array) and np.array_equal(array[0], first[0], equal_nan=True) for array in arrays):
        return _Equal(first[:1], sum(map(len, arrays))).array()
    return np.concatenate(arrays)


@lru_cache(maxsize=8)
def _shared_map(path: Path) -> np.ndarray:
    """One map per file and process: pools that shared their crops still do after a journey, and can be joined."""
    return np.asanyarray(np.load(path, mmap_mode="r"))


def concatenate(pools: list[Pool]) -> Pool:
    """One pool of several that share a crop array (as all sources of one cache do)."""
    first = pools[0]
    if any(pool.crops is not first.crops or pool.skeleton != first.skeleton for pool in pools):
        raise ValueError("only pools that share their crops and skeleton can be joined")
    columns = [pool._columns() for pool in pools]
    joined: dict[str, Any] = {name: _joined([some[name] for some in columns if name in some]) for name in columns[0]}
    return replace(first, ids=tuple(i for p in pools for i in p.ids), **joined)
