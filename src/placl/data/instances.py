"""What a reader returns: boxes and keypoints in image pixels, before any pixel has been read.

Several sources (labelled, unlabelled, plain images) are joined here, and :mod:`placl.data.crop_cache` turns the result
into a :class:`~placl.data.pool.Pool`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placl.data.identity import Identity, identify
from placl.data.pool import UNLABELLED
from placl.data.skeleton import Skeleton
from placl.errors import InputError


@dataclass(frozen=True)
class Instances:
    """N objects in M image files.

    Keypoints have pixel centres at integers. Boxes are x, y, width, height with edges between pixels: pixel i covers
    [i, i + 1), so the centre of a box, as a keypoint, is x + w / 2 - 0.5.
    """

    skeleton: Skeleton | None  # None: nothing has told us yet what is to be localized (plain images)
    images: tuple[Path, ...]  # M unique files
    image_index: np.ndarray  # (N,) int64 into images
    boxes: np.ndarray  # (N, 4) float64 xywh; a row of NaN is the whole image, whose size only decoding tells
    keypoints: np.ndarray  # (N, K, 2) float32, image pixels
    visibility: np.ndarray  # (N, K) uint8: 0 not labelled, 1 occluded, 2 visible
    area: np.ndarray  # (N,) float32, image pixels; NaN goes with a box that is the whole image
    ids: tuple[str, ...]  # unique and stable: file name, '#', annotation id
    head_length: np.ndarray | None = None  # (N,) float32, what PCKh divides by
    sources: tuple[str, ...] = ()  # (M,) the annotation file that lists each image, for error messages
    classes: tuple[str, ...] = ()  # (N,) what kind each is of (bird, dog); empty where a source does not tell
    splits: tuple[str, ...] = ()  # (M,) the part of its dataset that each image belongs to ("train", ...); "" unknown
    drawn: np.ndarray | None = None  # (N,) bool: the box was drawn around the keypoints and would give them away
    stated: np.ndarray | None = None  # (M, 2) width and height of each image as its source has them; NaN unknown

    def __post_init__(self) -> None:
        n, k = len(self.ids), 0 if self.skeleton is None else len(self.skeleton)
        shapes = {
            "image_index": (self.image_index.shape, (n,)),
            "boxes": (self.boxes.shape, (n, 4)),
            "keypoints": (self.keypoints.shape, (n, k, 2)),
            "visibility": (self.visibility.shape, (n, k)),
            "area": (self.area.shape, (n,)),
            "head_length": ((n,) if self.head_length is None else self.head_length.shape, (n,)),
            "sources": ((len(self.sources or self.images),), (len(self.images),)),
            "classes": ((len(self.classes or self.ids),), (n,)),
            "splits": ((len(self.splits or self.images),), (len(self.images),)),
            "drawn": ((n,) if self.drawn is None else self.drawn.shape, (n,)),
            "stated": ((len(self.images), 2) if self.stated is None else self.stated.shape, (len(self.images), 2)),
        }
        for name, (found, expected) in shapes.items():
            if found != expected:
                raise ValueError(f"instances: {name} has shape {found}, expected {expected}")
        if n and not 0 <= self.image_index.min() <= self.image_index.max() < len(self.images):
            raise ValueError(f"instances: image_index points outside the {len(self.images)} images")
        for i, j in np.argwhere((self.visibility > UNLABELLED) & ~np.isfinite(self.keypoints).all(axis=2)):
            file = self.images[self.image_index[i]]
            raise InputError(f"{file}: keypoint {j + 1} of {self.ids[i]} lies beyond what numbers can say. Fix it.")
        if (self.boxes[:, 2:] <= 0).any():
            raise ValueError("instances: a box has no size")
        texts = [os.path.normcase(image) for image in self.images]  # hashed ten times as fast as paths, and as equal
        for name, items in (("images", texts), ("ids", self.ids)):
            if len(set(items)) != len(items):
                raise ValueError(f"instances: {name} repeat")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelled(self) -> np.ndarray:
        """(N,) bool: instances with at least one labelled keypoint."""
        return np.asarray((self.visibility > UNLABELLED).any(axis=1))

    def take(self, index: np.ndarray) -> Instances:
        """The given instances, and only the images that they are in."""
        used, image_index = np.unique(self.image_index[index], return_inverse=True)
        return replace(
            self,
            images=tuple(self.images[i] for i in used),
            image_index=image_index,
            boxes=self.boxes[index],
            keypoints=self.keypoints[index],
            visibility=self.visibility[index],
            area=self.area[index],
            ids=tuple(self.ids[i] for i in index),
            head_length=None if self.head_length is None else self.head_length[index],
            sources=tuple(self.sources[i] for i in used) if self.sources else (),
            classes=tuple(self.classes[i] for i in index) if self.classes else (),
            splits=tuple(self.splits[i] for i in used) if self.splits else (),
            drawn=None if self.drawn is None else self.drawn[index],
            stated=None if self.stated is None else self.stated[used],
        )

    def with_skeleton(self, skeleton: Skeleton) -> Instances:
        """Plain images take on a skeleton, with every keypoint unlabelled; others must have its keypoints already."""
        if self.skeleton is not None:
            _require_same_names(skeleton, self.skeleton)
            return replace(self, skeleton=skeleton)
        n, k = len(self), len(skeleton)
        return replace(
            self,
            skeleton=skeleton,
            keypoints=np.zeros((n, k, 2), np.float32),
            visibility=np.zeros((n, k), np.uint8),
        )


Roles = list[tuple[str, Instances]]  # "labelled", "unlabelled", "val" or "test", and what has that role
ROLE_OF_SPLIT = {"val": "val", "valid": "val", "validation": "val", "test": "test"}


def own_roles(instances: Instances) -> np.ndarray | None:
    """(N,) "labelled", "val" or "test", as a source itself divides its images; None if it does not."""
    if not set(instances.splits) & set(ROLE_OF_SPLIT):
        return None
    roles = np.array([ROLE_OF_SPLIT.get(split, "labelled") for split in instances.splits], dtype="<U10")
    return np.asarray(roles[instances.image_index])


def plain_instances(
    images: tuple[Path, ...], ids: tuple[str, ...], image_index: np.ndarray, boxes: np.ndarray, area: np.ndarray
) -> Instances:
    """Instances that nothing is known of but where they are."""
    n = len(ids)
    keypoints, visibility = np.zeros((n, 0, 2), np.float32), np.zeros((n, 0), np.uint8)
    return Instances(None, images, image_index, boxes, keypoints, visibility, area, ids)


def join(parts: list[Instances]) -> Instances:
    """All instances of several sources, in their order. Sources without a skeleton take on that of the others."""
    if not parts:
        raise ValueError("nothing to join")
    skeleton = next((part.skeleton for part in parts if part.skeleton is not None), None)
    if skeleton is not None:
        parts = [part.with_skeleton(skeleton) for part in parts]
    known = identify([part.images for part in parts])
    files: dict[Identity, Path] = {}  # each image once, as it is spelled first
    sources: dict[Identity, str] = {}
    splits: dict[Identity, str] = {}
    for part, identities in zip(parts, known, strict=True):
        blank = ("",) * len(part.images)
        facts = zip(identities, part.images, part.sources or blank, part.splits or blank, strict=True)
        for identity, path, source, split in facts:
            files.setdefault(identity, path)
            sources[identity] = sources.get(identity) or source
            splits[identity] = splits.get(identity) or split
    position = {identity: i for i, identity in enumerate(files)}
    places = [np.array([position[identity] for identity in identities], np.int64) for identities in known]
    moved = [place[part.image_index] for part, place in zip(parts, places, strict=True)]
    return Instances(
        skeleton=skeleton,
        images=tuple(files.values()),
        image_index=np.concatenate(moved),
        boxes=np.concatenate([part.boxes for part in parts]),
        keypoints=np.concatenate([part.keypoints for part in parts]),
        visibility=np.concatenate([part.visibility for part in parts]),
        area=np.concatenate([part.area for part in parts]),
        ids=_unique_ids(parts),
        head_length=_head_lengths(parts),
        sources=tuple(sources.values()),
        classes=_classes(parts),
        splits=tuple(splits.values()) if any(splits.values()) else (),
        drawn=_drawn(parts),
        stated=_stated(parts, places, len(files)),
    )


def _require_same_names(expected: Skeleton, found: Skeleton) -> None:
    if found.keypoints != expected.keypoints:
        raise InputError(
            f"the sources name different keypoints: {', '.join(expected.keypoints)} against "
            f"{', '.join(found.keypoints)}. Use one list, in one order, for all of them."
        )


def _unique_ids(parts: list[Instances]) -> tuple[str, ...]:
    """An id that an earlier source has taken gets its source's number behind it, as in ``bird.jpg#17@2``."""
    taken: dict[str, None] = {}
    for number, part in enumerate(parts, start=1):
        own = set(part.ids)
        for identity in part.ids:
            unique = identity
            # A longer id must not take the name of a later instance of its own source either.
            while unique in taken or (unique != identity and unique in own):
                unique = f"{unique}@{number}"
            taken[unique] = None
    return tuple(taken)


def _head_lengths(parts: list[Instances]) -> np.ndarray | None:
    if all(part.head_length is None for part in parts):
        return None
    unknown = [
        np.full(len(part), np.nan, np.float32) if part.head_length is None else part.head_length for part in parts
    ]
    return np.concatenate(unknown)


def _classes(parts: list[Instances]) -> tuple[str, ...]:
    if not any(part.classes for part in parts):
        return ()
    return tuple(name for part in parts for name in part.classes or ("",) * len(part))


def _drawn(parts: list[Instances]) -> np.ndarray | None:
    if all(part.drawn is None for part in parts):
        return None
    return np.concatenate([np.zeros(len(part), bool) if part.drawn is None else part.drawn for part in parts])


def _stated(parts: list[Instances], places: list[np.ndarray], count: int) -> np.ndarray | None:
    if all(part.stated is None for part in parts):
        return None
    stated = np.full((count, 2), np.nan)
    for part, place in zip(parts, places, strict=True):
        if part.stated is not None:
            stated[place] = np.where(np.isnan(stated[place]), part.stated, stated[place])
    return stated
