"""The metric xi: the right one, on the right coordinates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from placl.config import Reward
from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.learn.pseudo_labels import PseudoLabels
from placl.learn.score import metric_name, score


def off_by(pool: Pool, dx: float) -> PseudoLabels:
    shift = np.array([dx, 0], np.float32)
    return PseudoLabels(pool.keypoints + shift, np.ones(pool.visibility.shape, np.float32), "")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (Reward(metric="pck", alpha=0.05), "PCK@0.05"),
        (Reward(metric="pck_auc"), "PCK AUC"),
        (Reward(metric="oks"), "OKS mAP"),
    ],
)
def test_the_truth_scores_a_hundred_under_its_name(pool: Pool, settings: Reward, name: str) -> None:
    found = score(off_by(pool, 0.0), pool, settings)
    assert found.value == pytest.approx(100)
    assert found.metric == metric_name(settings) == name
    assert found.pck == 100
    assert found.mean_error == 0.0
    assert found.instances == 60
    assert found.keypoints == (pool.visibility > 0).sum()


def test_pck_counts_what_lies_within_alpha_lengths(pool: Pool) -> None:
    length = float(pool.length[0])  # all animals have one
    near, far = off_by(pool, 0.09 * length), off_by(pool, 0.115 * length)
    assert score(near, pool, Reward(alpha=0.1)).value == 100
    assert score(far, pool, Reward(alpha=0.1)).value == 0
    assert score(far, pool, Reward(alpha=0.1)).mean_error == pytest.approx(0.115, rel=1e-4)
    assert score(far, pool, Reward(metric="pck_auc")).value == pytest.approx(
        100 * 9 / 20
    )  # 0.12 to 0.20 of 0.01 to 0.20


def test_a_keypoint_that_nobody_shows_has_no_score(pool: Pool) -> None:
    truth = pool.take(np.arange(5))
    truth.visibility[:, 3] = 0
    assert score(off_by(truth, 0.0), truth, Reward()).per_keypoint[truth.skeleton.keypoints[3]] is None


def test_nothing_to_score_is_not_a_number(pool: Pool) -> None:
    for truth in (pool.without_labels(), pool.take(np.arange(0))):
        found = score(off_by(truth, 0.0), truth, Reward())
        assert math.isnan(found.value)
        assert math.isnan(found.mean_error)
        assert found.pck is None
        assert found.keypoints == 0


def people(pool: Pool, heads: float) -> Pool:
    """The pool under MPII's names for two of its keypoints, with heads of that many crop pixels."""
    names = ("pelvis", "thorax", *pool.skeleton.keypoints[2:])
    return replace(pool, skeleton=Skeleton(names), head=np.full(len(pool), heads, np.float32))


def test_pckh_divides_by_the_head_and_leaves_two_joints_out(pool: Pool) -> None:
    truth = people(pool, 10.0)
    near, far = off_by(truth, 4.9), off_by(truth, 5.1)
    settings = Reward(metric="pckh", alpha=0.5)
    assert score(near, truth, settings).value == 100
    assert score(near, truth, settings).metric == "PCKh@0.5"
    assert score(far, truth, settings).value == 0
    near.keypoints[:, :2] += 100  # wherever pelvis and thorax are
    found = score(near, truth, settings)
    assert found.value == 100
    assert found.per_keypoint["pelvis"] is None


def test_pckh_without_heads_is_refused(pool: Pool) -> None:
    unknown = people(pool, 10.0)
    assert unknown.head is not None
    unknown.head[3] = np.nan
    for truth in (pool, unknown):
        with pytest.raises(InputError, match=r"pckh: the data have no head sizes\. Use the metric pck\."):
            score(off_by(truth, 0.0), truth, Reward(metric="pckh"))
