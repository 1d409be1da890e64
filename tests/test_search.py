"""The search of one round: seeds, the proxy task, common random numbers, and candidates that are never run twice."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.curriculum.manual import Manual
from placl.curriculum.searcher import make_searcher
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.lab import Lab
from placl.learn.candidate import Job, Outcome, Task
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels
from placl.search import derive, evaluate, proxy_task, search

MakeConfig = Callable[..., Config]
MakeLab = Callable[..., Lab]


@dataclass
class Pretending:
    """An executor whose rewards are the thresholds' sums; it remembers what it was asked, and may break down."""

    workers: int = 1
    asked: list[Job] = field(default_factory=list)
    patience: int = 10**6

    def run(self, task: Task, jobs: dict[int, Job], on_done: Any, on_progress: Any) -> None:
        for number, job in reversed(jobs.items()):  # whoever is first: order must not matter
            if len(self.asked) == self.patience:
                raise KeyboardInterrupt
            self.asked.append(job)
            on_progress(number, 1, 1)
            on_done(number, Outcome(float(job.curriculum.array.sum()), 10, (0.5, 0.25)))

    def close(self) -> None:
        pass


@pytest.fixture
def data(problem: Problem, pool: Pool) -> TrainingSet:
    pseudo = PseudoLabels(pool.keypoints[16:28], np.arange(12 * 14, dtype=np.float32).reshape(12, 14) / 200, "m")
    return TrainingSet(problem.labelled, problem.halves[0], pseudo)


# --- seeds and the proxy


def test_every_place_in_a_run_has_a_seed_of_its_own() -> None:
    seeds = {
        derive(seed, *path) for seed in range(20) for path in (("search", 1), ("search", 2), ("training", "a"), (1, 2))
    }
    assert len(seeds) == 80
    assert derive(0, "search", 1) == derive(0, "search", 1)
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_without_a_proxy_the_task_is_the_whole(tiny: MakeConfig, data: TrainingSet, problem: Problem) -> None:
    task = proxy_task(tiny(), data, problem.val)
    assert task.data is data
    assert task.val is problem.val
    assert task.config == tiny()


def test_a_proxy_uses_some_images_drawn_by_seed(tiny: MakeConfig, data: TrainingSet, problem: Problem) -> None:
    settings = {"proxy.images": 5, "proxy.val_images": 7, "proxy.epochs": 3}
    task, again, other = (proxy_task(tiny({**settings, "seed": s}), data, problem.val) for s in (0, 0, 1))
    assert task.data.unlabelled is not None
    assert task.data.pseudo is not None
    assert data.pseudo is not None
    assert (len(task.data.unlabelled), len(task.data.pseudo.keypoints), len(task.val)) == (5, 5, 7)
    assert task.data.labelled is data.labelled
    assert task.config.train.epochs == 3
    for name, confidence in zip(task.data.unlabelled.ids, task.data.pseudo.confidence, strict=True):
        place = problem.halves[0].ids.index(name)  # images and pseudo-labels stay together
        np.testing.assert_array_equal(confidence, data.pseudo.confidence[place])
    assert again.data.unlabelled is not None
    assert other.data.unlabelled is not None
    assert again.data.unlabelled.ids == task.data.unlabelled.ids
    assert again.val.ids == task.val.ids
    assert (other.data.unlabelled.ids, other.val.ids) != (task.data.unlabelled.ids, task.val.ids)


def test_a_proxy_larger_than_the_data_is_the_data(tiny: MakeConfig, data: TrainingSet, problem: Problem) -> None:
    task = proxy_task(tiny({"proxy.images": 5000, "proxy.val_images": 5000}), data, problem.val)
    assert task.data.unlabelled is not None
    assert task.data.unlabelled.ids == problem.halves[0].ids
    assert task.val.ids == problem.val.ids


# --- evaluating one step


def test_outcomes_come_in_the_order_of_the_curricula(
    tiny: MakeConfig, make_lab: MakeLab, data: TrainingSet, problem: Problem
) -> None:
    executor = Pretending()
    lab = make_lab(tiny(), executor=executor)
    curricula = [constant(0.1 * i, 2) for i in range(4)]
    outcomes = evaluate(lab, proxy_task(lab.config, data, problem.val), curricula, 7, "round_1")
    assert [o.reward for o in outcomes] == pytest.approx([0.0, 0.2, 0.4, 0.6])
    assert {job.seed for job in executor.asked} == {7}


