"""The serial executor and the choice between executors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from placl.config import Config, Execute
from placl.curriculum.curriculum import constant
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.execute.executor import make_executor
from placl.execute.pool import PoolExecutor
from placl.execute.serial import SerialExecutor
from placl.learn.candidate import Job, Outcome, Task, run_candidate
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels


def test_jobs_run_in_order_under_their_numbers(tiny: Callable[..., Config], problem: Problem, pool: Pool) -> None:
    pseudo = PseudoLabels(pool.keypoints[16:28], np.full((12, 14), 0.5, np.float32), "m")
    task = Task(tiny(), TrainingSet(problem.labelled, problem.halves[0], pseudo), problem.val)
    jobs = {5: Job(constant(0.2, 2), 1), 2: Job(constant(0.9, 2), 1)}
    done: list[tuple[int, Outcome]] = []
    progress: list[tuple[int, int, int]] = []
    SerialExecutor().run(task, jobs, lambda n, o: done.append((n, o)), lambda *p: progress.append(p))
    assert done == [(number, run_candidate(task, job.curriculum, job.seed)) for number, job in jobs.items()]
    assert progress == [(5, 1, 2), (5, 2, 2), (2, 1, 2), (2, 2, 2)]


def test_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert isinstance(make_executor(Execute(where="serial")), SerialExecutor)
    for settings, workers in (
        (Execute(where="pool", device="cpu"), 8),
        (Execute(where="pool", device="cpu", threads=3), 2),
        (Execute(where="pool", device="cpu", threads=64), 1),
        (Execute(where="pool", device="cpu", workers=3), 3),
    ):
        executor = make_executor(settings)
        assert isinstance(executor, PoolExecutor)
        assert executor.workers == workers
