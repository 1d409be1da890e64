"""Each way of going wrong has its sentence, and a healthy run has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placl.report.health import health


def stage(name: str = "round_1", **told: Any) -> dict[str, Any]:
    usual = {
        "yardstick": False,
        "val": 60.0,
        "search": [{"reward": 50.0 + i} for i in range(6)],
        "shares": [0.8, 0.5, 0.3],
        "confidence": {"quantiles": np.linspace(0.1, 0.9, 201).tolist(), "spread": 0.2},
    }
    return {"name": name, **usual, **told}


def complaints(*stages: dict[str, Any], searching: tuple[dict[str, Any], ...] = ()) -> list[str]:
    return health({"stages": list(stages), "searching": list(searching)})


def test_a_healthy_run() -> None:
    assert complaints(stage("round_0", search=[], shares=None, confidence={}), stage()) == []


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"shares": [0.0, 0.005, 0.3]}, "round_1: hardly a pseudo-label was selected (median over epoch groups 0.5 %)"),
        ({"shares": [1.0, 1.0, 0.995]}, "round_1: all pseudo-labels were selected throughout"),
        ({"confidence": {"quantiles": [0.03] * 201}}, "all pseudo-labels are about equally sure (0.03 to 0.03)"),
        ({"confidence": {"spread": 0.004}}, "round_1: keypoints are predicted at nearly the same place"),
        ({"search": [{"reward": 51.0}] * 6}, "round_1: rewards hardly vary (51.00 to 51.00)"),
    ],
)
def test_what_is_wrong_and_what_to_try(told: dict[str, Any], expected: str) -> None:
    (line,) = complaints(stage(**told))
    assert expected in line
    assert line.endswith(".")
    assert any(word in line for word in ("Lower", "Raise", "Train", "Use", "set "))


def test_pseudo_labels_that_took_no_part_do_no_harm() -> None:
    (line,) = complaints(stage("round_0", val=60.0, shares=None), stage("round_1", val=50.0, shares=[0.0, 0.001]))
    assert "hardly a pseudo-label was selected" in line
    harmful = complaints(stage("round_0", val=60.0, shares=None), stage("round_1", val=50.0, shares=[0.0, 0.5]))
    assert any("do harm" in line for line in harmful)


def test_no_two_pieces_of_advice_are_opposite() -> None:
    few, everything = {"shares": [0.005, 0.0, 0.0, 0.815]}, {"shares": [1.0, 1.0]}
    first, second = complaints(stage("round_0", val=60.0), stage("round_1", val=50.0, **few))
    assert "(median over epoch groups 0.2 %)" in first
    assert first.endswith("Lower search.initial, or set select.scale=quantile.")
    assert second.endswith("pseudo-labels do harm. Label more.")
    both = complaints(stage("round_1", **few), stage("round_2", **everything))
    assert [line.split(". ")[-1] for line in both] == ["Set select.scale=quantile."] * 2
    first, second = complaints(stage("round_0", val=60.0), stage("round_1", val=50.0, **everything))
    assert first.endswith("Raise search.initial, or set select.scale=quantile.")
    assert second.endswith("Raise the thresholds (search.initial) or label more.")


def test_pseudo_labels_that_do_harm() -> None:
    (line,) = complaints(stage("round_0", val=60.0), stage("round_2", val=57.5))
    assert line.startswith("round_2 is worse than round_0, which knew labels alone (57.5 against 60.0")
    assert complaints(stage("round_0", val=60.0), stage("round_2", val=58.5)) == []
    assert complaints(stage("round_0", val=60.0), stage("full", val=10.0, yardstick=True)) == []


def test_only_networks_that_are_alike_are_compared() -> None:
    """Teachers may be larger and trained longer than the network that is kept."""
    teachers, kept = [stage("round_0", val=60.0), stage("round_1", val=61.0)], stage("final", val=50.0)
    assert health({"stages": [*teachers, kept], "searching": [], "taught": True}) == []
    few = stage("few", val=53.0, yardstick=True)
    (line,) = health({"stages": [*teachers, kept, few], "searching": [], "taught": True})
    assert line.startswith("final is worse than few, which knew labels alone (50.0 against 53.0")
    worse = [stage("round_0", val=60.0), stage("round_1", val=57.0), kept]
    (line,) = health({"stages": worse, "searching": [], "taught": True})
    assert line.startswith("round_1 is worse than round_0")


def test_a_search_that_is_still_going_on() -> None:
    begun = {"name": "round_2", "search": [{"reward": 1.0}] * 4, "confidence": {}}
    assert complaints(searching=(begun,))[0].startswith("round_2: rewards hardly vary")
    assert complaints(searching=({**begun, "search": [{"reward": 1.0}] * 3},)) == []
