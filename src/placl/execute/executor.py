"""What every executor is, and the choice between them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from placl.config import Execute
from placl.curriculum.curriculum import Curriculum
from placl.learn.candidate import Outcome, Task


@dataclass(frozen=True)
class Job:
    curriculum: Curriculum
    seed: int


OnDone = Callable[[int, Outcome], None]  # number of the job, its outcome
OnProgress = Callable[[int, int, int], None]  # number of the job, epochs done, of how many


class Executor(Protocol):
    workers: int

    def run(self, task: Task, jobs: dict[int, Job], on_done: OnDone, on_progress: OnProgress) -> None:
        """Run numbered candidates of one task; ``on_done`` is called in this process as each one ends."""
        ...

    def close(self) -> None: ...


def available_cores() -> int:
    """The cores that this process may use, which in a container or under taskset are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_executor(settings: Execute) -> Executor:
    from placl.execute.pool import PoolExecutor
    from placl.execute.serial import SerialExecutor

    if settings.where == "serial":
        return SerialExecutor()
    gpus = torch.cuda.device_count() if settings.device != "cpu" else 0
    workers = settings.workers or gpus or max(1, available_cores() // settings.threads)
    return PoolExecutor(workers, gpus=gpus)
