"""Keypoints to heatmaps and back, batched: the Gaussians that a network learns, and what is read from its answer.

Pixel centres lie at integers, so input pixel x is heatmap pixel (x + 0.5) / stride - 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Decoding = Literal["quarter", "dark", "argmax"]

REACH = 2  # DARK's finite differences look two pixels far
LARGEST_OFFSET = 1.0  # heatmap pixels; a larger Taylor step has left the neighbourhood it is valid in
FLOOR = 1e-10  # of the local maximum, before the logarithm


@dataclass(frozen=True)
class HeatmapCodec:
    """Encode and decode heatmaps of a square input.

    ``sigma`` is the Gaussian's width in heatmap pixels. ``decoding`` says how the argmax is refined: not at all
    (``argmax``), by a quarter of a pixel towards the larger neighbour (``quarter``, as HRNet does), or by a Taylor
    expansion of the log-heatmap (``dark``, Zhang et al. 2020).
    """

    input_size: int
    stride: int
    sigma: float
    decoding: Decoding = "dark"

    def __post_init__(self) -> None:
        if self.stride < 1 or self.input_size < 1 or self.input_size % self.stride:
            raise ValueError(f"an input of {self.input_size} px does not divide into heatmap pixels of {self.stride}")
        if not self.sigma > 0:
            raise ValueError(f"sigma must be positive, got {self.sigma}")
        if self.decoding not in ("quarter", "dark", "argmax"):
            raise ValueError(f"decoding is quarter, dark or argmax, got {self.decoding!r}")

    @property
    def heatmap_size(self) -> int:
        return self.input_size // self.stride

    def to_heatmap(self, points: Tensor) -> Tensor:
        """Input pixels -> heatmap pixels."""
        return (points + 0.5) / self.stride - 0.5

    def to_input(self, points: Tensor) -> Tensor:
        """Heatmap pixels -> input pixels."""
        return (points + 0.5) * self.stride - 0.5

    def inside(self, keypoints: Tensor, weights: Tensor) -> Tensor:
        """Weights (B, K), 0 where a keypoint lies outside of the input or is not finite."""
        # NaN compares false, so what is not finite is not inside either.
        inside = ((keypoints >= -0.5) & (keypoints <= self.input_size - 0.5)).all(dim=-1)  # (B, K)
        return torch.where(inside, weights.float(), 0.0)

    def encode(self, keypoints: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Keypoints (B, K, 2) in input pixels and weights (B, K) -> targets (B, K, H, W) and weights (B, K).

        The Gaussian stands on the unrounded centre, so its largest pixel is 1 only if the centre is a pixel's. A
        keypoint outside the input, or not finite, gets weight 0; a keypoint of weight 0 gets an empty heatmap.
        """
        keypoints, weights = keypoints.float(), self.inside(keypoints, weights)
        centres = self.to_heatmap(torch.where((weights > 0)[..., None], keypoints, 0.0))  # (B, K, 2)
        pixels = torch.arange(self.heatmap_size, dtype=torch.float32, device=keypoints.device)
        distance = pixels - centres[..., None]  # (B, K, 2, size)
        along = torch.exp(-(distance**2) / (2 * self.sigma**2))
        along_x = along[:, :, 0] * (weights > 0)[..., None]
        return along[:, :, 1, :, None] * along_x[:, :, None, :], weights

    def decode(self, heatmaps: Tensor) -> tuple[Tensor, Tensor]:
        """Heatmaps (B, K, H, W) -> keypoints (B, K, 2) in input pixels and the unrefined peak values (B, K)."""
        maps = heatmaps.detach().float().contiguous()
        w = maps.shape[-1]
        flat = _argmax(maps.flatten(2))  # (B, K)
        peak = maps.flatten(2).gather(2, flat[..., None])[..., 0]
        corner = torch.stack([flat % w, flat // w], dim=-1)  # (B, K, 2) integers, x then y
        return self.refine(maps, corner), peak

    def refine(self, maps: Tensor, corner: Tensor) -> Tensor:
        """Pixels (B, K, 2) of heatmaps (B, K, H, W) that are taken for their peaks -> keypoints in input pixels."""
        if self.decoding == "argmax":
            return self.to_input(corner.float())
        h, w = maps.shape[-2:]
        reach = 1 if self.decoding == "quarter" else REACH
        last = torch.tensor([w - 1, h - 1], device=maps.device)
        interior = (corner >= reach) & (corner <= last - reach)  # (B, K, 2)
        if self.decoding == "quarter":
            offset = torch.where(interior, _quarter(maps, corner), 0.0)
        else:
            offset = torch.where(interior.all(dim=-1, keepdim=True), _dark(maps, corner, self.sigma), 0.0)
        return self.to_input(corner + offset)


def _argmax(values: Tensor) -> Tensor:
    """The first place of the maximum along the last axis; on CPUs by numpy, which is eight times as fast as torch.

    A graph that is being exported has no numbers yet, and takes torch's.
    """
    if values.device.type == "cpu" and not torch.compiler.is_compiling():
        return torch.from_numpy(values.numpy().argmax(-1))
    return values.argmax(-1)


def _neighbourhood(maps: Tensor, corner: Tensor, reach: int) -> Tensor:
    """(B, K, n, n) pixels within ``reach`` of each map's argmax, n = 2 * reach + 1, with zeros beyond the border."""
    padded = F.pad(maps, (reach, reach, reach, reach))
    steps = torch.arange(2 * reach + 1, device=maps.device)
    rows = corner[..., 1, None] + steps  # (B, K, n)
    columns = corner[..., 0, None] + steps
    index = rows[..., :, None] * padded.shape[-1] + columns[..., None, :]
    return padded.flatten(2).gather(2, index.flatten(2)).view(index.shape)


def _quarter(maps: Tensor, corner: Tensor) -> Tensor:
    """(B, K, 2) a quarter of a pixel towards the larger neighbour, in x and in y."""
    around = _neighbourhood(maps, corner, 1)
    slope = torch.stack([around[..., 1, 2] - around[..., 1, 0], around[..., 2, 1] - around[..., 0, 1]], dim=-1)
    return 0.25 * torch.sign(slope)


def _blur(sigma: float, device: torch.device) -> Tensor:
    """(n, n + 2r) matrix that blurs n + 2r pixels to the n = 5 in their middle.

    The kernel's reach r is OpenCV's for this sigma: 11 wide for sigma 2 and 17 for sigma 3, as DARK uses them.
    """
    radius = max(1, round((sigma - 0.8) / 0.3 + 1))
    steps = torch.arange(-radius, radius + 1, dtype=torch.float32, device=device)
    kernel = torch.exp(-(steps**2) / (2 * sigma**2))
    n = 2 * REACH + 1
    matrix = torch.zeros(n, n + 2 * radius, device=device)
    for i in range(n):
        matrix[i, i : i + len(kernel)] = kernel / kernel.sum()
    return matrix


def _dark(maps: Tensor, corner: Tensor, sigma: float) -> Tensor:
    """(B, K, 2) the Newton step from the argmax to the maximum of the blurred log-heatmap (DARK, Eq. 3 to 9).

    Only the 5 x 5 pixels that the derivatives need are blurred. Scaling the blurred map back to its old maximum
    (Eq. 9) adds a constant to the logarithm; here the scale is the neighbourhood's maximum, which sets the floor.
    """
    blur = _blur(sigma, maps.device)
    around = _neighbourhood(maps, corner, blur.shape[1] // 2).flatten(2)
    # blur @ around @ blur.T as one product: many small ones take ten times as long.
    blurred = (around @ torch.kron(blur, blur).T).view(*around.shape[:2], len(blur), -1)  # (B, K, 5, 5)
    largest = blurred.amax(dim=(-2, -1), keepdim=True).clamp(min=torch.finfo(blurred.dtype).tiny)
    log = torch.log((blurred / largest).clamp(min=FLOOR))
    c = REACH
    dx = (log[..., c, c + 1] - log[..., c, c - 1]) / 2
    dy = (log[..., c + 1, c] - log[..., c - 1, c]) / 2
    dxx = (log[..., c, c + 2] - 2 * log[..., c, c] + log[..., c, c - 2]) / 4
    dyy = (log[..., c + 2, c] - 2 * log[..., c, c] + log[..., c - 2, c]) / 4
    dxy = (log[..., c + 1, c + 1] - log[..., c - 1, c + 1] - log[..., c + 1, c - 1] + log[..., c - 1, c - 1]) / 4
    det = dxx * dyy - dxy**2
    step = torch.stack([dxy * dy - dyy * dx, dxy * dx - dxx * dy], dim=-1) / det[..., None]  # -H^-1 gradient
    # A maximum, and not so flat that the step is noise. NaN compares false and falls back to the argmax.
    is_peak = (det > 1e-8) & (dxx < 0)
    return torch.where(is_peak[..., None], step, 0.0).clamp(-LARGEST_OFFSET, LARGEST_OFFSET)
