"""Jobs as tasks of a Ray cluster, whose nodes may come and go.

A task's crops and labels are put into the object store once; a node fetches them once and its workers map them. A job
whose worker or node is lost is run again elsewhere: jobs are pure functions, so nothing is lost.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from placl.config import Execute, Ray
from placl.errors import InputError, MachineError
from placl.execute.bundles import Bundles
from placl.execute.executor import AnyJob, AnyResult, AnyTask, OnProgress, Task
from placl.execute.ray_connection import Connection
from placl.execute.ray_progress import Listener
from placl.learn.candidate import Task as Candidates
from placl.learn.training import Trainings

LOOK_EVERY = 10.0  # seconds without news after which it is asked whether any node can run the jobs


class RayExecutor:
    def __init__(self, settings: Execute, cluster: Ray) -> None:
        gpus = cluster.gpus_per_candidate
        if gpus is not None and gpus > 1 and gpus != int(gpus):
            raise InputError(f"ray.gpus_per_candidate={gpus}: above 1 it is a whole number of GPUs.")
        self._settings, self._cluster = settings, cluster
        self._connection = Connection(settings, cluster)
        self._ray = self._connection.ray
        from placl.execute.ray_parcel import Packer  # these two need Ray
        from placl.execute.ray_worker import work

        self._work = self._ray.remote(work)
        self._packer = Packer(self._ray.put)
        self._listener = Listener(self._ray)
        self._sent: tuple[AnyTask, Any, tuple[Any, ...]] | None = None  # the last task, and where it is in the store
        self._runs = 0
        self.workers = max(1, self._places(settings.threads))

    def run(
        self,
        task: Task[AnyJob, AnyResult],
        jobs: dict[int, AnyJob],
        on_done: Callable[[int, AnyResult], None],
        on_progress: OnProgress,
    ) -> None:
        self._runs += 1
        searching = isinstance(task.task if isinstance(task, Bundles) else task, Candidates)
        threads = self._settings.threads if searching else self._settings.final_threads
        self.workers = max(1, self._places(self._settings.threads))
        start = self._starter(task, jobs, threads)
        waiting, losses = list(jobs), Counter[int]()
        running: dict[Any, int] = {}  # reference of the answer -> number
        warned = False
        try:
            while waiting or running:
                while waiting and len(running) < (self._settings.workers or len(jobs)):
                    number = waiting.pop(0)
                    running[start(number)] = number
                ready, _ = self._ray.wait([*running, *self._listener.references()], timeout=LOOK_EVERY)
                if not ready:
                    warned = warned or self._warn_where_nobody_can(threads)
                elif ready[0] in running:
                    number = running.pop(ready[0])
                    if not self._answered(ready[0], number, losses, on_done):
                        waiting.insert(0, number)
                else:
                    for (run, number), (done, total) in self._listener.hear().items():
                        if run == self._runs and number in running.values():
                            on_progress(number, done, total)
        except BaseException:
            for reference in running:  # nobody waits for them any more
                with contextlib.suppress(Exception):
                    self._ray.cancel(reference, force=True)
            raise

    def _starter(self, task: AnyTask, jobs: dict[int, Any], threads: int) -> Callable[[int], Any]:
        """Send the task to the object store; the function sends a job after it and returns its answer's reference."""
        from placl.execute.ray_worker import VERSIONS, Order

        gpus = self._gpus(full=isinstance(task, Trainings))
        if self._sent is None or self._sent[0] is not task:
            packed = self._packer.pack(task)
            self._sent = (task, self._ray.put(packed.content), packed.arrays)
        _, content, arrays = self._sent
        # Ray's own retries stay off: it would not give up on a job that is out of memory, and counts others apart.
        remote = self._work.options(num_cpus=threads, num_gpus=gpus, max_retries=0, scheduling_strategy="SPREAD")

        def start(number: int) -> Any:
            job = self._packer.pack(jobs[number])
            order = Order((self._runs, number), content.hex(), len(arrays), VERSIONS)
            return remote.remote(order, content, job.content, self._listener.board, *arrays, *job.arrays)

        return start

    def _answered(self, reference: Any, number: int, losses: Counter[int], on_done: Callable[[int, Any], None]) -> bool:
        """Hand a result on; False where it was lost on the way and the job is to be run again."""
        errors = self._ray.exceptions
        try:
            kind, content = self._ray.get(reference)
        except errors.RayTaskError as error:  # not of the job: the worker hands its own errors over as answers
            reason = str(error).strip().splitlines()[-1]
            raise InputError(
                f"a node of the cluster cannot run placl ({reason}). Install placl[ray] on all of its nodes."
            ) from error
        except errors.RayError as error:
            losses[number] += 1
            if losses[number] > self._cluster.retries:
                raise MachineError(
                    f"a training was lost with its worker or node {losses[number]} times ({type(error).__name__}). "
                    "A node may be out of memory: let fewer run side by side, with a larger execute.threads."
                ) from error
            return False
        if kind == "refused":
            raise content
        if kind == "failed":
            raise RuntimeError(f"a training failed in a worker:\n{content}")
        on_done(number, content)
        return True

    def _gpus(self, full: bool = False) -> float:
        """GPUs of a job: a full training takes all of a node's, of the one with the most."""
        if self._settings.device == "cpu":
            return 0.0
        most = max((node.get("GPU", 0.0) for node in self._nodes()), default=0.0)
        if full and most > 1 and self._cluster.gpus_per_candidate != 0:
            return most
        if self._cluster.gpus_per_candidate is not None:
            return self._cluster.gpus_per_candidate
        return 1.0 if any(node.get("GPU") for node in self._nodes()) else 0.0

    def _nodes(self) -> list[dict[str, float]]:
        """Resources of the nodes that are there now."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _places(self, threads: int) -> int:
        """How many jobs the cluster runs at once now."""
        gpus = self._gpus()
        rooms = [
            min(node.get("CPU", 0) // threads, node.get("GPU", 0) // gpus if gpus else float("inf"))
            for node in self._nodes()
        ]
        return int(min(sum(rooms), self._settings.workers or float("inf")))

    def _warn_where_nobody_can(self, threads: int) -> bool:
        """Ray waits without a word, which is right only where a larger node will join."""
        if self._places(threads):
            return False
        need = f"{threads} CPUs" + (f" and {self._gpus():g} GPUs" if self._gpus() else "")
        logging.getLogger("placl").warning("No node of the Ray cluster has %s: waiting for one to join.", need)
        return True

    def close(self) -> None:
        self._listener.close()
        self._connection.close()
