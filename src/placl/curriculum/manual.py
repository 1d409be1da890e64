"""Manually designed curricula: five linearly decreasing ones of different slope, the best kept (the paper's ablation).

The paper gives neither starts nor slopes. Here all five start at 0.9, where few are trusted, and end at
0.72, 0.54, 0.36, 0.18 and 0: from a slight decrease to trusting everything in the last group.
"""

from __future__ import annotations

import numpy as np

from placl.curriculum.curriculum import Curriculum

START = 0.9
ENDS = (0.72, 0.54, 0.36, 0.18, 0.0)


class Manual:
    steps = 1

    def __init__(self, groups: int) -> None:
        self.curricula = [Curriculum(tuple(float(t) for t in np.linspace(START, end, groups))) for end in ENDS]
        self.rewards = np.zeros(len(ENDS))

    def ask(self, count: int) -> list[Curriculum]:
        return self.curricula

    def tell(self, rewards: np.ndarray) -> dict[str, float]:
        self.rewards = np.asarray(rewards)
        return {"reward_mean": float(self.rewards.mean()), "reward_max": float(self.rewards.max())}

    def best(self) -> Curriculum:
        return self.curricula[int(np.argmax(self.rewards))]
