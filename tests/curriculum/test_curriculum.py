"""A curriculum: thresholds in [0, 1], and groups that divide a training evenly."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.curriculum.curriculum import Curriculum, constant


@pytest.mark.parametrize("thresholds", [(), (-0.1,), (0.5, 1.1), (float("nan"),)])
def test_a_threshold_lies_in_the_unit_interval(thresholds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Curriculum(thresholds)


def test_the_papers_groups_have_ten_epochs_each() -> None:
    curriculum = constant(0.5, 21)
    groups = [curriculum.group(epoch, 210) for epoch in range(210)]
    assert groups == [epoch // 10 for epoch in range(210)]


@given(groups=st.integers(1, 30), epochs=st.integers(1, 300))
def test_groups_rise_in_order_and_differ_by_one_epoch(groups: int, epochs: int) -> None:
    found = [constant(0.5, groups).group(epoch, epochs) for epoch in range(epochs)]
    assert found == sorted(found)
    assert found[0] == 0
    sizes = Counter(found)
    if epochs >= groups:
        assert set(sizes) == set(range(groups))
        assert max(sizes.values()) - min(sizes.values()) <= 1
    else:  # a short proxy training visits some of the groups
        assert max(sizes.values()) == 1
        assert max(found) < groups


def test_values_come_back() -> None:
    assert Curriculum((0.25, 1.0)).array.tolist() == [0.25, 1.0]
    assert constant(0.3, 3).thresholds == (0.3, 0.3, 0.3)
    assert len(constant(0.3)) == 1