def test_what_is_in_the_journal_is_not_run_again(
    tiny: MakeConfig, make_lab: MakeLab, data: TrainingSet, problem: Problem
) -> None:
    executor = Pretending()
    lab = make_lab(tiny(), executor=executor)
    task = proxy_task(lab.config, data, problem.val)
    first = evaluate(lab, task, [constant(0.1, 2), constant(0.2, 2)], 7, "round_1")
    again = make_lab(tiny(), executor=executor)  # the same folder, opened anew
    both = evaluate(again, task, [constant(0.2, 2), constant(0.3, 2)], 7, "round_1")
    assert [job.curriculum.thresholds[0] for job in executor.asked] == [0.2, 0.1, 0.3]
    assert both[0] == first[1]


@pytest.mark.parametrize("change", ["nothing", "seed", "labels", "run", "thresholds"])
def test_a_candidate_with_any_other_input_is_run(
    tiny: MakeConfig, make_lab: MakeLab, data: TrainingSet, problem: Problem, change: str
) -> None:
    executor = Pretending()
    lab = make_lab(tiny(), executor=executor)
    task = proxy_task(lab.config, data, problem.val)
    evaluate(lab, task, [constant(0.1, 2)], 7, "round_1")
    assert data.pseudo is not None
    if change == "labels":
        task = replace(task, data=replace(data, pseudo=replace(data.pseudo, model="other")))
    if change == "run":
        lab = replace(lab, key="other")
    threshold = np.nextafter(0.1, 1) if change == "thresholds" else 0.1
    evaluate(lab, task, [constant(threshold, 2)], 8 if change == "seed" else 7, "round_1")
    assert len(executor.asked) == (1 if change == "nothing" else 2)


# --- the whole search


def test_a_search_asks_and_tells_t_times_m(
    tiny: MakeConfig, make_lab: MakeLab, data: TrainingSet, problem: Problem
) -> None:
    config = tiny({"search.steps": 3, "search.samples": 4})
    executor = Pretending()
    lab = make_lab(config, executor=executor)
    searcher = make_searcher(config.search, np.zeros(2), 5)
    best = search(lab, proxy_task(config, data, problem.val), searcher, "round_1", 5)
    assert best == searcher.best()
    seeds = [job.seed for job in executor.asked]
    assert seeds == [5] * 12  # common random numbers, within a step and from step to step
    with open(lab.run.path / "round_1" / "search.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["candidate"]) for row in rows] == [
        (str(t), str(j)) for t in (1, 2, 3) for j in (1, 2, 3, 4)
    ]
    for row in rows:
        assert float(row["reward"]) == pytest.approx(float(row["gamma_1"]) + float(row["gamma_2"]))
        assert row["images"] == "10"
        assert float(row["selected"]) == 0.375
        assert {"reward_mean", "reward_std", "reward_max", "clip_fraction", "approx_kl"} <= set(row)


@pytest.mark.parametrize("patience", [0, 1, 4, 6, 11])
def test_a_search_that_broke_off_goes_on_where_it_was(
    tiny: MakeConfig, make_lab: MakeLab, data: TrainingSet, problem: Problem, patience: int
) -> None:
    config = tiny({"search.steps": 3, "search.samples": 4})
    task = proxy_task(config, data, problem.val)

    def run(out: str, executor: Pretending) -> tuple[Curriculum, str]:
        lab = make_lab(config, out=out, executor=executor)
        found = search(lab, task, make_searcher(config.search, np.zeros(2), 5), "round_1", 5)
        return found, (lab.run.path / "round_1" / "search.csv").read_text()

    whole = run("whole", Pretending())
    with pytest.raises(KeyboardInterrupt):
        run("broken", Pretending(patience=patience))
    rest = Pretending()
    assert run("broken", rest) == whole
    assert len(rest.asked) == 12 - patience


def test_manual_asks_for_five_whatever_m_is(
    tiny: MakeConfig, make_lab: MakeLab, data: TrainingSet, problem: Problem
) -> None:
    executor = Pretending()
    lab = make_lab(tiny(), executor=executor)
    best = search(lab, proxy_task(lab.config, data, problem.val), Manual(2), "round_1", 5)
    assert len(executor.asked) == 5
    assert best.thresholds == (0.9, 0.72)  # the largest sum
