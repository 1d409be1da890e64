"""The meter: how much of a run is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placl.config import Config
from placl.data.splits import Problem
from placl.lab import Meter
from placl.watch import Level, Silent

MakeConfig = Callable[..., Config]


class Reading(Silent):
    def __init__(self) -> None:
        self.shown: list[tuple[float, float]] = []

    def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
        assert level == "run"
        self.shown.append((done, total))


def test_work_is_pixels_through_the_network(tiny: MakeConfig, problem: Problem) -> None:
    config = tiny({"proxy.steps_per_epoch": 1, "teacher.input_size": 64, "search.steps": 3, "search.samples": 4})
    meter = Meter(problem, config, 2, Silent(), [config.taught(), config])
    training = 2 * 2 * 8 * 32**2  # epochs, steps, batch, pixels
    assert meter.cost(config) == training
    assert meter.cost(config.taught()) == 4 * training
    assert meter.candidate == training / 2 / 2  # half the steps, two at once
    assert meter.total == 5 * training + 2 * 3 * 4 * meter.candidate


def test_a_unit_counts_once_and_what_is_begun_is_shown(tiny: MakeConfig, problem: Problem) -> None:
    watch, config = Reading(), tiny()
    meter = Meter(problem, config, 1, watch, [config])
    meter.reach(10.0)
    meter.spend(20.0, "a")
    meter.spend(20.0, "a")  # read from the journal later on
    meter.reach(5.0)
    meter.spend(meter.total, "b")
    assert [done for done, _ in watch.shown] == pytest.approx([10, 20, 20, 25, meter.total])
    assert {total for _, total in watch.shown} == {meter.total}
