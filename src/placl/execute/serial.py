"""Candidates one after the other, in this process."""

from __future__ import annotations

from placl.execute.executor import Job, OnDone, OnProgress
from placl.learn.candidate import Task, run_candidate


class SerialExecutor:
    workers = 1

    def run(self, task: Task, jobs: dict[int, Job], on_done: OnDone, on_progress: OnProgress) -> None:
        for number, job in jobs.items():

            def progress(done: int, total: int, number: int = number) -> None:
                on_progress(number, done, total)

            on_done(number, run_candidate(task, job.curriculum, job.seed, progress))

    def close(self) -> None:
        pass
