"""Keypoints for which rounding chose another peak: on a flat heatmap, many pixels are the largest to the last digit.

Networks that have hardly been trained answer so. Which of these pixels is the argmax differs from program to program,
and the keypoint with it, by as much as the picture is wide.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from torch import Tensor

from placl.exporting.agreement import AT_ONCE, TOLERANCE, TRIES
from placl.exporting.reader import Reader


def other_peaks(reader: Reader, images: np.ndarray, places: np.ndarray, rounding: float) -> np.ndarray:
    """(N, K) whether each of (N, K, 2) places is where PyTorch itself could have found the keypoint.

    That is what it reads from a pixel of its own heatmap that is lower than the peak by ``rounding`` at most: the same
    place to the tolerance, or as near as the reading moves when every pixel is changed by ``rounding``, up or down.
    """
    found = [
        _some(reader, images[start : start + AT_ONCE], places[start : start + AT_ONCE], rounding)
        for start in range(0, len(images), AT_ONCE)
    ]
    return np.concatenate(found)


@torch.no_grad()
def _some(reader: Reader, images: np.ndarray, places: np.ndarray, rounding: float) -> np.ndarray:
    maps = reader.heatmaps(torch.from_numpy(images)).contiguous()  # (B, K, H, W)
    random = torch.Generator().manual_seed(0)
    signs = [2 * torch.randint(2, maps.shape, generator=random) - 1 for _ in range(TRIES)]
    moved = [maps + rounding * sign for sign in signs]
    wanted = torch.from_numpy(places).float()  # (B, K, 2)
    floor = maps.amax(dim=(-2, -1)) - rounding
    first = torch.nan_to_num(reader.codec.to_heatmap(wanted), nan=-9.0).floor().long()
    last = torch.tensor([maps.shape[-1] - 1, maps.shape[-2] - 1])
    found = torch.zeros(floor.shape, dtype=torch.bool)
    for step in product(range(-1, 3), repeat=2):  # a keypoint is read from a pixel that is one away at most
        pixel = first + torch.tensor(step)
        inside = ((pixel >= 0) & (pixel <= last)).all(dim=-1)
        pixel = torch.minimum(pixel.clamp(min=0), last)
        read = reader.codec.refine(maps, pixel)
        slack = torch.stack([_apart(reader.codec.refine(other, pixel), read) for other in moved]).amax(dim=0)
        same = _apart(read, wanted) <= slack.clamp(min=TOLERANCE)
        found |= inside & (_values(maps, pixel) >= floor) & same
    return found.numpy()


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """(B, K) largest difference of a coordinate."""
    return (a - b).abs().amax(dim=-1)


def _values(maps: Tensor, pixel: Tensor) -> Tensor:
    """(B, K) of the heatmaps at (B, K, 2) pixels."""
    flat = pixel[..., 1] * maps.shape[-1] + pixel[..., 0]
    return maps.flatten(2).gather(2, flat[..., None])[..., 0]
