"""Candidates on several workers against one: what the pool of processes costs."""

from __future__ import annotations

import time
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

    ``versus_threads``: the same over one worker with as many threads. ``start_seconds`` is paid once a run.
    """
    workers = workers or max(2, available_cores())
    pool = animals(512, seed=0, size=64)
    config = Setting(steps=steps).config()
    threaded = config.model_copy(update={"execute": config.execute.model_copy(update={"threads": workers})})
    one, many, wide = PoolExecutor(1), PoolExecutor(workers), PoolExecutor(1)
    try:
        start = time.perf_counter()
        _run(many, _task(Setting(steps=1).config(), pool), workers)
        started = time.perf_counter() - start
        found = side_by_side(
            {
                "many": lambda: _run(many, _task(config, pool), candidates),
                "one": lambda: _run(one, _task(config, pool), candidates),
                "wide": lambda: _run(wide, _task(threaded, pool), candidates),
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
        "workers": workers,
        "candidates": candidates,
        "repeats": repeats,
        "machine": machine(),
    }


def _task(config: Config, pool: Pool) -> Task:
    return Task(config, TrainingSet(pool), pool.take(np.arange(128)))


def _run(executor: PoolExecutor, task: Task, count: int) -> None:
    done: list[Outcome] = []
    jobs = {number: Job(constant(0), number) for number in range(count)}
    executor.run(task, jobs, lambda _, outcome: done.append(outcome), lambda *_: None)
    assert len(done) == count
