"""What a plan counts is what a run does; its times are the sums of what was timed."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import MakeConfig
from placl import calibration, planning
from placl.api import train
from placl.calibration import Pace, Probe, Speeds, calibrate, kind_of, stand_in, time_reading, time_training
from placl.data.load import Dataset
from placl.data.splits import Problem
from placl.errors import InputError
from placl.planning import Plan, duration, plan, plural, side_by_side, size

SETTINGS: dict[str, dict[str, Any]] = {
    "two rounds and both halves": {},
    "teachers and yardsticks": {"teacher.steps_per_epoch": 3, "rounds.count": 1, "reference": True},
    "folds of the labels": {"reward.source": "folds", "reward.folds": 3, "rounds.count": 1, "train.batch": 4},
    "a proxy": {"proxy.images": 6, "proxy.val_images": 4, "proxy.steps_per_epoch": 1, "rounds.finish": "last"},
    "manual curricula": {"search.searcher": "manual", "rounds.count": 1, "rounds.cross_training": False},
    "without rounds": {"rounds.count": 0, "reference": True},
}


@pytest.fixture(autouse=True)
def _in_a_blink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "CALIBRATION", 0.3)


def journal(run: Path, kind: str) -> list[dict[str, Any]]:
    units = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [unit for unit in units if unit["kind"] == kind]


@pytest.mark.parametrize("case", SETTINGS)
def test_counts_and_disk_are_those_of_the_run(case: str, tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    config = tiny({"data.label_fraction": 0.5, **SETTINGS[case]})
    made = plan(config, dataset)
    run = tmp_path / "run"
    train(config, run, dataset=dataset)
    with open(run / "results.csv", newline="") as file:
        assert made.trainings == {row["stage"]: int(row["images"]) for row in csv.DictReader(file)}
    candidates = journal(run, "candidate")
    assert made.candidates == len(candidates)
    in_search = sum(unit["outcome"]["images"] for unit in candidates)
    trained = [unit["images"] for unit in journal(run, "training") if "candidate" not in unit]  # none twice
    assert made.images == sum(trained) + in_search
    real = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    assert 0.7 * real < made.disk["run"] < 1.3 * real
    assert made.disk["crops"] == 0  # these animals are in memory


def test_an_epoch_of_data_is_an_upper_bound(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    config = tiny({"data.label_fraction": 0.5, "train.epoch": "data", "rounds.finish": "last", "train.batch": 4})
    made = plan(config, dataset)
    result = train(config, tmp_path / "run", dataset=dataset)
    real = {row["stage"]: row["images"] for row in result.rows}
    assert made.trainings["round_0"] == real["round_0"] == 2 * 20
    assert made.trainings["round_1"] == 2 * 4 * ((20 + 10) // 4) >= real["round_1"]
    assert "train.epoch=data" in made.notes[0]


def test_a_cluster_is_planned_by_its_workers(tiny: MakeConfig, dataset: Dataset) -> None:
    settings = {"data.label_fraction": 0.5, "execute.where": "ray", "search.samples": 4}
    few, many = (plan(tiny({**settings, "execute.workers": n}), dataset) for n in (None, 4))
    assert (few.workers, many.workers) == (1, 4)
    assert "1 worker, since execute.workers is not set" in few.notes[0]
    assert "4 workers, as execute.workers has it" in many.notes[0]


def test_a_training_that_would_be_refused_has_no_plan(tiny: MakeConfig, dataset: Dataset) -> None:
    with pytest.raises(InputError, match="fewer than a batch of 64"):
        plan(tiny({"train.epoch": "data", "train.batch": 64}), dataset)


def test_time_is_the_sum_of_what_was_timed(tiny: MakeConfig, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny({"data.label_fraction": 0.5, "teacher.steps_per_epoch": 4, "rounds.count": 1, "reference": True})
    kind = kind_of(config, 1)
    speeds = Speeds(2, 10.0, 0.5, {kind: Pace(1, 0.1, 0.01)}, {kind: Pace(1, 0.2, 0.02)}, 0.3, {kind: 0.05})
    monkeypatch.setattr(planning, "calibrate", lambda problem, config: speeds)
    seconds = {part.name: part.seconds for part in plan(config, dataset).parts}
    # 20 labelled, halves of 10, 10 for validation, 10 for the test; trainings have 2 epochs of 2 or (teachers) 4 steps
    assert seconds == pytest.approx(
        {
            "start": 2 * 10 + 0.5 * 6,  # the command and its workers; five trainings and a search are sent
            # round_0 (2.6 s) beside few (1.8 s); then full (1.8 s) has 0.8 s beside round_0 and the rest alone
            "round_0, few, full": 2.6 + (1 - 0.8 / 1.8) * 1.4,
            "pseudo-labels": (10 + 10) * 0.3,
            "search": 2 * (1 + 4 * 0.2 + 10 * 0.02),  # T=2 steps of M=2 candidates on two workers
            "retraining": (1 + 8 * 0.1) + (1 + 4 * 0.1),
            "scores": 5 * (10 + 10) * 0.05,
        }
    )


def test_full_trainings_with_more_threads_run_one_by_one(
    tiny: MakeConfig, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny({"data.label_fraction": 0.5, "rounds.count": 0, "reference": True, "execute.final_threads": 2})
    kind = kind_of(config, 2)
    speeds = Speeds(2, 0.0, 0.0, {kind: Pace(1, 0.1, 0)}, {kind: Pace(1, 5.0, 0)}, 0.0, {kind: 0.0})
    monkeypatch.setattr(planning, "calibrate", lambda problem, config: speeds)
    assert plan(config, dataset).seconds == pytest.approx(2 * (1 + 4 * 0.1))


@pytest.mark.parametrize(
    ("jobs", "workers", "seconds"),
    [
        ([], 2, 0.0),
        ([(3, 4)], 2, 3.0),
        ([(3, 4), (3, 4)], 2, 4.0),
        ([(3, 4)] * 3, 2, 7.0),
        ([(3, 4)] * 3, 1, 9.0),
        ([(3, 6), (1, 2)], 2, 2 + 4 / 6 * 3),
        ([(2, 2)] * 7, 3, 6.0),
    ],
)
def test_side_by_side(jobs: list[tuple[float, float]], workers: int, seconds: float) -> None:
    assert side_by_side(jobs, workers) == pytest.approx(seconds)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8), st.integers(1, 6))
def test_side_by_side_lies_between_its_bounds(times: list[float], workers: int) -> None:
    took = side_by_side([(t, t) for t in times], workers)
    assert took >= max(max(times), sum(times) / workers) - 1e-6
    assert took <= sum(times) / workers + max(times) + 1e-6


def test_a_pool_of_workers_is_timed_alone_and_beside_others(tiny: MakeConfig, problem: Problem) -> None:
    config = tiny({"execute.where": "pool", "execute.workers": 2})
    speeds = calibrate(problem, config)
    assert speeds.workers == 2
    assert speeds.start > speeds.send > 0
    assert set(speeds.alone) == set(speeds.beside) == set(speeds.read) == {kind_of(config, 1)}
    for pace in (*speeds.alone.values(), *speeds.beside.values()):
        assert 0 < pace.step < 2
        assert 0 < pace.read < 1


def test_a_step_too_long_is_timed_by_a_part_of_its_batch(
    tiny: MakeConfig, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def steps(config: Any, data: Any, threads: int, seconds: float, batch: int, epoch: int = 1) -> tuple[float, float]:
        asked.append(batch)
        return 0.25, 0.5 * batch

    monkeypatch.setattr(calibration, "_time_steps", steps)
    data = stand_in(problem, tiny())
    assert time_training(tiny(), data, 1, seconds=100.0) == (0.25, 4.0)
    assert time_training(tiny(), data, 1, seconds=8.0) == (0.25, 4.0)
    assert time_training(tiny(), data, 1, seconds=0.1) == (0.25, 4.0)
    assert asked == [2, 8, 2, 4, 2]


def test_the_real_functions_are_timed(tiny: MakeConfig, problem: Problem) -> None:
    config = tiny({"label.flip": True})
    data = stand_in(problem, config)
    assert data.pseudo is not None
    assert data.pseudo.confidence.min() == 1.0
    setup, step = time_training(config, data, 1, 0.2)
    assert setup >= 0
    assert 0 < step < 1
    read = [time_reading(config, problem.val, 1, 0.2, all_views=views) for views in (False, True)]
    assert 0 < min(read) < 0.2
    assert Probe(data, problem.val).run(calibration.Job(config, 1, 0.0), lambda done, total: None) == Pace(0, 0, 0)


def test_without_unlabelled_images_the_labelled_ones_are_timed(tiny: MakeConfig, problem: Problem) -> None:
    nobody = problem.halves[0].take(np.arange(0))
    assert stand_in(Problem(problem.labelled, (nobody, nobody), problem.val), tiny()).unlabelled is None


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (duration, 45.4, "45 seconds"),
        (duration, 3700.0, "62 minutes"),
        (duration, 3.1 * 3600, "3.1 hours"),
        (duration, 3 * 86400.0, "3.0 days"),
        (duration, 150 * 86400.0, "5.0 months"),
        (duration, 1000 * 86400.0, "2.7 years"),
        (size, 1.2e9, "1.2 GB"),
        (size, 5300.0, "5 kB"),
        (size, 32e12, "32.0 TB"),
    ],
)
def test_words_for_numbers(function: Callable[[float], str], value: float, text: str) -> None:
    assert function(value) == text


def test_the_summary_is_one_sentence() -> None:
    parts = (planning.Part("search", 768, 12_300_000, 0, 11160.0),)
    trainings = {f"round_{r}": 0 for r in range(7)}
    made = Plan(trainings, 768, parts, {"crops": 10**9, "run": 2 * 10**8}, 2)
    assert made.summary == (
        "768 candidates and 7 full trainings, 12.3 million training images: about 3.1 hours on this machine, 1.2 GB"
    )
    assert plural(1, "candidate") == "1 candidate"
    assert plural(460_800, "image") == "460,800 images"
