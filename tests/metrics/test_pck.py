"""PCK and PCKh: hand calculations, MPII's own formula, and the properties that every PCK has."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.metrics import head_length, pck, pck_auc, pckh

Case = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_case(seed: int, n: int = 12, k: int = 5, spread: float = 8.0) -> Case:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0, 100, (n, k, 2))
    predicted = truth + rng.normal(0, spread, (n, k, 2))
    return predicted, truth, rng.integers(0, 3, (n, k)), rng.uniform(50, 100, n)


def by_hand() -> Case:
    """Two instances of length 50 and 100, three keypoints; distances are 5, 6, 3 and 10, 11, 0."""
    truth = np.zeros((2, 3, 2))
    predicted = np.array([[[3.0, 4.0], [6.0, 0.0], [0.0, 3.0]], [[6.0, 8.0], [0.0, 11.0], [0.0, 0.0]]])
    return predicted, truth, np.array([[2, 1, 0], [2, 2, 0]]), np.array([50.0, 100.0])


def test_by_hand() -> None:
    result = pck(*by_hand(), alpha=0.1)  # limits 5 and 10: both distances of keypoint 0 lie exactly on them
    assert result.per_keypoint[:2].tolist() == [100.0, 0.0]
    assert math.isnan(result.per_keypoint[2])
    assert result.counted.tolist() == [2, 2, 0]
    assert result.overall == 50.0
    assert pck(*by_hand(), alpha=0.12).overall == 100.0


def test_micro_and_macro_average_differ() -> None:
    predicted, truth, _, length = by_hand()
    result = pck(predicted, truth, np.array([[2, 0, 0], [2, 2, 0]]), length)
    assert result.overall == pytest.approx(200 / 3)
    assert result.mean_keypoint == 50.0


def test_visible_leaves_occluded_keypoints_out() -> None:
    assert pck(*by_hand(), count="visible").counted.tolist() == [2, 1, 0]
    assert pck(*by_hand(), count="visible").overall == pytest.approx(200 / 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_predictions_that_are_not_finite_are_wrong(bad: float) -> None:
    predicted, truth, visibility, length = by_hand()
    predicted[0, 0, 1] = bad
    assert pck(predicted, truth, visibility, length).per_keypoint[0] == 50.0


@pytest.mark.filterwarnings("error")
def test_nothing_counted_is_nan() -> None:
    predicted, truth, visibility, length = by_hand()
    result = pck(predicted, np.full_like(truth, np.nan), np.zeros_like(visibility), length)
    assert math.isnan(result.overall)
    assert math.isnan(result.mean_keypoint)
    assert np.isnan(result.per_keypoint).all()
    assert result.counted.sum() == 0
    assert math.isnan(pck(predicted[:0], truth[:0], visibility[:0], length[:0]).overall)


def test_shapes_that_do_not_fit_are_refused() -> None:
    predicted, truth, visibility, length = by_hand()
    with pytest.raises(ValueError, match=r"visibility is \(2, 3\)"):
        pck(predicted, truth, visibility, length[:, None])
    with pytest.raises(ValueError, match="labelled or visible"):
        pck(predicted, truth, visibility, length, count="all")  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), alpha=st.floats(0.01, 0.5))
def test_values_and_order_of_instances(seed: int, alpha: float) -> None:
    case = random_case(seed)
    result = pck(*case, alpha=alpha)
    order = np.random.default_rng(seed).permutation(len(case[0]))
    shuffled = pck(*(array[order] for array in case), alpha=alpha)
    assert 0 <= result.overall <= 100
    assert 0 <= result.mean_keypoint <= 100
    assert shuffled.overall == result.overall
    assert np.array_equal(shuffled.per_keypoint, result.per_keypoint, equal_nan=True)
    weighted = np.nansum(result.per_keypoint * result.counted) / result.counted.sum()
    assert result.overall == pytest.approx(weighted)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000), scale=st.sampled_from([0.125, 0.5, 4.0]), low=st.floats(0, 0.3), step=st.floats(0, 0.3)
)
def test_scale_does_not_matter_and_alpha_is_monotone(seed: int, scale: float, low: float, step: float) -> None:
    predicted, truth, visibility, length = random_case(seed)
    small = pck(predicted, truth, visibility, length, low).overall
    assert pck(scale * predicted, scale * truth, visibility, scale * length, low).overall == small
    assert small <= pck(predicted, truth, visibility, length, low + step).overall


@given(seed=st.integers(0, 10_000))
def test_a_keypoint_never_visible_is_left_out(seed: int) -> None:
    predicted, truth, visibility, length = random_case(seed)
    visibility[:, 2] = 0
    with_it = pck(predicted, truth, visibility, length)
    without = pck(*(np.delete(array, 2, axis=1) for array in (predicted, truth, visibility)), length)
    assert with_it.overall == without.overall
    assert with_it.mean_keypoint == without.mean_keypoint


# --- PCKh ---


def mpii_mean(predicted: np.ndarray, truth: np.ndarray, visible: np.ndarray, heads: np.ndarray) -> float:
    """MPII's evaluation as HRNet's mpii.py spells it, arrays (joint, instance)."""
    error = np.linalg.norm(predicted - truth, axis=2).T / (0.6 * np.linalg.norm(heads[:, 2:] - heads[:, :2], axis=1))
    error = error * visible.T
    count = visible.T.sum(axis=1)
    score = 100.0 * ((error <= 0.5) * visible.T).sum(axis=1) / count
    kept = [joint for joint in range(16) if joint not in (6, 7)]
    return float((score[kept] * count[kept] / count[kept].sum()).sum())


def test_head_length_by_hand() -> None:
    assert head_length(np.array([[10, 20, 40, 60], [0, 0, 6, 8]])).tolist() == pytest.approx([30.0, 6.0])


def test_pckh_is_mpiis() -> None:
    predicted, truth, visibility, _ = random_case(7, n=40, k=16)
    heads = np.random.default_rng(8).uniform([0, 0, 20, 20], [5, 5, 30, 30], (40, 4))
    result = pckh(predicted, truth, visibility, head_length(heads))
    assert result.overall == pytest.approx(mpii_mean(predicted, truth, visibility > 0, heads))
    assert result.counted[[6, 7]].tolist() == [0, 0]
    assert visibility[:, 6].any()


def test_excluded_keypoints_by_name() -> None:
    skeleton = Skeleton(("head", "pelvis", "tail", "ear", "paw"))
    case = random_case(3)
    by_name = pckh(*case, exclude=("pelvis", "paw"), skeleton=skeleton)
    assert by_name.overall == pckh(*case, exclude=(1, 4)).overall
    assert by_name.counted[[1, 4]].tolist() == [0, 0]


def test_unknown_excluded_keypoints_are_the_users_mistake() -> None:
    with pytest.raises(InputError, match='no keypoint "thorax"; choose from a, b, c, d, e'):
        pckh(*random_case(0), exclude=["thorax"], skeleton=Skeleton(("a", "b", "c", "d", "e")))
    with pytest.raises(InputError, match="keypoint 6 is not one of 0 to 4"):
        pckh(*random_case(0))


# --- area under the curve ---


def test_auc_by_hand() -> None:
    truth = np.zeros((1, 2, 2))
    predicted = np.array([[[5.25, 0.0], [0.0, 30.0]]])  # the first is right from alpha 0.06 on: 15 of 20
    assert pck_auc(predicted, truth, np.full((1, 2), 2), np.array([100.0])) == pytest.approx(100 * 0.5 * 15 / 20)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_auc_rises_when_predictions_move_to_the_truth(seed: int) -> None:
    predicted, truth, visibility, length = random_case(seed)
    closer = truth + 0.7 * (predicted - truth)
    assert pck_auc(closer, truth, visibility, length) >= pck_auc(predicted, truth, visibility, length)
