"""Several jobs at a time to one worker, around any executor: for tasks that run them faster together.

A bundle is a job to the executor inside, so what holds for jobs holds for it: one whose worker is lost is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from placl.execute.executor import AnyJob, AnyResult, Executor, OnProgress, Task


@runtime_checkable
class ManyTask(Protocol):
    def run_many(self, jobs: Sequence[Any], on_progress: Callable[[int, int], None]) -> list[Any]:
        """What ``run`` gives for each of the jobs; ``on_progress`` hears of their common progress."""
        ...


@dataclass(frozen=True)
class Bundles:
    """A task whose jobs are bundles of another's."""

    task: ManyTask

    def run(self, jobs: tuple[Any, ...], on_progress: Callable[[int, int], None]) -> list[Any]:
        return self.task.run_many(jobs, on_progress)


class BundlingExecutor:
    def __init__(self, inside: Executor, size: int) -> None:
        self._inside, self._size = inside, size
        self._bundles: Bundles | None = None  # the last one: executors send a task again if it is another object

    @property
    def workers(self) -> int:
        return self._inside.workers

    @workers.setter
    def workers(self, workers: int) -> None:
        self._inside.workers = workers

    def run(
        self,
        task: Task[AnyJob, AnyResult],
        jobs: dict[int, AnyJob],
        on_done: Callable[[int, AnyResult], None],
        on_progress: OnProgress,
    ) -> None:
        if not isinstance(task, ManyTask):
            return self._inside.run(task, jobs, on_done, on_progress)
        if self._bundles is None or self._bundles.task is not task:
            self._bundles = Bundles(task)
        # By number, not by place among what is missing: after an interruption the bundles are the same.
        members: dict[int, list[int]] = {}
        for number in jobs:
            members.setdefault(number // self._size, []).append(number)

        def done(bundle: int, results: list[AnyResult]) -> None:
            for number, result in zip(members[bundle], results, strict=True):
                on_done(number, result)

        def progress(bundle: int, epochs: int, total: int) -> None:
            for number in members[bundle]:
                on_progress(number, epochs, total)

        bundled = {bundle: tuple(jobs[number] for number in numbers) for bundle, numbers in members.items()}
        return self._inside.run(self._bundles, bundled, done, progress)

    def close(self) -> None:
        self._inside.close()
