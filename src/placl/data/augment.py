"""Random views of a batch, on the training device: one affine warp, then colour and cut-out.

A GPU takes a batch at once. On a CPU, OpenCV samples image by image, in an eighth of the time that torch takes for the
batch, and arithmetic goes along rows of pixels, three channels in one: a last axis of three cannot be vectorised.

All random numbers of a batch are drawn on the CPU from one generator, in the same amount whatever the settings of
the images are, so that two trainings with the same seed draw the same views (common random numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
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


@dataclass(frozen=True)
class Drawn:
    """All that is random about a batch."""

    views: Views
    colour: Tensor | None  # (B, 5) in [0, 1)
    holes: Tensor | None  # (B, n, 3) in [0, 1)


def normalise(images: Tensor) -> Tensor:
    """(B, H, W, 3) uint8 -> (B, 3, H, W) float, channels last, zero mean and unit deviation."""
    gain, bias = normalisation()
    return _affine(images.contiguous(), gain[None], bias[None])


def normalisation() -> tuple[Tensor, Tensor]:
    """(3,) gains and biases: pixels in 0 to 255, times the one, plus the other, are what networks see."""
    mean, deviation = torch.tensor(MEAN) * 255.0, torch.tensor(DEVIATION) * 255.0
    return 1 / deviation, -(mean / deviation)


def _affine(pixels: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """(B, H, W, 3) pixels times (B or 1, 3) gains plus biases -> (B, 3, H, W) float, channels last."""
    batch, height, width, channels = pixels.shape
    gain, bias = (value.to(pixels.device).repeat(1, width)[:, None] for value in (gain, bias))  # (B or 1, 1, W * 3)
    rows = torch.addcmul(bias, pixels.view(batch, height, width * channels).float(), gain)
    return rows.view(pixels.shape).permute(0, 3, 1, 2)


def plain_view(images: Tensor, view: float, size: int) -> Tensor:
    """The central ``view`` pixels of (B, S, S, 3) crops, ``size`` a side: a slice where nothing is to be resized."""
    crop = images.shape[1]
    if view == size and (crop - size) % 2 == 0:
        edge = (crop - size) // 2
        return normalise(images[:, edge : edge + size, edge : edge + size])
    return sample(images, torch.tensor([[[view / size, 0.0, 0.0], [0.0, view / size, 0.0]]]), size)


def sample(images: Tensor, matrix: Tensor, size: int) -> Tensor:
    """Affine views of (B, S, S, 3) uint8 crops as :func:`warp` has them, but normalised; outside is the mean colour."""
    if images.device.type != "cpu":
        return warp(normalise(images), matrix, size).contiguous(memory_format=torch.channels_last)
    # From centres to OpenCV's corners: x_in = L (x_out - (size - 1) / 2) + t + (S - 1) / 2.
    maps = matrix.double().expand(len(images), 2, 3).clone()
    maps[:, :, 2] += (images.shape[1] - 1) / 2 - maps[:, :, :2].sum(2) * (size - 1) / 2
    seen = np.empty((len(images), size, size, 3), np.uint8)
    mean = [round(255 * value) for value in MEAN]
    for image, place, out in zip(images.numpy(), maps.numpy(), seen, strict=True):
        cv2.warpAffine(
            image,
            place,
            (size, size),
            dst=out,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=mean,
        )
    return normalise(torch.from_numpy(seen))


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


def draw(count: int, settings: Augment, view: float, size: int, generator: torch.Generator) -> Drawn:
    return Drawn(
        draw_views(count, settings, view, size, generator),
        torch.rand(count, 5, generator=generator) if settings.colour else None,
        torch.rand(count, settings.cutout, 3, generator=generator) if settings.cutout * settings.cutout_size else None,
    )


def change_colour(images: Tensor, drawn: Tensor, strength: float) -> Tensor:
    """Brightness, contrast and a gain per channel; on normalised images."""
    u = (2 * drawn - 1).to(images.device) * strength
    mean = images.mean(dim=(1, 2, 3))[:, None]  # (B, 1)
    contrast, gain, brightness = 1 + u[:, :1], 1 + 0.5 * u[:, 1:4], u[:, 4:]
    # ((x - mean) * contrast + mean) * gain + brightness
    pixels = images.permute(0, 2, 3, 1).contiguous()
    return _affine(pixels, contrast * gain, mean * (1 - contrast) * gain + brightness)


def cut_out(images: Tensor, u: Tensor, largest: float) -> Tensor:
    """Paste mean-coloured squares of up to ``largest`` of the side into each image, as (B, n, 3) numbers have it."""
    sides = torch.tensor(images.shape[2:])
    low, high = (u[:, :, 1:] + sign * u[:, :, :1] * largest / 2 for sign in (-1, 1))  # (B, n, 2), rows and columns
    first, end = (low * sides).floor().long().add(1).clamp(min=0), (high * sides).ceil().long().clamp(min=0)
    if images.device.type != "cpu":
        return images.masked_fill(_covered(first.to(images.device), end.to(images.device), images.shape[2:]), 0.0)
    holed = images.clone()
    pixels = holed.numpy()
    for image, starts, ends in zip(pixels, first.tolist(), end.tolist(), strict=True):
        for (top, left), (bottom, right) in zip(starts, ends, strict=True):
            image[:, top:bottom, left:right] = 0.0
    return holed


def _covered(first: Tensor, end: Tensor, sides: torch.Size) -> Tensor:
    """(B, n, 2) first pixels and ends of rectangles -> (B, 1, H, W) bool: where one of them is."""
    rows, columns = (torch.arange(side, device=first.device) for side in sides)
    inside_y = (rows >= first[:, :, :1]) & (rows < end[:, :, :1])  # (B, n, H)
    inside_x = (columns >= first[:, :, 1:]) & (columns < end[:, :, 1:])  # (B, n, W)
    return (inside_y[:, :, :, None] & inside_x[:, :, None, :]).any(dim=1, keepdim=True)


def augmented(
    images: Tensor,  # (b, S, S, 3) uint8: some of the batch
    keypoints: Tensor,  # (B, K, 2) crop pixels
    weights: Tensor,  # (B, K)
    drawn: Drawn,
    *,
    settings: Augment,
    size: int,
    flip_order: Tensor,
    rows: slice = slice(None),
) -> tuple[Tensor, Tensor, Tensor]:
    """(b, 3, size, size) images, channels last, of the ``rows`` of a batch; keypoints in pixels and weights of all."""
    matrix, mirrored = drawn.views.matrix, drawn.views.mirrored
    seen = sample(images, matrix[rows], size)
    if drawn.colour is not None:
        seen = change_colour(seen, drawn.colour[rows], settings.colour)
    if drawn.holes is not None:
        seen = cut_out(seen, drawn.holes[rows], settings.cutout_size)
    moved = move_keypoints(keypoints, matrix, images.shape[1], size)
    return seen, mirror_pairs(moved, mirrored, flip_order), mirror_pairs(weights, mirrored, flip_order)
