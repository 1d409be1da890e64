"""The tracker's arithmetic: where it looks next, and when it gives up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.video.tracking import SMALLEST, Track, Tracking, follow, whole

FRAME = (200, 100)
POSE = np.array([[50.0, 40.0], [69.0, 40.0], [50.0, 49.0]])  # 20 x 10 pixels around (60, 45), from edge to edge
SURE, UNSURE = np.full(3, 0.9), np.full(3, 0.1)
AT_ONCE = Tracking(inertia=0.0)


def test_the_box_is_the_pose_and_a_margin_of_its_longer_side() -> None:
    found = follow(Track(whole(FRAME)), POSE, SURE, FRAME, AT_ONCE)
    assert found.box.tolist() == [45, 35, 30, 20]
    assert found.misses == 0


def test_the_centre_follows_at_once_and_the_size_is_smoothed() -> None:
    found = follow(Track(np.array([150.0, 0, 50, 60])), POSE, SURE, FRAME, Tracking(inertia=0.5))
    assert found.box.tolist() == [60 - 20, 45 - 20, 40, 40]


def test_unsure_keypoints_do_not_say_where_the_animal_is() -> None:
    points = np.concatenate([POSE, [[190.0, 90.0]]])
    found = follow(Track(whole(FRAME)), points, np.array([0.9, 0.9, 0.9, 0.29]), FRAME, AT_ONCE)
    assert found.box.tolist() == [45, 35, 30, 20]


def test_a_lost_animal_is_searched_everywhere_after_some_frames() -> None:
    track, box = Track(np.array([45.0, 35, 30, 20])), [45, 35, 30, 20]
    seen = []
    for _ in range(4):
        track = follow(track, POSE, UNSURE, FRAME, Tracking(patience=3))
        seen.append((track.misses, track.box.tolist()))
    assert seen == [(1, box), (2, box), (3, [0, 0, 200, 100]), (4, [0, 0, 200, 100])]


def test_a_sighting_ends_the_misses() -> None:
    assert follow(Track(np.array([45.0, 35, 30, 20]), misses=4), POSE, SURE, FRAME, Tracking()).misses == 0


@pytest.mark.parametrize(("sure", "misses"), [(1, 1), (2, 0)])
def test_half_of_the_keypoints_are_enough(sure: int, misses: int) -> None:
    confidence = np.where(np.arange(3) < sure, 0.9, 0.1)
    assert follow(Track(whole(FRAME)), POSE, confidence, FRAME, Tracking()).misses == misses


@given(
    st.tuples(*[st.floats(-1e4, 1e4)] * 2),
    st.tuples(st.integers(1, 500), st.integers(1, 500)),
    st.floats(0, 1),
)
def test_the_box_is_always_a_part_of_the_frame(place: tuple[float, float], frame: tuple[int, int], kept: float) -> None:
    found = follow(Track(whole(frame)), np.array([place]), np.ones(1), frame, Tracking(inertia=kept)).box
    assert (found[:2] >= 0).all()
    assert (found[:2] + found[2:] <= np.array(frame) + 1e-9).all()
    assert (found[2:] >= np.minimum(SMALLEST, frame) - 1e-9).all()
