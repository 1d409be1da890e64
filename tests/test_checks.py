"""What is refused, or said, before anything is trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placl import config as configuration
from placl.checks import doubts
from placl.data.skeleton import Skeleton
from placl.data.synthetic import ANIMAL, animals


def test_mirroring_is_doubted_where_it_happens_and_no_sides_are_known() -> None:
    pool = animals(4, seed=0)
    blind = replace(pool, skeleton=Skeleton(ANIMAL.keypoints))
    mirrors, keeps = {"label.flip": True}, {"augment.flip": 0, "label.flip": False}
    assert not any("mirrored" in line for line in doubts(pool, configuration.load(None, mirrors)))
    assert any("mirrored" in line for line in doubts(blind, configuration.load(None, mirrors)))
    assert not any("mirrored" in line for line in doubts(blind, configuration.load(None, keeps)))


def test_how_many_pixels_a_metric_forgives_is_said() -> None:
    pool = animals(3, seed=0)
    pool = replace(pool, length=np.full(3, 40, np.float32), to_image=np.tile([4.0, 0, 0], (3, 1)))
    assert doubts(pool, configuration.load(None, {"reward.alpha": 0.2})) == [
        "PCK@0.2: a keypoint is right within 0.2 of its box, here about 32 pixels of the image. "
        "reward.alpha makes it stricter."
    ]
    assert doubts(pool, configuration.load(None, {"reward.metric": "oks"})) == []


def test_pixels_forgiven_are_those_of_labelled_instances() -> None:
    pool = animals(5, seed=0)
    lengths = np.array([40, 40, 90, 90, 90], np.float32)
    visibility = pool.visibility.copy()
    visibility[2:] = 0  # unlabelled, and larger
    pool = replace(pool, length=lengths, to_image=np.tile([1.0, 0, 0], (5, 1)), visibility=visibility)
    assert "here about 8.0 pixels" in doubts(pool, configuration.load(None, {"reward.alpha": 0.2}))[0]
