"""The fit of rewards to thresholds: known effects are found again, whatever the level of a search."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def candidates(repository: Path) -> dict[str, object]:
    return runpy.run_path(str(repository / "benchmarks" / "candidates.py"))


def test_effects_noise_and_standard_errors(candidates: dict[str, object]) -> None:
    fit = candidates["fit"]
    assert callable(fit)
    random = np.random.default_rng(0)
    thresholds = random.uniform(size=(3000, 2))
    searches = [(str(n % 3),) for n in range(3000)]
    rewards = 50 + 10 * (np.arange(3000) % 3) + thresholds @ [1.5, -0.5] + random.normal(0, 0.3, 3000)
    effects, errors, left = fit(thresholds, rewards, searches)
    assert left == pytest.approx(0.3, rel=0.05)
    # the error of a slope is the noise over the spread of what it is a slope of, sqrt(1/12), and sqrt(n)
    np.testing.assert_allclose(errors, 0.3 * np.sqrt(12 / 3000), rtol=0.1)
    np.testing.assert_allclose(effects, [1.5, -0.5], atol=4 * errors.max())


def test_gathers_what_searches_tried(candidates: dict[str, object], tmp_path: Path) -> None:
    gather, search_of = candidates["gather"], candidates["search_of"]
    assert callable(gather)
    assert callable(search_of)
    for method in ("placl", "placl-random", "placl-no-cross"):
        for stage in ("round_1", "final"):
            file = tmp_path / "study-cub" / "cub" / "5" / "seed1" / method / stage / "search.csv"
            file.parent.mkdir(parents=True)
            file.write_text("step,candidate,reward,images,selected,gamma_1,reward_mean\n1,2,67.123456,9,0.5,0.25,1\n")
    lines = gather(tmp_path, "cub")
    assert len(lines) == 6
    assert lines[1] == {
        **{"method": "placl", "seed": "1", "stage": "round_1", "step": "1", "candidate": "2"},
        **{"reward": "67.1235", "selected": "0.5", "gamma_1": "0.25"},
    }
    assert len({search_of(line) for line in lines}) == 5  # round 1 of two of them has the same labels
