"""Several views of the same images, and heatmaps carried from one view to another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from placl.data.augment import mirror_pairs, warp


@dataclass(frozen=True)
class View:
    """A batch of images as an affine map of their crops shows them."""

    images: Tensor  # (B, 3, S, S) normalised, channels last
    matrix: Tensor  # (B, 2, 3): crop pixels (from the crop's centre) of a view's pixel (from the view's centre)
    mirrored: Tensor  # (B,) bool: left and right keypoints have changed places


def between(source: View, target: View) -> Tensor:
    """(B, 2, 3): where in ``source`` a pixel of ``target`` lies, both from the centres."""
    inverse = torch.linalg.inv(source.matrix[:, :, :2])  # (B, 2, 2)
    linear = inverse @ target.matrix[:, :, :2]
    shift = inverse @ (target.matrix[:, :, 2:] - source.matrix[:, :, 2:])
    return torch.cat([linear, shift], dim=2)


def carry(heatmaps: Tensor, source: View, target: View, flip_order: Tensor) -> Tensor:
    """(B, K, H, W) heatmaps of ``source`` as they are in ``target``: moved, and pairs swapped where one is mirrored.

    A closer view has larger blobs. Beyond the source there are zeros; :func:`visible` says where that is.
    """
    moved = _cubic(heatmaps, _in_heatmap(between(source, target), source, heatmaps.shape[-1]))
    return carry_pairs(moved, source, target, flip_order)


def carry_points(points: Tensor, source: View, target: View, flip_order: Tensor) -> Tensor:
    """(B, K, 2) places in pixels of ``source`` -> in pixels of ``target``."""
    middle = (source.images.shape[-1] - 1) / 2
    matrix = between(target, source).to(points.device)  # a pixel of the source -> of the target
    moved = (points - middle) @ matrix[:, :, :2].transpose(1, 2) + matrix[:, None, :, 2] + middle
    return carry_pairs(moved, source, target, flip_order)


def carry_pairs(values: Tensor, source: View, target: View, flip_order: Tensor) -> Tensor:
    """(B, K, ...) values of keypoints in ``source`` -> of keypoints in ``target``, where left may be right."""
    swapped = (source.mirrored != target.mirrored).to(values.device)
    return mirror_pairs(values, swapped, flip_order.to(values.device))


def visible(source: View, target: View, size: int) -> Tensor:
    """(B, 1, size, size) 1 where a heatmap pixel of ``target`` is within ``source``; elsewhere nothing is known, 0."""
    whole = torch.ones(len(source.matrix), 1, size, size, device=source.images.device)
    return (warp(whole, _in_heatmap(between(source, target), source, size), size) > 0.999).float()


def _in_heatmap(matrix: Tensor, view: View, size: int) -> Tensor:
    """A map between pixels of two views -> between pixels of their heatmaps, ``size`` a side."""
    stride = view.images.shape[-1] / size
    return torch.cat([matrix[:, :, :2], matrix[:, :, 2:] / stride], dim=2)


def _cubic(heatmaps: Tensor, matrix: Tensor) -> Tensor:
    """:func:`warp` by cubic interpolation, as large as before.

    Linear interpolation takes up to a sixth off the peak of a Gaussian of one pixel (a cubic less than 1 %), and a
    network that is taught by its own answers would flatten them ever more.
    """
    theta = matrix.to(heatmaps.device, heatmaps.dtype, copy=True)
    theta[:, :, 2] /= heatmaps.shape[-1] / 2
    grid = F.affine_grid(theta, list(heatmaps.shape), align_corners=False)
    return F.grid_sample(heatmaps, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
