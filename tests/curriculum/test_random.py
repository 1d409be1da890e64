"""Random search: uniform curricula, the best kept."""

from __future__ import annotations

import numpy as np
import pytest

from placl.config import Search
from placl.curriculum.random import Random


def test_curricula_are_uniform_and_ignore_the_base() -> None:
    searcher = Random(Search(steps=3), np.full(4, 0.9), seed=1)
    drawn = np.array([c.array for c in searcher.ask(2000)])
    assert searcher.steps == 3
    assert drawn.shape == (2000, 4)
    np.testing.assert_allclose(drawn.mean(0), 0.5, atol=0.03)
    np.testing.assert_allclose(drawn.std(0), np.sqrt(1 / 12), atol=0.02)


def test_the_best_of_all_steps_wins() -> None:
    searcher = Random(Search(), np.zeros(2), seed=1)
    asked = []
    for rewards in ([1.0, 5.0, 2.0], [4.0, 3.0, 0.0]):
        asked += searcher.ask(3)
        diagnostics = searcher.tell(np.array(rewards))
    assert searcher.best() == asked[1]
    assert diagnostics == {
        "reward_mean": pytest.approx(7 / 3),
        "reward_std": pytest.approx(np.std([4, 3, 0])),
        "reward_max": 4.0,
    }


def test_before_any_reward_the_initial_threshold_is_best() -> None:
    assert Random(Search(initial=0.4), np.zeros(3), seed=1).best().thresholds == (0.4, 0.4, 0.4)


def test_the_seed_decides() -> None:
    one, same, other = (Random(Search(), np.zeros(2), seed).ask(3) for seed in (1, 1, 2))
    assert one == same
    assert one != other
