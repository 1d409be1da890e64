"""Random search: T x M curricula drawn uniformly, the best kept (the paper's ablation)."""

from __future__ import annotations

import numpy as np

from placl.config import Search
from placl.curriculum.curriculum import Curriculum


class Random:
    def __init__(self, settings: Search, base: np.ndarray, seed: int) -> None:
        self.steps = settings.steps
        self.groups = len(base)
        self.random = np.random.default_rng([seed, 3])
        self.asked: list[Curriculum] = []
        self.winner: tuple[float, Curriculum] = (-np.inf, Curriculum((settings.initial,) * self.groups))

    def ask(self, count: int) -> list[Curriculum]:
        drawn = self.random.random((count, self.groups))
        self.asked = [Curriculum(tuple(float(t) for t in row)) for row in drawn]
        return self.asked

    def tell(self, rewards: np.ndarray) -> dict[str, float]:
        j = int(np.argmax(rewards))
        if rewards[j] > self.winner[0]:
            self.winner = float(rewards[j]), self.asked[j]
        return {
            "reward_mean": float(np.mean(rewards)),
            "reward_std": float(np.std(rewards)),
            "reward_max": float(np.max(rewards)),
        }

    def best(self) -> Curriculum:
        return self.winner[1]
