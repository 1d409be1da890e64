"""Selection (Eq. 1): strictly above the threshold, per instance or keypoint, on the score or on its rank; and by rules
that give every keypoint its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from placl.config import Config, Select, load
from placl.curriculum.curriculum import constant
from placl.errors import InputError
from placl.learn import select
from placl.learn.adaptive import flex_thresholds, free_thresholds, selection_of, soft_weights
from placl.learn.course import Course, TrainingSet
from placl.learn.inner_loop import inner_loop
from placl.learn.select import Selection

CONFIDENCE = np.array([[0.25, 0.375], [0.875, 0.75], [0.5, 0.125]], np.float32)
confidences = arrays(np.float32, st.tuples(st.integers(0, 12), st.integers(1, 4)), elements=st.floats(0, 1, width=32))
kinds = st.builds(Select, level=st.sampled_from(["instance", "keypoint"]), scale=st.sampled_from(["raw", "quantile"]))


def chosen_of(confidence: np.ndarray, settings: Select, threshold: float) -> np.ndarray:
    """(N, K) bool or weights, and what else is asked of a selection agrees with it."""
    selection = selection_of(confidence, settings)
    chosen = selection.chosen(np.arange(len(confidence)), threshold)
    assert np.array_equal(selection.members(threshold), np.flatnonzero(chosen.any(axis=1)))
    assert selection.share(threshold) == (pytest.approx(chosen.mean()) if chosen.size else 0.0)
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


# --- adaptive rules

rules = st.builds(
    Select,
    level=st.just("keypoint"),
    scale=st.sampled_from(["raw", "quantile"]),
    rule=st.sampled_from(["flex", "free", "soft"]),
)
coarse = st.integers(0, 64).map(lambda n: n / 64)  # whose sums are exact, in whatever order
TWO = np.array([[0.875, 0.5], [0.75, 0.25], [0.625, 0.625], [0.25, 0.125]])  # the second keypoint is the harder one


def by(rule: str, scale: str = "raw") -> Select:
    return Select(level="keypoint", scale=scale, rule=rule)


def test_without_a_rule_selection_is_the_papers() -> None:
    assert type(selection_of(CONFIDENCE, Select(level="keypoint"))) is Selection
    assert Select().rule == "threshold"


def test_flex_lowers_the_threshold_of_keypoints_that_are_behind() -> None:
    # Above 0.55: 3/4 and 1/4, so that b = 1 and 1/3, and tau = 0.55 and 0.55 / 3 / (5 / 3) = 0.11.
    chosen = chosen_of(TWO, by("flex"), 0.55)
    assert chosen.tolist() == [[True, True], [True, True], [True, True], [False, True]]
    assert flex_thresholds(0.55, np.array([0.75, 0.25])) == pytest.approx([0.55, 0.11])
    # Above 0.3: 3/4 and 2/4, b = 2/3, tau = 0.3 * (2/3) / (4/3) = 0.15.
    chosen = chosen_of(TWO, by("flex"), 0.3)
    assert chosen.tolist() == [[True, True], [True, True], [True, True], [False, False]]


def test_flex_knows_no_better_where_nothing_is_above_the_threshold() -> None:
    assert not chosen_of(TWO, by("flex"), 0.9).any()
    assert flex_thresholds(0.9, np.zeros(2)).tolist() == [0.9, 0.9]
    assert flex_thresholds(0.8, np.array([0.5, 0.0])).tolist() == [0.8, 0.0]


def test_free_finds_its_thresholds() -> None:
    # Means 5/8 and 3/8, of all 1/2: the first's threshold is 1/2, the second's 1/2 * 3/5 = 0.3.
    for threshold in (0.0, 0.55, 1.0):  # which are not looked at
        chosen = chosen_of(TWO, by("free"), threshold)
        assert chosen.tolist() == [[True, True], [True, False], [True, True], [False, False]]
    assert free_thresholds(np.array([0.625, 0.375])) == pytest.approx([0.5, 0.3])
    assert free_thresholds(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_soft_weights_by_hand() -> None:
    # The first keypoint: mean 5/8, variance (1/4)^2 + (1/8)^2 + 0 + (3/8)^2 over 4 = 0.0546875.
    weights = chosen_of(TWO, by("soft"), 0.5)
    assert weights[:, 0] == pytest.approx([1, 1, 1, np.exp(-(0.375**2) / (2 * 0.0546875))])
    # The second: mean 3/8, variance (1/64 + 1/64 + 4/64 + 4/64) / 4 = 0.0390625.
    assert weights[:, 1] == pytest.approx([1, np.exp(-(0.125**2) / 0.078125), 1, np.exp(-(0.25**2) / 0.078125)])
    assert selection_of(TWO, by("soft")).share(0.5) == pytest.approx(weights.mean())


def test_equal_confidences_weigh_all_the_same() -> None:
    assert chosen_of(np.full((7, 2), 0.1), by("soft"), 0.5).tolist() == [[1.0, 1.0]] * 7
    assert soft_weights(np.array([[0.2]]), np.array([0.2]), np.array([0.0])).tolist() == [[1.0]]


def test_rules_read_ranks_on_the_quantile_scale() -> None:
    ranks = (stats.rankdata(TWO).reshape(TWO.shape) - 0.5) / TWO.size  # scipy gives ties their mean, too
    expected = ranks > free_thresholds(ranks.mean(axis=0))
    assert chosen_of(TWO, by("free", "quantile"), 0.0).tolist() == expected.tolist()
    weights = soft_weights(ranks, ranks.mean(axis=0), ranks.std(axis=0))
    assert chosen_of(TWO, by("soft", "quantile"), 0.0) == pytest.approx(weights)


@given(confidence=confidences, kind=rules, threshold=st.floats(0, 1))
def test_weights_lie_in_the_unit_interval_and_rise_with_confidence(
    confidence: np.ndarray, kind: Select, threshold: float
) -> None:
    weights = chosen_of(confidence, kind, threshold)
    assert weights.shape == confidence.shape
    assert weights.dtype == (np.float64 if kind.rule == "soft" else bool)
    assert ((weights >= 0) & (weights <= 1)).all()
    for column, trust in zip(weights.T, confidence.T, strict=True):  # keypoint by keypoint
        assert (np.diff(column[np.argsort(trust, kind="stable")].astype(float)) >= 0).all()


@given(
    confidence=arrays(np.float32, st.tuples(st.integers(0, 12), st.integers(1, 4)), elements=coarse),
    rule=st.sampled_from(["flex", "free", "soft"]),
    threshold=coarse,
    at_once=st.integers(1, 5),
)
def test_pieces_do_not_matter_to_rules(confidence: np.ndarray, rule: str, threshold: float, at_once: int) -> None:
    expected = chosen_of(confidence, by(rule), threshold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "AT_ONCE", at_once)
        assert chosen_of(confidence, by(rule), threshold) == pytest.approx(expected)


def test_instances_are_not_for_rules() -> None:
    with pytest.raises(ValueError, match="for keypoints"):
        selection_of(TWO, Select(level="instance", rule="free"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"preset": "paper", "select.rule": "flex"},
            "select.rule=flex is for keypoints. Set select.level=keypoint.",
        ),
        (
            {"select.rule": "free", "search.searcher": "ppo2"},
            "select.rule=free with method=placl has no threshold to search for. Set search.searcher=constant.",
        ),
        (
            {"select.rule": "flex", "method": "pl", "search.searcher": "ppo2"},
            "select.rule=flex with method=pl needs a threshold, search.initial. Set search.searcher=constant.",
        ),
        (
            {"select.rule": "soft", "method": "cl"},
            "select.rule=soft is not read with method=cl, which has its own. Leave it out.",
        ),
    ],
)
def test_rules_that_would_not_be_followed_are_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(None, overrides)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "overrides",
    [
        {"select.rule": "flex"},
        {"select.rule": "free", "search.searcher": "constant"},
        {"select.rule": "soft", "method": "pl"},
        {"select.rule": "flex", "method": "pl", "search.searcher": "constant"},
    ],
)
def test_rules_that_are_followed_are_not(overrides: dict[str, str]) -> None:
    assert load(None, overrides).select.rule == overrides["select.rule"]


def test_weights_reach_the_batches_of_a_training(tiny: Callable[..., Config], data: TrainingSet) -> None:
    rule = {"select.level": "keypoint", "select.scale": "raw", "select.rule": "soft"}
    config = tiny({**rule, "search.searcher": "constant"})
    assert data.pseudo is not None
    expected = chosen_of(data.pseudo.confidence, config.select, 0.5)
    assert len(np.unique(expected)) == 2  # the even keypoints' mean lies between their two confidences
    course = Course(config, data, constant(0.5), 1, torch.device("cpu"), 4)
    course.begin(0)
    _, weights = course._labels(np.array([3, 16, 35]))
    assert weights[0].tolist() == (data.labelled.visibility[3] > 0).tolist()
    assert weights[1:] == pytest.approx(expected[[0, 19]])
    assert course.selected == [pytest.approx(expected.mean())]
    trained = inner_loop(config, data, constant(0.5), 1)
    assert trained.selected == (pytest.approx(expected.mean()),)
    assert not trained.diverged
