"""Bundles of jobs: each job's result and progress, whatever runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placl.config import Config, Execute
from placl.curriculum.curriculum import Curriculum
from placl.data.pool import Pool
from placl.execute.bundles import BundlingExecutor
from placl.execute.executor import make_executor
from placl.execute.pool import PoolExecutor
from placl.execute.serial import SerialExecutor
from placl.learn.candidate import Job, Outcome, Task
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels

MakeConfig = Callable[..., Config]


@dataclass(frozen=True)
class Squares:
    def run(self, job: int, on_progress: Callable[[int, int], None]) -> list[int]:
        return self.run_many([job], on_progress)

    def run_many(self, jobs: Sequence[int], on_progress: Callable[[int, int], None]) -> list[Any]:
        on_progress(1, 1)
        return [(job * job, tuple(jobs)) for job in jobs]


class Alone:
    def run(self, job: int, on_progress: Callable[[int, int], None]) -> int:
        on_progress(1, 1)
        return -job


def test_bundles_are_made_by_number() -> None:
    done: dict[int, Any] = {}
    progress: list[int] = []
    # 1 and 5 are done already: the others stay in the bundles they would have been in.
    jobs = {0: 10, 2: 12, 3: 13, 4: 14, 6: 16}
    BundlingExecutor(SerialExecutor(), 3).run(Squares(), jobs, done.__setitem__, lambda n, *_: progress.append(n))
    assert done == {0: (100, (10, 12)), 2: (144, (10, 12)), 3: (169, (13, 14)), 4: (196, (13, 14)), 6: (256, (16,))}
    assert progress == [0, 2, 3, 4, 6]


def test_candidates_have_the_same_bits_in_a_pool(tiny: MakeConfig, pool: Pool) -> None:
    labelled, hidden, val = (pool.take(part) for part in np.split(np.arange(60), [16, 40]))
    pseudo = PseudoLabels(hidden.keypoints, np.full((24, 14), 0.5, np.float32), "m")
    config = tiny({"train.precision": "float32"})
    task = Task(config, TrainingSet(labelled, hidden.without_labels(), pseudo), val)
    jobs = {number: Job(Curriculum((0.2 * number, 0.1)), seed=7) for number in range(4)}
    outcomes: list[dict[int, Outcome]] = []
    for inside in (SerialExecutor(), PoolExecutor(2)):
        executor = BundlingExecutor(inside, 2)
        outcomes.append({})
        try:
            executor.run(task, jobs, outcomes[-1].__setitem__, lambda *_: None)
        finally:
            executor.close()
    assert outcomes[0] == outcomes[1]
    assert sorted(outcomes[0]) == [0, 1, 2, 3]


def test_other_tasks_run_job_by_job() -> None:
    done: dict[int, int] = {}
    BundlingExecutor(SerialExecutor(), 3).run(Alone(), {0: 1, 1: 2}, done.__setitem__, lambda *_: None)
    assert done == {0: -1, 1: -2}


def test_a_task_stays_one_object_for_the_executor_inside() -> None:
    seen: list[Any] = []

    class Looking(SerialExecutor):
        def run(self, task: Any, *rest: Any) -> None:
            seen.append(task)

    executor, task = BundlingExecutor(Looking(), 2), Squares()
    for given in (task, task, Squares()):
        executor.run(given, {0: 1}, lambda *_: None, lambda *_: None)
    assert seen[0] is seen[1]
    assert seen[2] is not seen[0]


def test_the_setting_chooses() -> None:
    assert isinstance(make_executor(Execute(where="serial")), SerialExecutor)
    executor = make_executor(Execute(where="serial", together=4))
    assert isinstance(executor, BundlingExecutor)
    assert executor.workers == 1
