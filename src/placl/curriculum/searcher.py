"""What every searcher is: something that proposes curricula and learns from their rewards."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from placl.config import Search
from placl.curriculum.curriculum import Curriculum


class Searcher(Protocol):
    """``ask`` and ``tell`` alternate ``steps`` times; then ``best`` is the round's curriculum."""

    steps: int  # how often to ask

    def ask(self, count: int) -> list[Curriculum]:
        """The next candidates: ``count`` of them, or as many as the method has left."""
        ...

    def tell(self, rewards: np.ndarray) -> dict[str, float]:
        """Learn from the rewards of what was asked last; returns diagnostics to log."""
        ...

    def best(self) -> Curriculum: ...


def make_searcher(settings: Search, base: np.ndarray, seed: int) -> Searcher:
    """The searcher of a round. ``base`` is the previous round's (Gamma^{r-1})*, zeros in round 1."""
    from placl.curriculum.fixed import Constant
    from placl.curriculum.manual import Manual
    from placl.curriculum.ppo2 import PPO2
    from placl.curriculum.random import Random

    if settings.searcher == "ppo2":
        return PPO2(settings, base, seed)
    if settings.searcher == "fixed":
        return PPO2(settings, base, seed, tied=True)
    if settings.searcher == "random":
        return Random(settings, base, seed)
    if settings.searcher == "constant":
        return Constant(settings, groups=len(base))
    return Manual(groups=len(base))
