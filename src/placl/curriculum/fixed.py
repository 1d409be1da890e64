"""No search: one curriculum for all rounds.

With `search.rise` 0 it is one threshold for all groups, too, as pseudo-labelling is usually done (Fig. 3b's blue dots);
otherwise the line that the policy would start from.
"""

from __future__ import annotations

import numpy as np

from placl.config import Search
from placl.curriculum.curriculum import Curriculum


def first_curriculum(settings: Search, groups: int) -> Curriculum:
    """Where the first round starts: a straight line around ``initial``, as far as it lies in [0, 1]."""
    line = np.linspace(-0.5, 0.5, groups) if groups > 1 else np.zeros(1)
    return Curriculum(tuple(float(t) for t in np.clip(settings.initial + settings.rise * line, 0, 1)))


class Constant:
    steps = 0

    def __init__(self, settings: Search, groups: int) -> None:
        self._curriculum = first_curriculum(settings, groups)

    def ask(self, count: int) -> list[Curriculum]:
        return []

    def tell(self, rewards: np.ndarray) -> dict[str, float]:
        return {}

    def best(self) -> Curriculum:
        return self._curriculum
