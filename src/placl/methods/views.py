"""Several views of the same images, and heatmaps carried from one view to another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
    """(B, K, H, W) heatmaps of ``source`` as they are in ``target``: moved, and pairs swapped where one is mirrored."""
    matrix = between(source, target)
    stride = source.images.shape[-1] / heatmaps.shape[-1]
    matrix = torch.cat([matrix[:, :, :2], matrix[:, :, 2:] / stride], dim=2)  # in heatmap pixels
    moved = warp(heatmaps, matrix, heatmaps.shape[-1])
    swapped = (source.mirrored != target.mirrored).to(heatmaps.device)
    return mirror_pairs(moved, swapped, flip_order.to(heatmaps.device))


def carry_points(points: Tensor, source: View, target: View, flip_order: Tensor) -> Tensor:
    """(B, K, 2) places in pixels of ``source`` -> in pixels of ``target``."""
    middle = (source.images.shape[-1] - 1) / 2
    matrix = between(target, source).to(points.device)  # a pixel of the source -> of the target
    moved = (points - middle) @ matrix[:, :, :2].transpose(1, 2) + matrix[:, None, :, 2] + middle
    return mirror_pairs(moved, (source.mirrored != target.mirrored).to(points.device), flip_order.to(points.device))


def visible(source: View, target: View, size: int) -> Tensor:
    """(B, 1, size, size) 1 where a heatmap pixel of ``target`` is within ``source``; elsewhere nothing is known, 0."""
    matrix = between(source, target)
    stride = source.images.shape[-1] / size
    matrix = torch.cat([matrix[:, :, :2], matrix[:, :, 2:] / stride], dim=2)
    whole = torch.ones(len(matrix), 1, size, size, device=source.images.device)
    return (warp(whole, matrix, size) > 0.999).float()
