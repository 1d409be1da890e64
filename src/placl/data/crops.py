"""Crops: which square of an image belongs to a box, and where keypoints land in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, isfinite
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from placl.data.images import decode_shrunk, head_size
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, Pool
from placl.errors import InputError

SCALES = 1e-6, 1e6  # image pixels per crop pixel: beyond these, a box is a mistake
HAIR = 0.01  # crop pixels that a crop may be off by: boxes are given in tenths or hundredths of a pixel


def crop_size(view: int, margin: float) -> int:
    """``margin * view``, and as many pixels left of the field of view as right of it."""
    if view < 1 or margin < 1:
        raise ValueError(f"view must be at least 1 and margin at least 1, not {view} and {margin}")
    size = round(view * margin)
    return size + (size - view) % 2


def crop_maps(boxes: np.ndarray, *, view: int, context: float, size: int) -> np.ndarray:
    """(N, 3) float64 (scale, tx, ty): image = scale * crop + (tx, ty) for the crops of (N, 4) boxes."""
    scale = context * boxes[:, 2:].max(axis=1, keepdims=True) / view  # (N, 1)
    centre = boxes[:, :2] + boxes[:, 2:] / 2 - 0.5  # (N, 2), from edges to pixel centres
    return np.concatenate([scale, centre - scale * (size - 1) / 2], axis=1)


Pixels = Callable[[Path | str, int], tuple[np.ndarray, int]]  # of images.decode_shrunk


def cut_out(
    path: Path | str,
    maps: np.ndarray,
    *,
    view: int,
    context: float,
    size: int,
    pixels: Pixels = decode_shrunk,
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, tuple[int, int]]:
    """The crops of an image by its (n, 3) maps, and its width and height where it is an instance as a whole, else 0, 0.

    Whole images, whose boxes are NaN, have maps of NaN. Each crop is cut from the image no larger than it needs, and so
    depends on nothing but the image and its own box; each size of the image is decoded once. ``out`` is a black
    (n, size, size, 3) array to put them into.
    """
    sizes = _Sizes(path, pixels)
    extent = (0, 0)
    crops = np.zeros((len(maps), size, size, 3), np.uint8) if out is None else out
    for crop, row in zip(crops, maps.tolist(), strict=True):
        if row[0] != row[0]:
            if extent == (0, 0):
                extent = _extent(sizes, view, context, size)
            row = crop_maps(np.array([[0.0, 0.0, *extent]]), view=view, context=context, size=size)[0].tolist()
        scale, x, y = row
        if not (SCALES[0] <= scale <= SCALES[1] and isfinite(x) and isfinite(y)):
            side = scale * view / context
            raise InputError(f"{path}: a box of {side:.3g} pixels at {x:.3g}, {y:.3g} is no part of an image. Fix it.")
        image, shrink = sizes.shrunk(_shrink(scale, size))
        if shrink > 1:  # a pixel's centre, x, lies at (x - (shrink - 1) / 2) / shrink in the shrunk image
            half = (shrink - 1) / 2
            row = [scale / shrink, (x - half) / shrink, (y - half) / shrink]
        cut(image, row, size, crop)
    return crops, extent


class _Sizes:
    """An image in the sizes that have been asked for."""

    def __init__(self, path: Path | str, pixels: Pixels) -> None:
        self.path = path
        self._pixels = pixels
        self._decoded: dict[int, tuple[np.ndarray, int]] = {}  # shrink -> pixels, and by how much they are shrunk

    def shrunk(self, shrink: int) -> tuple[np.ndarray, int]:
        found = self._decoded.get(shrink)
        if found is None:
            found = self._decoded[shrink] = self._pixels(self.path, shrink)
            if found[1] != shrink:  # this image comes in one size
                self._decoded = dict.fromkeys((1, 2, 4, 8), found)
        return found


def _shrink(scale: float, size: int) -> int:
    """How much smaller an image may be decoded for a crop of this scale."""
    scale *= 1 + HAIR / size
    return 8 if scale >= 8 else 4 if scale >= 4 else 2 if scale >= 2 else 1


def _extent(sizes: _Sizes, view: int, context: float, size: int) -> tuple[int, int]:
    """Width and height of an image, decoded no larger than its crop as a whole needs if its head tells its size."""
    known = head_size(sizes.path)
    image, shrink = sizes.shrunk(_shrink(context * max(known) / view, size) if known else 8)
    if shrink > 1 and (known is None or tuple(-(-side // shrink) for side in known) != image.shape[1::-1]):
        known, (image, shrink) = None, sizes.shrunk(1)
    if known is None or shrink == 1:  # a picture from memory has no head, and that of a turned one is not its size
        known = image.shape[1], image.shape[0]
    return known


def cut(
    image: np.ndarray, to_image: Sequence[float] | np.ndarray, size: int, out: np.ndarray | None = None
) -> np.ndarray:
    """(size, size, 3) uint8 crop of an (H, W, 3) image by one row of :func:`crop_maps`; black outside the image.

    Interpolation alone would skip pixels when shrinking, so blocks of ``step`` x ``step`` pixels are averaged first.
    Their grid starts at the crop's corner: shrinking by a whole number is then exactly the mean of the pixels.
    """
    scale, left, top = map(float, to_image)
    if abs(scale - 1) * size < HAIR and abs(left - round(left)) < HAIR and abs(top - round(top)) < HAIR:
        return _copied(image, round(left), round(top), size, out)
    step = max(1, round(scale))
    across, down = _blocks(scale, left, step, image.shape[1], size), _blocks(scale, top, step, image.shape[0], size)
    crop = np.zeros((size, size, 3), np.uint8) if out is None else out
    if across.last <= across.first or down.last <= down.first:
        return crop
    region = image[down.inside, across.inside]
    if step > 1:
        region = _averaged(region, across, down, step)
    x, y, zoom = (across.place + 0.5) / step - 0.5, (down.place + 0.5) / step - 0.5, scale / step
    seen = crop[down.start : down.end, across.start : across.end]
    if max(abs(zoom - 1) * size, abs(x - round(x)), abs(y - round(y))) < HAIR:
        column, row = round(x) + across.start, round(y) + down.start  # blocks are pixels: nothing to interpolate
        block = region[max(row, 0) : row + seen.shape[0], max(column, 0) : column + seen.shape[1]]
        if row >= 0 and column >= 0 and block.shape == seen.shape:
            seen[:] = block
            return crop
    affine = np.array([[zoom, 0, x], [0, zoom, y]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    region = np.ascontiguousarray(region)
    warped = cv2.warpAffine(region, affine, (size, size), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    seen[:] = warped[down.start : down.end, across.start : across.end]
    return crop


def _copied(image: np.ndarray, left: int, top: int, size: int, out: np.ndarray | None) -> np.ndarray:
    """The crop whose pixels are the image's, which nearly all are where files hold one instance each."""
    crop = np.zeros((size, size, 3), np.uint8) if out is None else out
    block = image[max(top, 0) : max(top + size, 0), max(left, 0) : max(left + size, 0)]
    row, column = max(-top, 0), max(-left, 0)
    crop[row : row + block.shape[0], column : column + block.shape[1]] = block
    return crop


