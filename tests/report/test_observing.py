"""What a run notes for its report, against values calculated by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placl.config import Select
from placl.data.pool import Pool
from placl.learn.pseudo_labels import PseudoLabels
from placl.report.observing import confidence_summary, reliability


def test_confidence_against_truth(pool: Pool) -> None:
    some = pool.take(np.arange(20))
    some = replace(some, visibility=np.full_like(some.visibility, 2), length=np.full(20, 10, np.float32))
    count = 20 * 14
    sure = np.linspace(0, 1, count, dtype=np.float32).reshape(20, 14)
    off = np.where(np.arange(count) < count // 2, 3.0, 0.5).reshape(20, 14)  # the less sure half is 0.3 lengths away
    places = some.keypoints + np.stack([off, np.zeros_like(off)], axis=2)
    told = reliability(PseudoLabels(places.astype(np.float32), sure, "m"), some, 0.1)
    assert [bin["right"] for bin in told["bins"]] == [0.0] * 5 + [1.0] * 5
    assert [bin["error"] for bin in told["bins"]] == pytest.approx([0.3] * 5 + [0.05] * 5, abs=1e-3)
    assert [bin["count"] for bin in told["bins"]] == [28] * 10
    assert told["bins"][0]["confidence"] == pytest.approx(sure.ravel()[:28].mean(), abs=1e-4)


def test_keypoints_without_a_label_do_not_count(pool: Pool) -> None:
    some = pool.take(np.arange(4))
    some = replace(some, visibility=np.zeros_like(some.visibility))
    labels = PseudoLabels(some.keypoints, np.ones((4, 14), np.float32), "m")
    assert reliability(labels, some, 0.1)["bins"] == []


def test_scores_are_those_that_thresholds_are_read_on(pool: Pool) -> None:
    some = pool.take(np.arange(3))
    sure = np.zeros((3, 14), np.float32)
    sure[:, :7] = [[0.2], [0.4], [0.8]]
    labels = PseudoLabels(np.zeros((3, 14, 2), np.float32), sure, "m")
    by_keypoint = confidence_summary(labels, some, Select(level="keypoint"))["quantiles"]
    by_instance = confidence_summary(labels, some, Select(level="instance"))["quantiles"]
    assert (by_keypoint[0], by_keypoint[100], by_keypoint[-1]) == pytest.approx((0, 0.1, 0.8))
    assert (by_instance[0], by_instance[100], by_instance[-1]) == pytest.approx((0.1, 0.2, 0.4))


def test_keypoints_in_one_place_have_no_spread(pool: Pool) -> None:
    some = pool.take(np.arange(2))
    sure = np.ones((2, 14), np.float32)
    places = np.zeros((2, 14, 2), np.float32)
    assert confidence_summary(PseudoLabels(places, sure, "m"), some, Select())["spread"] == 0
    places[1] = 2 * some.view
    assert confidence_summary(PseudoLabels(places, sure, "m"), some, Select())["spread"] == pytest.approx(1)
    nobody = PseudoLabels(places[:0], sure[:0], "m")
    assert confidence_summary(nobody, some.take(np.arange(0)), Select())["quantiles"] == []
