"""Every searcher behind one interface: valid curricula for the asking, and a best one in the end."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from placl.config import Search
from placl.curriculum.manual import Manual
from placl.curriculum.ppo2 import PPO2
from placl.curriculum.random import Random
from placl.curriculum.searcher import make_searcher

NAMES = get_args(Search.model_fields["searcher"].annotation)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("base", [np.zeros(5), np.linspace(0.95, 0.05, 5), np.ones(5)])
def test_ask_tell_best(name: str, base: np.ndarray) -> None:
    searcher = make_searcher(Search(searcher=name, steps=3, updates=3), base, seed=0)
    rewards = np.random.default_rng(0)
    for _ in range(searcher.steps):
        asked = searcher.ask(4)
        assert all(len(curriculum) == 5 for curriculum in asked)
        diagnostics = searcher.tell(rewards.random(len(asked)))
        assert {"reward_mean", "reward_max"} <= set(diagnostics)
        assert all(np.isfinite(value) for value in diagnostics.values())
    assert len(searcher.best()) == 5


@pytest.mark.parametrize(("name", "kind"), [("ppo2", PPO2), ("fixed", PPO2), ("random", Random), ("manual", Manual)])
def test_names(name: str, kind: type) -> None:
    assert isinstance(make_searcher(Search(searcher=name), np.zeros(3), seed=0), kind)


def test_fixed_searches_one_threshold_for_all_groups() -> None:
    searcher = make_searcher(Search(searcher="fixed", updates=3), np.zeros(6), seed=0)
    asked = searcher.ask(8)
    assert all(len(set(curriculum.thresholds)) == 1 for curriculum in asked)
    assert len({curriculum.thresholds for curriculum in asked}) == 8
    searcher.tell(np.arange(8.0))
    assert len(set(searcher.best().thresholds)) == 1
