"""The five manual curricula: they start alike and fall to different ends, and the best is kept."""

from __future__ import annotations

import numpy as np
import pytest

from placl.curriculum.manual import Manual


@pytest.mark.parametrize("groups", [2, 4, 21])
def test_five_straight_lines_of_different_slope(groups: int) -> None:
    curricula = [c.array for c in Manual(groups).ask(8)]
    assert len(curricula) == 5
    slopes = [np.diff(c) for c in curricula]
    for slope in slopes:
        np.testing.assert_allclose(slope, slope[0], atol=1e-12)
    assert [c[0] for c in curricula] == [0.9] * 5
    assert [c[-1] for c in curricula] == pytest.approx([0.72, 0.54, 0.36, 0.18, 0.0])
    assert all(slope[0] < 0 for slope in slopes)
    assert len({round(float(slope[0]), 9) for slope in slopes}) == 5


def test_the_best_is_kept() -> None:
    searcher = Manual(4)
    assert searcher.steps == 1
    asked = searcher.ask(8)
    assert searcher.tell(np.array([1.0, 2.0, 9.0, 3.0, 0.0])) == {"reward_mean": 3.0, "reward_max": 9.0}
    assert searcher.best() == asked[2]
