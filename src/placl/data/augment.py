"""Random views of a batch, on the training device: one affine warp, then colour and cut-out. No loop over images.

All random numbers of a batch are drawn on the CPU from one generator, in the same amount whatever the settings of
the images are, so that two trainings with the same seed draw the same views (common random numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from placl.config import Augment

# ImageNet's mean and deviation over its channels: what pretrained backbones expect, good for any photograph.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Views:
    """How each image of a batch is seen: its affine map and whether left and right changed places."""

    matrix: Tensor  # (B, 2, 3): crop pixels (from the crop's centre) of an output pixel (from the view's centre)
    mirrored: Tensor  # (B,) bool


def normalise(images: Tensor) -> Tensor:
    """(B, H, W, 3) uint8 -> (B, 3, H, W) float, channels last, zero mean and unit deviation."""
    mean = torch.tensor(MEAN, device=images.device) * 255.0
    deviation = torch.tensor(DEVIATION, device=images.device) * 255.0
    return ((images.float() - mean) / deviation).permute(0, 3, 1, 2)


def plain_view(images: Tensor, view: float, size: int) -> Tensor:
    """The central ``view`` pixels of crops, at ``size`` pixels a side: a slice where nothing is to be resized."""
    crop = images.shape[2]
    if view == size and (crop - size) % 2 == 0:
        edge = (crop - size) // 2
        return images[:, :, edge : edge + size, edge : edge + size]
    return warp(images, torch.tensor([[[view / size, 0.0, 0.0], [0.0, view / size, 0.0]]]), size)


def warp(images: Tensor, matrix: Tensor, size: int) -> Tensor:
    """Sample (B, C, S, S) at an affine grid: ``matrix`` maps output pixels to input pixels, both from the centres."""
    source = images.shape[2]
    # affine_grid speaks of [-1, 1] over the whole side: x_in / (S/2) = M (x_out / (size/2)) * size / S.
    theta = matrix.to(images.device, images.dtype).expand(len(images), 2, 3).clone()
    theta[:, :, :2] *= size / source
    theta[:, :, 2] /= source / 2
    grid = F.affine_grid(theta, [len(images), images.shape[1], size, size], align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def move_keypoints(keypoints: Tensor, matrix: Tensor, crop: int, size: int) -> Tensor:
    """(B, K, 2) crop pixels -> pixels of the warped view: the inverse of ``warp``'s map."""
    centred = keypoints - (crop - 1) / 2
    linear = torch.linalg.inv(matrix[:, :, :2])  # (B, 2, 2)
    moved: Tensor = (centred - matrix[:, None, :, 2]) @ linear.transpose(1, 2) + (size - 1) / 2
    return moved


def draw_views(count: int, settings: Augment, view: float, size: int, generator: torch.Generator) -> Views:
    u = torch.rand(count, 6, generator=generator)
    mirrored = u[:, 0] < settings.flip
    turned = (u[:, 1] < settings.rotate_share).float()
    angle = turned * (2 * u[:, 2] - 1) * settings.rotate * torch.pi / 180
    zoom = 1 + (2 * u[:, 3] - 1) * settings.scale
    shift = (2 * u[:, 4:6] - 1) * settings.shift * view  # crop pixels
    step = view / size * zoom  # crop pixels per output pixel: the view is scaled, as HRNet scales the box
    cos, sin = torch.cos(angle) * step, torch.sin(angle) * step
    sign = torch.where(mirrored, -1.0, 1.0)
    matrix = torch.stack(
        [torch.stack([cos * sign, -sin, shift[:, 0]], 1), torch.stack([sin * sign, cos, shift[:, 1]], 1)], 1
    )
    return Views(matrix, mirrored)


def mirror_pairs(values: Tensor, mirrored: Tensor, flip_order: Tensor) -> Tensor:
    """Swap left and right along the keypoint axis (B, K, ...) where an image was mirrored."""
    shape = (-1,) + (1,) * (values.dim() - 1)
    return torch.where(mirrored.view(shape), values[:, flip_order], values)


def change_colour(images: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Brightness, contrast and a gain per channel; on normalised images."""
    if strength == 0:
        return images
    u = (2 * torch.rand(len(images), 5, generator=generator) - 1).to(images.device) * strength
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    contrast = (1 + u[:, 0]).view(-1, 1, 1, 1)
    gain = (1 + 0.5 * u[:, 1:4]).view(-1, 3, 1, 1)
    return ((images - mean) * contrast + mean) * gain + u[:, 4].view(-1, 1, 1, 1)


def cut_out(images: Tensor, count: int, largest: float, generator: torch.Generator) -> Tensor:
    """Paste ``count`` mean-coloured squares of up to ``largest`` of the side into each image."""
    if count == 0 or largest == 0:
        return images
    batch, _, height, width = images.shape
    u = torch.rand(batch, count, 3, generator=generator).to(images.device)
    half = u[:, :, 0] * largest / 2
    rows = torch.arange(height, device=images.device) / height
    columns = torch.arange(width, device=images.device) / width
    inside_y = (rows - u[:, :, 1:2]).abs() < half[:, :, None]  # (B, n, H)
    inside_x = (columns - u[:, :, 2:3]).abs() < half[:, :, None]  # (B, n, W)
    covered = (inside_y[:, :, :, None] & inside_x[:, :, None, :]).any(dim=1, keepdim=True)
    return images.masked_fill(covered, 0.0)


def augmented(
    images: Tensor,  # (B, S, S, 3) uint8
    keypoints: Tensor,  # (B, K, 2) crop pixels
    weights: Tensor,  # (B, K)
    *,
    settings: Augment,
    view: float,
    size: int,
    flip_order: Tensor,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    """A training batch: (B, 3, size, size) images, keypoints in their pixels, and weights."""
    views = draw_views(len(images), settings, view, size, generator)
    matrix, mirrored = views.matrix.to(images.device), views.mirrored.to(images.device)
    seen = warp(normalise(images), matrix, size)
    seen = change_colour(seen, settings.colour, generator)
    seen = cut_out(seen, settings.cutout, settings.cutout_size, generator)
    moved = move_keypoints(keypoints, matrix, images.shape[1], size)
    return seen, mirror_pairs(moved, mirrored, flip_order), mirror_pairs(weights, mirrored, flip_order)
