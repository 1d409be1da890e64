"""The simulator against answers that can be worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.simulate import Cluster, Ended, Report, Work, ddp_seconds, run_jobs, simulate


def jobs(durations: list[float], lanes: int, failures: float = 0.0, repair: float = 0.0, seed: int = 0) -> Ended:
    random = np.random.default_rng(seed)
    return run_jobs(durations, lanes, failures=failures, repair=repair, random=random)


@pytest.mark.parametrize(
    ("durations", "lanes", "seconds"),
    [([], 3, 0.0), ([5.0], 3, 5.0), ([2.0] * 8, 3, 6.0), ([3.0, 1.0, 1.0, 1.0], 2, 3.0), ([1.0, 1.0, 4.0], 2, 5.0)],
)
def test_the_next_job_goes_to_the_first_free_lane(durations: list[float], lanes: int, seconds: float) -> None:
    assert jobs(durations, lanes) == Ended(seconds, sum(durations), 0)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 20), st.integers(1, 9), st.floats(0.5, 99))
def test_a_search_without_noise_waits_for_whole_waves(r: int, t: int, m: int, w: int, seconds: float) -> None:
    report = simulate(Work(rounds=r, steps=t, samples=m, candidate=seconds), Cluster(w))
    assert report.parts["search"] == pytest.approx(r * t * math.ceil(m / w) * seconds)
    assert report.busy_share == pytest.approx(m / (w * math.ceil(m / w)))


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=12), st.integers(1, 6))
def test_bounds_of_any_schedule(durations: list[float], lanes: int) -> None:
    ended = jobs(durations, lanes)
    assert ended.seconds >= max(max(durations), sum(durations) / lanes) - 1e-9
    assert ended.seconds <= sum(durations) / lanes + max(durations) * (1 - 1 / lanes) + 1e-9  # Graham 1969


@given(st.integers(1, 30), st.integers(1, 12))
def test_more_workers_are_never_slower_without_noise(m: int, w: int) -> None:
    work = Work(rounds=1, steps=2, samples=m, candidate=7.0, labelling=90.0, shards=24, retraining=50.0)
    assert simulate(work, Cluster(w + 1)).seconds <= simulate(work, Cluster(w)).seconds + 1e-9


def test_a_lost_job_is_run_again_from_its_beginning() -> None:
    """A job of t hours on a lane that fails at rate f takes (exp(f t) - 1) / f hours and exp(f t) - 1 failures."""
    hours, rate = 2.0, 0.4
    ended = [jobs([3600 * hours], 1, failures=rate, seed=seed) for seed in range(4000)]
    assert np.mean([e.seconds for e in ended]) / 3600 == pytest.approx(math.expm1(rate * hours) / rate, rel=0.05)
    assert np.mean([e.lost for e in ended]) == pytest.approx(math.expm1(rate * hours), rel=0.08)
    assert all(e.busy == pytest.approx(e.seconds) for e in ended)


def test_a_repair_is_waited_for_only_where_no_other_lane_is_free() -> None:
    seed = next(s for s in range(99) if jobs([3600.0], 1, failures=1.0, seed=s).lost == 1)
    alone = jobs([3600.0], 1, failures=1.0, seed=seed)
    assert jobs([3600.0], 1, failures=1.0, repair=500.0, seed=seed).seconds == pytest.approx(alone.seconds + 500)
    assert jobs([3600.0], 2, failures=1.0, repair=500.0, seed=seed).seconds == pytest.approx(alone.seconds)


def test_stragglers_keep_the_mean_and_slow_a_step_down() -> None:
    work = Work(rounds=1, steps=400, samples=8, candidate=10.0)
    even, uneven = simulate(work, Cluster(8)), simulate(work, Cluster(8, spread=0.2))
    assert uneven.busy == pytest.approx(even.busy, rel=0.02)
    # the largest of 8 normal numbers is 1.4236 on average (David & Nagaraja, Order Statistics, 2003)
    assert uneven.seconds / even.seconds == pytest.approx(math.exp(0.2 * 1.4236 - 0.02), rel=0.03)


def test_parts_traffic_and_the_share_of_busy_gpus() -> None:
    work = Work(
        rounds=2, steps=3, samples=4, candidate=100.0, candidate_gpus=2, labelling=160.0, shards=16, retraining=50.0,
        retraining_gpus=16, first=5.0, candidate_bytes=1e9, label_bytes=4e9, retraining_bytes=1.6e12, stored_bytes=7.0,
    )  # fmt: skip
    report = simulate(work, Cluster(16, per_node=4, start=30.0, bandwidth=1e9))
    assert report.parts == pytest.approx(
        {
            "start": 30.0,
            "shipping": 2 * (1.0 + 1.0),  # a quarter of the half's crops and the proxy's, to each node
            "labelling": 2 * 10.0,
            "search": 2 * 3 * 100.0,  # four candidates of two GPUs: half of the cluster
            "retraining": 5.0 + 2 * 400.0,  # 0.4 TB to a node at 1 GB/s is slower than the 50 s of training
        }
    )
    assert report.traffic == pytest.approx(2 * (4e9 + 2 * 1e9 + 1.6e12))
    assert report.busy == pytest.approx(2 * 160 + 2 * 3 * 4 * 2 * 100 + 16 * (5 + 2 * 400))
    assert report.gpu_hours == pytest.approx(report.seconds * 16 / 3600)
    assert (report.stored, report.bottleneck, report.lost) == (7.0, "retraining", 0)


def test_the_same_seed_is_the_same_run() -> None:
    work, cluster = Work(rounds=1, steps=3, samples=8, candidate=900.0), Cluster(4, spread=0.3, failures=1.0)
    assert simulate(work, cluster, 1) == simulate(work, cluster, 1) != simulate(work, cluster, 2)


def test_jobs_larger_than_the_cluster_are_refused() -> None:
    with pytest.raises(ValueError, match="more GPUs than the 4"):
        simulate(Work(rounds=1, steps=1, samples=1, candidate=1.0, retraining_gpus=8), Cluster(4))


def test_nothing_done_is_nothing_busy() -> None:
    assert Report().busy_share == 0.0


@pytest.mark.parametrize(("gpus", "seconds"), [(1, 80.0), (2, 50.0), (4, 31.25)])
def test_ddp(gpus: int, seconds: float) -> None:
    assert ddp_seconds(80.0, gpus, per_doubling=0.8) == pytest.approx(seconds)
