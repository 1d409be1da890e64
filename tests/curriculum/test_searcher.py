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


def test_without_a_search_rounds_have_the_curriculum_that_it_starts_from() -> None:
    settings = Search(searcher="constant", initial=0.4, rise=0.6)
    searcher = make_searcher(settings, np.zeros(4), seed=0)
    assert searcher.steps == 0
    assert searcher.best().thresholds == pytest.approx((0.1, 0.3, 0.5, 0.7))
    searched = make_searcher(settings.model_copy(update={"searcher": "ppo2"}), np.zeros(4), seed=0)
    assert searched.best().thresholds == pytest.approx(searcher.best().thresholds)
    later = make_searcher(settings, np.full(4, 0.9), seed=1)
    assert later.best() == searcher.best()
    flat = settings.model_copy(update={"rise": 0.0})
    assert make_searcher(flat, np.zeros(4), seed=0).best().thresholds == (0.4,) * 4
    steep = settings.model_copy(update={"initial": 0.2, "rise": 1.0})
    assert make_searcher(steep, np.zeros(3), seed=0).best().thresholds == pytest.approx((0.0, 0.2, 0.7))
