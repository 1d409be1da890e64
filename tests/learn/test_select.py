"""Selection (Eq. 1): strictly above the threshold, per instance or keypoint, on the score or on its rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from placl.config import Select
from placl.learn import select
from placl.learn.select import Selection

CONFIDENCE = np.array([[0.25, 0.375], [0.875, 0.75], [0.5, 0.125]], np.float32)
confidences = arrays(np.float32, st.tuples(st.integers(0, 12), st.integers(1, 4)), elements=st.floats(0, 1, width=32))
kinds = st.builds(Select, level=st.sampled_from(["instance", "keypoint"]), scale=st.sampled_from(["raw", "quantile"]))


def chosen_of(confidence: np.ndarray, settings: Select, threshold: float) -> np.ndarray:
    """(N, K) bool, and what else is asked of a selection agrees with it."""
    selection = Selection(confidence, settings)
    chosen = selection.chosen(np.arange(len(confidence)), threshold)
    assert np.array_equal(selection.members(threshold), np.flatnonzero(chosen.any(axis=1)))
    assert selection.share(threshold) == (chosen.mean() if chosen.size else 0.0)
    return chosen


def test_an_instance_is_in_or_out_as_a_whole() -> None:
    chosen = chosen_of(CONFIDENCE, Select(level="instance"), 0.3125)
    assert chosen.tolist() == [[False, False], [True, True], [False, False]]  # means 5/16, 13/16, 5/16


def test_keypoints_are_chosen_one_by_one() -> None:
    chosen = chosen_of(CONFIDENCE, Select(level="keypoint"), 0.375)
    assert chosen.tolist() == [[False, False], [True, True], [True, False]]


@pytest.mark.parametrize("level", ["instance", "keypoint"])
def test_a_score_at_the_threshold_is_not_above_it(level: str) -> None:
    half = np.full((2, 2), 0.5)
    assert not chosen_of(half, Select(level=level), 0.5).any()
    assert chosen_of(half, Select(level=level), float(np.nextafter(0.5, 0))).all()


def test_ranks_by_hand_and_ties_share_one() -> None:
    # Sorted: 0.1, 0.4, 0.4, 0.9. The middle of each one's place, over four.
    confidence = np.array([[0.4, 0.9], [0.1, 0.4]])
    ranks = np.array([[2 / 4, 3.5 / 4], [0.5 / 4, 2 / 4]])
    for threshold in (0.1, 0.125, 0.3, 0.5, 0.7, 0.875, 0.9):
        chosen = chosen_of(confidence, Select(level="keypoint", scale="quantile"), threshold)
        assert chosen.tolist() == (ranks > threshold).tolist()


def test_instances_are_ranked_by_their_mean() -> None:
    ranks = np.array([1 / 3, 2.5 / 3, 1 / 3])
    for threshold in (0.3, 1 / 3, 0.5, 2.5 / 3, 0.9):
        chosen = chosen_of(CONFIDENCE, Select(level="instance", scale="quantile"), threshold)
        assert chosen.tolist() == [[rank > threshold] * 2 for rank in ranks]


@given(count=st.integers(1, 200), threshold=st.floats(0, 1))
def test_a_quantile_threshold_drops_its_share(count: int, threshold: float) -> None:
    confidence = np.random.default_rng(count).permutation(count)[:, None] / count
    chosen = chosen_of(confidence, Select(scale="quantile"), threshold)
    assert abs((1 - chosen.mean()) - threshold) <= 0.5 / count + 1e-9


@given(confidence=confidences, kind=kinds, low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_higher_threshold_selects_a_part_of_what_a_lower_one_does(
    confidence: np.ndarray, kind: Select, low: float, high: float
) -> None:
    low, high = sorted((low, high))
    more, fewer = (chosen_of(confidence, kind, threshold) for threshold in (low, high))
    assert more.shape == confidence.shape
    assert not (fewer & ~more).any()


@given(confidence=confidences, kind=kinds)
def test_a_threshold_of_one_selects_nothing(confidence: np.ndarray, kind: Select) -> None:
    assert not chosen_of(confidence, kind, 1.0).any()


@given(confidence=confidences, level=st.sampled_from(["instance", "keypoint"]))
def test_a_threshold_of_zero_selects_all_that_is_sure_of_anything(confidence: np.ndarray, level: str) -> None:
    raw = chosen_of(confidence, Select(level=level), 0.0)
    trust = confidence.max(axis=1, keepdims=True) if level == "instance" else confidence
    assert np.array_equal(raw, np.broadcast_to(trust > 0, confidence.shape))
    assert chosen_of(confidence, Select(level=level, scale="quantile"), 0.0).all()


@given(confidence=confidences, kind=kinds, threshold=st.floats(0, 1), at_once=st.integers(1, 5))
def test_pieces_do_not_matter(confidence: np.ndarray, kind: Select, threshold: float, at_once: int) -> None:
    expected = chosen_of(confidence, kind, threshold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "AT_ONCE", at_once)
        assert np.array_equal(chosen_of(confidence, kind, threshold), expected)
