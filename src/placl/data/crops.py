"""Crops: which square of an image belongs to a box, and where keypoints land in it."""

from __future__ import annotations

import cv2
import numpy as np

from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, Pool


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


def cut(image: np.ndarray, to_image: np.ndarray, size: int) -> np.ndarray:
    """(size, size, 3) uint8 crop of an (H, W, 3) image by one row of :func:`crop_maps`; black outside the image.

    Interpolation alone would skip pixels when shrinking, so blocks of ``step`` x ``step`` pixels are averaged first.
    Their grid starts at the crop's corner: shrinking by a whole number is then exactly the mean of the pixels.
    """
    scale, shift = float(to_image[0]), to_image[1:]
    step = max(1, round(scale))
    extent = np.array(image.shape[1::-1])  # width, height
    corner = np.rint(shift - scale / 2 + 0.5)  # x, y of the first block's first pixel
    # The blocks that the crop needs, with some around it to interpolate from, as far as the image reaches.
    first = np.maximum(np.floor(-corner / step), -2)
    last = np.minimum(np.ceil((extent - corner) / step), np.ceil(size * scale / step) + 2)
    if (last <= first).any():
        return np.zeros((size, size, 3), np.uint8)
    low, high = (corner + first * step).astype(int), (corner + last * step).astype(int)  # in pixels of the image
    (x0, y0), (x1, y1) = np.maximum(low, 0), np.minimum(high, extent)
    region = image[y0:y1, x0:x1]
    if step > 1:
        columns, rows = (last - first).astype(int).tolist()
        left, top, right, bottom = map(int, (x0 - low[0], y0 - low[1], high[0] - x1, high[1] - y1))
        # One axis at a time: blocks may pass the border by far, and a long thin image must not grow into a square.
        region = cv2.copyMakeBorder(region, 0, 0, left, right, cv2.BORDER_REPLICATE)
        region = cv2.resize(region, (columns, region.shape[0]), interpolation=cv2.INTER_AREA)
        region = cv2.copyMakeBorder(region, top, bottom, 0, 0, cv2.BORDER_REPLICATE)
        region = cv2.resize(region, (columns, rows), interpolation=cv2.INTER_AREA)
    x, y = (shift - low + 0.5) / step - 0.5  # where the crop's pixel (0, 0) lies among the blocks
    affine = np.array([[scale / step, 0, x], [0, scale / step, y]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    region = np.ascontiguousarray(region)
    crop = np.asarray(cv2.warpAffine(region, affine, (size, size), flags=flags, borderMode=cv2.BORDER_REPLICATE))
    start, end = (np.clip(np.ceil((e - 0.5 - shift) / scale), 0, size).astype(int) for e in (0, extent))
    crop[: start[1]] = crop[end[1] :] = 0
    crop[:, : start[0]] = crop[:, end[0] :] = 0
    return crop


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
