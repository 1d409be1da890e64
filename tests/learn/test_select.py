"""Selection (Eq. 1): strictly above the threshold, per instance or keypoint, on the score or on its rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from placl.config import Select
from placl.learn.select import scores, selected

CONFIDENCE = np.array([[0.25, 0.375], [0.875, 0.75], [0.5, 0.125]], np.float32)
confidences = arrays(np.float32, st.tuples(st.integers(0, 12), st.integers(1, 4)), elements=st.floats(0, 1, width=32))
kinds = st.builds(Select, level=st.sampled_from(["instance", "keypoint"]), scale=st.sampled_from(["raw", "quantile"]))


def test_an_instance_is_in_or_out_as_a_whole() -> None:
    chosen = selected(scores(CONFIDENCE, Select(level="instance")), 0.3125)
    assert chosen.tolist() == [[False, False], [True, True], [False, False]]  # means 5/16, 13/16, 5/16


def test_keypoints_are_chosen_one_by_one() -> None:
    chosen = selected(scores(CONFIDENCE, Select(level="keypoint")), 0.375)
    assert chosen.tolist() == [[False, False], [True, True], [True, False]]


@pytest.mark.parametrize("level", ["instance", "keypoint"])
def test_a_score_at_the_threshold_is_not_above_it(level: str) -> None:
    score = scores(np.full((2, 2), 0.5), Select(level=level))
    assert not selected(score, 0.5).any()
    assert selected(score, np.nextafter(0.5, 0)).all()


def test_ranks_by_hand_and_ties_share_one() -> None:
    # Sorted: 0.1, 0.4, 0.4, 0.9. The middle of each one's place, over four.
    score = scores(np.array([[0.4, 0.9], [0.1, 0.4]]), Select(level="keypoint", scale="quantile"))
    assert score.tolist() == [[2 / 4, 3.5 / 4], [0.5 / 4, 2 / 4]]


def test_instances_are_ranked_by_their_mean() -> None:
    score = scores(CONFIDENCE, Select(level="instance", scale="quantile"))
    assert score[1].tolist() == [2.5 / 3, 2.5 / 3]
    assert score[0].tolist() == score[2].tolist() == [1 / 3, 1 / 3]


@given(count=st.integers(1, 200), threshold=st.floats(0, 1))
def test_a_quantile_threshold_drops_its_share(count: int, threshold: float) -> None:
    confidence = np.random.default_rng(count).permutation(count)[:, None] / count
    chosen = selected(scores(confidence, Select(scale="quantile")), threshold)
    assert abs((1 - chosen.mean()) - threshold) <= 0.5 / count + 1e-9


@given(confidence=confidences, kind=kinds, low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_higher_threshold_selects_a_part_of_what_a_lower_one_does(
    confidence: np.ndarray, kind: Select, low: float, high: float
) -> None:
    low, high = sorted((low, high))
    score = scores(confidence, kind)
    assert score.shape == confidence.shape
    assert not (selected(score, high) & ~selected(score, low)).any()


@given(confidence=confidences, kind=kinds)
def test_a_threshold_of_one_selects_nothing(confidence: np.ndarray, kind: Select) -> None:
    assert not selected(scores(confidence, kind), 1.0).any()


@given(confidence=confidences, level=st.sampled_from(["instance", "keypoint"]))
def test_a_threshold_of_zero_selects_all_that_is_sure_of_anything(confidence: np.ndarray, level: str) -> None:
    raw = selected(scores(confidence, Select(level=level)), 0.0)
    trust = confidence.max(axis=1, keepdims=True) if level == "instance" else confidence
    assert np.array_equal(raw, np.broadcast_to(trust > 0, confidence.shape))
    assert selected(scores(confidence, Select(level=level, scale="quantile")), 0.0).all()
