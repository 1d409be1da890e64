"""Which frames are chosen: pure arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from placl.data.formats.frame_sampling import diverse, evenly, moving


def test_even_frames_are_the_middles_of_equal_pieces() -> None:
    assert evenly(100, 5).tolist() == [10, 30, 50, 70, 90]
    assert evenly(7, 3).tolist() == [1, 3, 5]
    assert evenly(3, 10).tolist() == [0, 1, 2]
    assert evenly(0, 10).tolist() == []


@given(st.integers(1, 10**7), st.integers(1, 500))
def test_even_frames_differ_and_exist(length: int, count: int) -> None:
    chosen = evenly(length, count)
    assert len(chosen) == min(length, count)
    assert (np.diff(chosen) > 0).all()
    assert 0 <= chosen[0] <= chosen[-1] < length


def test_uniform_motion_is_even() -> None:
    assert moving(np.ones(100), 5).tolist() == pytest.approx(evenly(100, 5), abs=1)
    assert moving(np.zeros(100), 5).tolist() == pytest.approx(evenly(100, 5), abs=1)


def test_a_still_passage_gets_few_frames() -> None:
    change = np.zeros(1000)
    change[800:] = 1.0
    chosen = moving(change, 20)
    assert (chosen >= 800).sum() >= 19


def test_a_cut_takes_one_frame_not_all() -> None:
    change = np.full(100, 0.1)
    change[50] = 1000.0
    chosen = moving(change, 10)
    assert 50 in chosen
    assert len(np.unique(chosen)) == 10
    assert chosen[0] < 15
    assert chosen[-1] > 85


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 255)), st.integers(1, 60))
def test_moving_frames_differ_and_exist(change: np.ndarray, count: int) -> None:
    chosen = moving(change, count)
    assert len(chosen) == min(len(change), count)
    assert (np.diff(chosen) > 0).all()
    assert 0 <= chosen[0] <= chosen[-1] < len(change)


def test_one_point_of_each_cluster() -> None:
    rng = np.random.default_rng(3)
    scene = rng.permutation(np.repeat(np.arange(6), [50, 3, 20, 1, 80, 10]))
    points = (100 * np.eye(6)[scene] + rng.normal(size=(len(scene), 6))).astype(np.float32)
    chosen = diverse(points, 6)
    assert sorted(scene[chosen]) == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(chosen, diverse(points, 6))


def test_the_point_nearest_to_the_centre_stands_for_its_cluster() -> None:
    points = np.array([[0.0], [1], [5], [100], [104], [105]], np.float32)  # means 2 and 103
    assert diverse(points, 2).tolist() == [1, 4]


def test_copies_are_not_diverse() -> None:
    points = np.repeat(np.array([[0.0, 0], [9, 0], [0, 9]], np.float32), 5, axis=0)
    assert (diverse(points, 10) // 5).tolist() == [0, 1, 2]
    assert len(diverse(np.ones((8, 2), np.float32), 3)) == 1
    assert diverse(points[:2], 5).tolist() == [0, 1]


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 30), st.just(3)), elements=st.integers(0, 5)), st.integers(1, 30)
)
def test_diverse_frames_are_as_many_as_differ(points: np.ndarray, count: int) -> None:
    chosen = diverse(points, count)
    assert (np.diff(chosen) > 0).all()
    different = len(np.unique(points, axis=0))
    assert len(chosen) == (len(points) if len(points) <= count else min(count, different))