class _Blocks(NamedTuple):
    """One axis of a crop: the blocks that it needs, and where they and the image lie."""

    first: int  # blocks from the crop's first, with some around it to interpolate from, as far as the image reaches
    last: int
    inside: slice  # their pixels that are in the image
    before: int  # their pixels that are not
    after: int
    place: float  # of the crop's first pixel, in image pixels from the first block's first
    start: int  # pixels of the crop whose centres are in the image
    end: int


def _blocks(scale: float, shift: float, step: int, extent: int, size: int) -> _Blocks:
    corner = round(shift - scale / 2 + 0.5)  # the first block's first pixel
    first = max(floor(-corner / step), -2)
    last = min(ceil((extent - corner) / step), ceil(size * scale / step) + 2)
    low, high = corner + first * step, corner + last * step
    start = min(max(ceil((-0.5 - shift) / scale), 0), size)
    end = min(max(ceil((extent - 0.5 - shift) / scale), 0), size)
    inside = slice(max(low, 0), min(high, extent))
    return _Blocks(first, last, inside, inside.start - low, high - inside.stop, shift - low, start, end)


def _averaged(region: np.ndarray, across: _Blocks, down: _Blocks, step: int) -> np.ndarray:
    """The means of blocks; those that pass the image's border go on with its last pixels."""
    columns, rows = across.last - across.first, down.last - down.first
    if across.before == across.after == down.before == down.after == 0:
        return np.asarray(cv2.resize(region, (columns, rows), interpolation=cv2.INTER_AREA))
    # One axis at a time: blocks may pass the border by far, and a long thin image must not grow into a square.
    region = cv2.copyMakeBorder(region, 0, 0, across.before, across.after, cv2.BORDER_REPLICATE)
    region = cv2.resize(region, (columns, region.shape[0]), interpolation=cv2.INTER_AREA)
    region = cv2.copyMakeBorder(region, down.before, down.after, 0, 0, cv2.BORDER_REPLICATE)
    return np.asarray(cv2.resize(region, (columns, rows), interpolation=cv2.INTER_AREA))


