"""What every executor is, and the choice between them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch

from placl.config import Execute, Ray

J = TypeVar("J", contravariant=True)
R = TypeVar("R", covariant=True)
AnyJob = TypeVar("AnyJob")
AnyResult = TypeVar("AnyResult")

OnProgress = Callable[[int, int, int], None]  # number of the job, epochs done, of how many


class Task(Protocol[J, R]):
    """What the jobs of one call share. It is sent to a worker once."""

    def run(self, job: J, on_progress: Callable[[int, int], None]) -> R:
        """A pure function of the task and the job; ``on_progress`` hears of epochs done, of how many."""
        ...


class Executor(Protocol):
    workers: int

    def run(
        self,
        task: Task[AnyJob, AnyResult],
        jobs: dict[int, AnyJob],
        on_done: Callable[[int, AnyResult], None],
        on_progress: OnProgress,
    ) -> None:
        """Run numbered jobs of one task; ``on_done`` is called in this process as each one ends."""
        ...

    def close(self) -> None: ...


AnyTask = Task[Any, Any]


def available_cores() -> int:
    """The cores that this process may use, which in a container or under taskset are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_executor(settings: Execute, cluster: Ray | None = None) -> Executor:
    if settings.together > 1:
        from placl.execute.bundles import BundlingExecutor

        inside = make_executor(settings.model_copy(update={"together": 1}), cluster)
        return BundlingExecutor(inside, settings.together)
    if settings.where == "ray":
        from placl.execute.ray import RayExecutor

        return RayExecutor(settings, cluster or Ray())
    from placl.execute.pool import PoolExecutor
    from placl.execute.serial import SerialExecutor

    if settings.where == "serial":
        return SerialExecutor()
    gpus = torch.cuda.device_count() if settings.device != "cpu" else 0
    workers = settings.workers or gpus or max(1, available_cores() // settings.threads)
    return PoolExecutor(workers, gpus=gpus)
