"""Jobs in worker processes that live as long as the executor.

A worker gets a task once (its crops travel as the path of a memory map), then only jobs, and answers with results. A
worker that dies is replaced and its job run again: jobs are pure functions, so nothing is lost.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

from placl import stopping
from placl.errors import MachineError, PlaclError
from placl.execute.executor import AnyJob, AnyResult, AnyTask, OnProgress, Task

LOOK_EVERY = 1.0  # seconds, whether all shall come to an end
MOST_DEATHS = 3  # of workers on one job, before it is the job's fault


# A server that has imported torch once forks workers in no time, where each would import it for itself. Forking is safe
# there: it has no threads and no GPU, of which this process may have both.
FORKS = sys.platform == "linux"
PRELOADED = ["placl.execute.pool", "placl.learn.candidate", "placl.learn.training", "placl.labelling"]


def _worker(link: Connection, gpu: str | None = None) -> None:
    """The life of a worker: receive a task or a job, answer, until the link breaks."""
    if gpu is not None:  # before CUDA is asked for anything: it sees no other
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    stopping.heed_in_worker()
    Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    task: AnyTask | None = None
    try:
        while True:
            kind, content = link.recv()
            if kind == "task":
                task = content
                continue
            assert task is not None
            try:
                with stopping.finishing():
                    link.send(("done", task.run(content, lambda done, total: link.send(("progress", (done, total))))))
            except stopping.Stopped:
                link.send(("stopped", None))
            except (BrokenPipeError, EOFError):
                return
            except PlaclError as error:
                link.send(("refused", error))
            except Exception:  # noqa: BLE001 - whatever it is, the parent must hear of it
                link.send(("failed", traceback.format_exc()))
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return


def _end_with(parent: BaseProcess | None) -> None:
    """A parent that is killed tells nobody, and a job may take an hour until it speaks to it again."""
    if parent is not None:
        parent.join()
        os._exit(1)


@dataclass
class _Worker:
    process: BaseProcess
    link: Connection
    task: AnyTask | None = None  # the task it has
    job: int | None = None  # the job it is at
    asked: bool = False  # to stop


class PoolExecutor:
    def __init__(self, workers: int, gpus: int = 0) -> None:
        self.workers = workers
        self._gpus = gpus
        self._crew: list[_Worker] = []
        if FORKS:
            multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
            with stopping.unheard():
                ensure_running()  # it imports while this process reads data

    def _hire(self, number: int) -> _Worker:
        context = multiprocessing.get_context("forkserver") if FORKS else multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        gpu = None
        if self._gpus:  # one a worker
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            known = visible.split(",") if visible else [str(i) for i in range(self._gpus)]
            gpu = known[number % len(known)]
        process = context.Process(target=_worker, args=(theirs, gpu), daemon=True, name=f"placl-worker-{number}")
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def run(
        self,
        task: Task[AnyJob, AnyResult],
        jobs: dict[int, AnyJob],
        on_done: Callable[[int, AnyResult], None],
        on_progress: OnProgress,
    ) -> None:
        waiting = list(jobs)
        deaths = dict.fromkeys(jobs, 0)
        missing = min(self.workers, len(jobs)) - len(self._crew)
        self._crew += [self._hire(len(self._crew) + i) for i in range(missing)]
        try:
            with stopping.finishing():
                while waiting or any(w.job is not None for w in self._crew):
                    if stopping.asked():
                        waiting.clear()
                        self._ask_to_stop()
                    for worker in self._crew:
                        if waiting and worker.job is None:
                            self._give(worker, task, waiting.pop(0), jobs)
                    for link in wait([w.link for w in self._crew if w.job is not None], LOOK_EVERY):
                        place = next(i for i, w in enumerate(self._crew) if w.link is link)
                        self._hear(place, waiting, deaths, on_done, on_progress)
            stopping.check()
        except BaseException:
            self.close()  # whatever the workers are at, nobody waits for it any more
            raise

    def _ask_to_stop(self) -> None:
        """Jobs that can be kept half done are; others are finished."""
        for worker in self._crew:
            if worker.job is not None and not worker.asked:
                worker.asked = True
                worker.process.terminate()

    def _give(self, worker: _Worker, task: AnyTask, number: int, jobs: dict[int, AnyJob]) -> None:
        worker.job = number
        try:
            if worker.task is not task:
                worker.link.send(("task", task))
                worker.task = task
            worker.link.send(("job", jobs[number]))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has died: hearing from it finds out

    def _hear(
        self,
        place: int,
        waiting: list[int],
        deaths: dict[int, int],
        on_done: Callable[[int, Any], None],
        on_progress: OnProgress,
    ) -> None:
        worker = self._crew[place]
        number = worker.job
        assert number is not None
        try:
            kind, content = worker.link.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join(timeout=5)
            deaths[number] += 1
            if deaths[number] >= MOST_DEATHS:
                raise MachineError(
                    f"{MOST_DEATHS} workers died on one training (exit code {worker.process.exitcode}). The machine "
                    "may be out of memory: try execute.workers=1. In a script, call placl.train under "
                    'if __name__ == "__main__":'
                ) from None
            worker.link.close()
            self._crew[place] = self._hire(place)
            waiting.insert(0, number)
            return
        self._answer(kind, content, number, worker, on_done, on_progress)

    @staticmethod
    def _answer(
        kind: str,
        content: Any,
        number: int,
        worker: _Worker,
        on_done: Callable[[int, Any], None],
        on_progress: OnProgress,
    ) -> None:
        if kind == "progress":
            on_progress(number, *content)
            return
        worker.job = None
        if kind == "done":
            on_done(number, content)
        elif kind == "stopped":
            stopping.ask()  # somebody else may have told it
        elif kind == "refused":
            raise content
        else:
            raise RuntimeError(f"a training failed in a worker:\n{content}")

    def close(self) -> None:
        for worker in self._crew:
            worker.link.close()
            worker.process.kill()
        for worker in self._crew:
            worker.process.join(timeout=5)
        self._crew = []
