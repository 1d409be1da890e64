"""N instances in one form. Everything downstream of the readers works on a :class:`Pool` and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.skeleton import Skeleton

UNLABELLED, OCCLUDED, VISIBLE = 0, 1, 2


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
        return replace(
            self,
            rows=self.rows[index],
            keypoints=self.keypoints[index],
            visibility=self.visibility[index],
            length=self.length[index],
            area=self.area[index],
            to_image=self.to_image[index],
            image=self.image[index],
            ids=tuple(self.ids[i] for i in index),
            head=None if self.head is None else self.head[index],
        )

    def without_labels(self) -> Pool:
        """The same images with every label gone. This is all that training ever gets of unlabelled instances.

        Lengths and the area go too: they may come from a box drawn around the keypoints.
        """
        return replace(
            self,
            keypoints=np.zeros_like(self.keypoints),
            visibility=np.zeros_like(self.visibility),
            length=np.ones_like(self.length),
            area=np.ones_like(self.area),
            head=None if self.head is None else np.full_like(self.head, np.nan),
        )

    def in_image(self, keypoints: np.ndarray) -> np.ndarray:
        """(N, K, 2) crop coordinates of this pool's instances -> coordinates in their images."""
        scale, shift = self.to_image[:, None, :1], self.to_image[:, None, 1:]
        return np.asarray(keypoints * scale + shift)

    # A memory map is sent to another process as its path, never as its pixels.
    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if isinstance(self.crops, np.memmap) and self.crops.filename is not None:
            state["crops"] = Path(str(self.crops.filename))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["crops"], Path):
            state["crops"] = _shared_map(state["crops"])
        self.__dict__.update(state)


@lru_cache(maxsize=8)
def _shared_map(path: Path) -> np.ndarray:
    """One map per file and process: pools that shared their crops still do after a journey, and can be joined."""
    return np.asanyarray(np.load(path, mmap_mode="r"))


def concatenate(pools: list[Pool]) -> Pool:
    """One pool of several that share a crop array (as all sources of one cache do)."""
    first = pools[0]
    if any(pool.crops is not first.crops or pool.skeleton != first.skeleton for pool in pools):
        raise ValueError("only pools that share their crops and skeleton can be joined")
    return replace(
        first,
        rows=np.concatenate([p.rows for p in pools]),
        keypoints=np.concatenate([p.keypoints for p in pools]),
        visibility=np.concatenate([p.visibility for p in pools]),
        length=np.concatenate([p.length for p in pools]),
        area=np.concatenate([p.area for p in pools]),
        to_image=np.concatenate([p.to_image for p in pools]),
        image=np.concatenate([p.image for p in pools]),
        ids=tuple(i for p in pools for i in p.ids),
        head=None if first.head is None else np.concatenate([p.head for p in pools if p.head is not None]),
    )
