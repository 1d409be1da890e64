"""Rank correlations of rewards, and the table of a csv of finished trainings."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def proxies(repository: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(repository / "benchmarks"), *sys.path])
    return runpy.run_path(str(repository / "benchmarks" / "proxies.py"))


def test_rank_correlation(proxies: dict[str, Any]) -> None:
    correlation = proxies["rank_correlation"]
    assert correlation([1.0, 2.0, 3.0], [10.0, 20.0, 90.0]) == pytest.approx(1.0)
    assert correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    # 1 - 6 (1 + 1 + 1 + 1) / (4 (16 - 1))
    assert correlation([0.1, 0.2, 0.3, 0.4], [2.0, 1.0, 4.0, 3.0]) == pytest.approx(0.6)


def test_a_reward_is_held_against_trainings_that_are_not_its_own(proxies: dict[str, Any], tmp_path: Path) -> None:
    few = [f"few_{n}" for n in range(proxies["DRAWS"])]
    lines = [["dataset", "thresholds", "steps", "draw", "pck", "auc", *few, "seconds"]]
    full = [[10.0, 20.0, 30.0, 40.0], [20.0, 10.0, 40.0, 30.0]]  # of two draws
    half = [3.0, 2.0, 1.0, 0.0]
    for steps, draw, values in ((1200, 0, full[0]), (1200, 1, full[1]), (600, 0, half)):
        for threshold, value in enumerate(values):
            row = ["cub", threshold, steps, draw, value, -value, *(value for _ in few), 1]
            lines.append([str(cell) for cell in row])
    proxies["table"].__globals__["CSV"] = tmp_path / "proxies.csv"
    (tmp_path / "proxies.csv").write_text("\n".join(",".join(line) for line in lines) + "\n")
    found = dict(proxies["table"]("cub"))
    assert found["another full training"] == pytest.approx(0.6)
    assert found["another full training, area under the PCK curve"] == pytest.approx(-0.6)
    assert found["another full training, a twentieth of the validation images"] == pytest.approx(0.6)
    # the full trainings' means are 15, 15, 35 and 35
    assert found["600 steps"] < 0 < found["600 steps, area under the PCK curve"]
    worth = dict(proxies["choices"]("cub"))
    # the first likes the last curriculum best, worth 30 by the second, which likes the third, worth 30
    assert worth["chosen by another full training"] == pytest.approx(30.0)
    # by the first's negative the first, worth 20 by the second; by the second's the second, worth 20 by the first
    assert worth["chosen by another full training, area under the PCK curve"] == pytest.approx(20.0)
    assert worth["chosen at random"] == pytest.approx(25.0)
    assert worth["the best, chosen by both"] == pytest.approx(35.0)
