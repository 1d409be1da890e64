"""Jobs one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable

from placl import stopping
from placl.execute.executor import AnyJob, AnyResult, OnProgress, Task


class SerialExecutor:
    workers = 1

    def run(
        self,
        task: Task[AnyJob, AnyResult],
        jobs: dict[int, AnyJob],
        on_done: Callable[[int, AnyResult], None],
        on_progress: OnProgress,
    ) -> None:
        for number, job in jobs.items():

            def progress(done: int, total: int, number: int = number) -> None:
                on_progress(number, done, total)

            with stopping.finishing():
                on_done(number, task.run(job, progress))
            stopping.check()

    def close(self) -> None:
        pass