def refuse_absurd(instances: Instances, *, view: int, context: float, size: int) -> None:
    """Name the first instance whose crop would lie nowhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        maps = crop_maps(instances.boxes, view=view, context=context, size=size)
    low, high = SCALES
    sensible = (maps[:, 0] >= low) & (maps[:, 0] <= high) & np.isfinite(maps).all(axis=1)
    for row in np.flatnonzero(~sensible & ~np.isnan(instances.boxes).all(axis=1)):
        box = ", ".join(f"{side:.4g}" for side in instances.boxes[row])
        source = instances.sources[instances.image_index[row]] if instances.sources else ""
        where = f" in {source}" if source else ""
        raise InputError(f"{instances.ids[row]}: its box ({box}) is no part of an image. Fix it{where}.")


def whole_where_nan(boxes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(N, 4) boxes, those of whole images filled in from the images' sizes (N or 1, 2)."""
    return np.where(np.isnan(boxes), np.concatenate([np.zeros_like(sizes), sizes], axis=1), boxes)


def make_pool(
    instances: Instances,
    kept: np.ndarray,  # (N,) which of the instances
    sizes: np.ndarray,  # (M, 2) width and height of the images
    crops: np.ndarray,  # (R, S, S, 3)
    rows: np.ndarray,  # (N,) where the crops of those instances are
    *,
    view: int,
    context: float,
) -> Pool:
    """The kept instances with their keypoints in crop pixels, once their crops are there."""
    if instances.skeleton is None:
        raise ValueError("instances without a skeleton make no pool")
    boxes = whole_where_nan(instances.boxes[kept], sizes[instances.image_index[kept]])
    maps = crop_maps(boxes, view=view, context=context, size=crops.shape[1])
    visibility = instances.visibility[kept]
    points = (instances.keypoints[kept] - maps[:, None, 1:]) / maps[:, None, :1]
    area = instances.area[kept]
    return Pool(
        skeleton=instances.skeleton,
        crops=crops,
        rows=rows.astype(np.int64),
        keypoints=np.where(visibility[..., None] > UNLABELLED, points, 0).astype(np.float32),
        visibility=visibility,
        length=np.full(len(kept), view / context, np.float32),
        area=np.where(np.isnan(area), boxes[:, 2] * boxes[:, 3], area).astype(np.float32),
        to_image=maps,
        image=instances.image_index[kept].astype(np.int64),
        ids=tuple(instances.ids[i] for i in kept),
        view=float(view),
        head=None if instances.head_length is None else (instances.head_length[kept] / maps[:, 0]).astype(np.float32),
    )
