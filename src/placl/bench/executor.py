"""Candidates on several workers against one: what the pool of processes costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from placl.bench.inner_loop import Setting
from placl.bench.measure import machine, side_by_side
from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.data.pool import Pool
from placl.data.synthetic import animals
from placl.execute.executor import available_cores
from placl.execute.pool import PoolExecutor
from placl.learn.candidate import Job, Outcome, Task
from placl.learn.course import TrainingSet


def bench_executor(
    repeats: int = 3, candidates: int = 8, workers: int | None = None, steps: int = 40
) -> dict[str, Any]:
    """``speedup``: candidates on ``workers`` one-thread workers over those on one.

    ``versus_threads``: the same over one worker with as many threads. Paid once a run: ``start_seconds`` until all
    workers answer, and ``first_step_seconds`` of a first candidate, in which torch loads more of itself.
    """
    workers = workers or max(2, available_cores())
    pool = animals(512, seed=0, size=64)
    config = Setting(steps=steps).config()
    threaded = config.model_copy(update={"execute": config.execute.model_copy(update={"threads": workers})})
    start = time.perf_counter()
    many = PoolExecutor(workers)
    one, wide = PoolExecutor(1), PoolExecutor(1)
    try:
        many.run(Ping(), dict.fromkeys(range(workers), 0), lambda *_: None, lambda *_: None)
        started = time.perf_counter() - start
        _run(many, _task(Setting(steps=1).config(), pool), workers)
        first = time.perf_counter() - start - started
        task, on_threads = _task(config, pool), _task(threaded, pool)
        found = side_by_side(
            {
                "many": lambda: _run(many, task, candidates),
                "one": lambda: _run(one, task, candidates),
                "wide": lambda: _run(wide, on_threads, candidates),
            },
            repeats,
        )
    finally:
        for executor in (one, many, wide):
            executor.close()
    return {
        "speedup": round(found.ratio("many", "one"), 3),
        "versus_threads": round(found.ratio("many", "wide"), 3),
        "start_seconds": round(started, 2),
        "first_step_seconds": round(first, 2),
        "workers": workers,
        "candidates": candidates,
        "repeats": repeats,
        "machine": machine(),
    }


class Ping:
    """A task that asks for an answer."""

    def run(self, job: int, on_progress: Callable[[int, int], None]) -> int:
        time.sleep(0.01)  # or one worker would answer for another
        return job


def _task(config: Config, pool: Pool) -> Task:
    return Task(config, TrainingSet(pool), pool.take(np.arange(128)))


def _run(executor: PoolExecutor, task: Task, count: int) -> None:
    done: list[Outcome] = []
    jobs = {number: Job(constant(0), number) for number in range(count)}
    executor.run(task, jobs, lambda _, outcome: done.append(outcome), lambda *_: None)
    assert len(done) == count
