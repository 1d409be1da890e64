"""A curriculum Gamma: one threshold per epoch group, and how groups map to epochs (3.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curriculum:
    """Gamma: the confidence that a pseudo-label needs, epoch group by epoch group."""

    thresholds: tuple[float, ...]  # (N_G,), each in [0, 1]

    def __post_init__(self) -> None:
        if not self.thresholds:
            raise ValueError("a curriculum needs at least one threshold")
        if not all(0.0 <= t <= 1.0 for t in self.thresholds):
            raise ValueError(f"thresholds lie in [0, 1], found {self.thresholds}")

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def array(self) -> np.ndarray:
        return np.array(self.thresholds)

    def group(self, epoch: int, epochs: int) -> int:
        """The group of an epoch (from 0) of a training of ``epochs``; 210 epochs and 21 groups: 10 each."""
        return min(epoch * len(self) // epochs, len(self) - 1)


def constant(threshold: float, groups: int = 1) -> Curriculum:
    return Curriculum((float(threshold),) * groups)
