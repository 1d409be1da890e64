"""The normal distribution cut to an interval: sampling and log-density, elementwise over tensors.

The log-normaliser depends on the mean and carries gradient; that is what keeps a policy near the edge honest.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def _mass(mean: Tensor, sigma: float, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Phi at both ends, mirrored where the interval lies to the right of the mean so that small tails keep digits."""
    a, b = (low - mean) / sigma, (high - mean) / sigma
    right = a > 0
    a, b = torch.where(right, -b, a), torch.where(right, -a, b)
    return torch.special.ndtr(a), torch.special.ndtr(b)


def log_density(x: Tensor, mean: Tensor, sigma: float, low: Tensor, high: Tensor) -> Tensor:
    """log of the density at x; -inf outside [low, high]."""
    lower, upper = _mass(mean, sigma, low, high)
    z = (x - mean) / sigma
    inside = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - math.log(sigma) - torch.log(upper - lower)
    return torch.where((x >= low) & (x <= high), inside, -torch.inf)


def sample(uniform: Tensor, mean: Tensor, sigma: float, low: Tensor, high: Tensor) -> Tensor:
    """Turn uniform numbers in [0, 1) into samples by the inverse of the distribution function."""
    lower, upper = torch.special.ndtr((low - mean) / sigma), torch.special.ndtr((high - mean) / sigma)
    z = torch.special.ndtri(lower + uniform * (upper - lower))
    return torch.clamp(mean + sigma * z, min=low, max=high)
