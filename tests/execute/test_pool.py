"""The process pool: the same outcomes as in one process, whoever dies on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placl import stopping
from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.pool import Pool
from placl.errors import InputError, MachineError
from placl.execute import pool as pool_module
from placl.execute.pool import MOST_DEATHS, PoolExecutor, _Worker
from placl.execute.serial import SerialExecutor
from placl.learn.candidate import Job, Outcome, Task
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels

MakeConfig = Callable[..., Config]
JOBS = {number: Job(Curriculum((0.2 * number, 0.1)), seed=7) for number in range(4)}


@pytest.fixture
def task(tiny: MakeConfig, pool: Pool, tmp_path: Path) -> Task:
    """On a memory map, as every dataset that comes from files is."""
    np.save(tmp_path / "crops.npy", pool.crops)
    mapped = replace(pool, crops=np.load(tmp_path / "crops.npy", mmap_mode="r"))
    labelled, hidden, val = (mapped.take(part) for part in np.split(np.arange(60), [16, 40]))
    pseudo = PseudoLabels(hidden.keypoints, np.full((24, 14), 0.5, np.float32), "m")
    return Task(tiny({"train.epochs": 4}), TrainingSet(labelled, hidden.without_labels(), pseudo), val)


def silent(*arguments: Any) -> None:
    pass


def outcomes_of(executor: Any, task: Task, on_progress: Callable[..., None] = silent) -> dict[int, Outcome]:
    done: dict[int, Outcome] = {}
    executor.run(task, JOBS, done.__setitem__, on_progress)
    return done


def test_two_workers_one_of_which_is_killed_give_what_one_process_gives(task: Task) -> None:
    executor = PoolExecutor(2)
    killed: list[int] = []
    restarted: list[int] = []

    def kill_once(number: int, done: int, total: int) -> None:
        if killed and number == killed[0] and done == 1:
            restarted.append(number)
        if not killed and done == 2:
            killed.append(number)
            (worker,) = (w for w in executor._crew if w.job == number)
            assert worker.process.pid is not None
            os.kill(worker.process.pid, signal.SIGKILL)

    try:
        found = outcomes_of(executor, task, kill_once)
        assert found == outcomes_of(SerialExecutor(), task)
        assert len({outcome.reward for outcome in found.values()}) > 1
        assert restarted == killed
        assert [worker.process.is_alive() for worker in executor._crew] == [True, True]
        crew = [worker.process for worker in executor._crew]
        bad = replace(task, config=task.config.model_copy(
            update={"model": task.config.model.model_copy(update={"name": "tinny"})}))  # fmt: skip
        with pytest.raises(InputError, match=r'no such network\. Did you mean "tiny"'):
            outcomes_of(executor, bad)
        assert executor._crew == []  # nobody goes on with what nobody waits for
        assert not any(process.is_alive() for process in crew)
    finally:
        executor.close()


# --- without processes: a worker is a pipe, and what it does is written down here


@dataclass
class Ghost:
    """Stands in for a process."""

    exitcode: int = -9

    def terminate(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def join(self, timeout: float) -> None:
        pass


class Scripted(PoolExecutor):
    """Each new worker has the next script: messages it has sent in advance, before it died."""

    def __init__(self, workers: int, scripts: Iterator[list[tuple[str, Any]]]) -> None:
        super().__init__(workers)
        self.scripts = scripts
        self.hired = 0

    def _hire(self, number: int) -> _Worker:
        self.hired += 1
        ours, theirs = Pipe()
        for message in next(self.scripts):
            theirs.send(message)
        theirs.close()
        return _Worker(Ghost(), ours)


def test_a_candidate_that_kills_three_workers_is_given_up(task: Task) -> None:
    executor = Scripted(1, iter([[("progress", (1, 2))], [], []]))
    seen: list[tuple[int, ...]] = []
    with pytest.raises(
        MachineError, match=r"3 workers died on one training \(exit code -9\)\. The machine may be out of"
    ):
        executor.run(task, {4: JOBS[1]}, silent, lambda *p: seen.append(p))
    assert MOST_DEATHS == executor.hired == 3
    assert seen == [(4, 1, 2)]
    assert executor._crew == []


def test_deaths_are_counted_by_candidate(task: Task) -> None:
    # Each of the three candidates loses two workers and succeeds with the third: nothing is given up.
    scripts: list[list[tuple[str, Any]]] = []
    for number in range(3):
        done = ("done", Outcome(float(number), 1, (1.0,)))
        # A worker that answered lives on with the next candidate, so the next script begins with its death.
        scripts += [[], [], [done]] if number == 0 else [[], [done]]
    executor = Scripted(1, iter(scripts))
    done_by: dict[int, Outcome] = {}
    executor.run(task, {n: JOBS[n] for n in range(3)}, done_by.__setitem__, silent)
    assert [done_by[n].reward for n in range(3)] == [0.0, 1.0, 2.0]
    assert executor.hired == 7


def test_a_programming_error_in_a_worker_is_shown(task: Task) -> None:
    executor = Scripted(1, iter([[("failed", "Traceback: ZeroDivisionError")]]))
    with pytest.raises(RuntimeError, match="a training failed in a worker:\nTraceback: ZeroDivisionError"):
        executor.run(task, {0: JOBS[0]}, silent, silent)


class Trouble:
    """A task whose jobs end in three ways."""

    def run(self, job: Job, on_progress: Callable[[int, int], None]) -> Outcome:
        on_progress(1, 2)
        if job == JOBS[1]:
            raise InputError("bad file")
        if job == JOBS[2]:
            raise ZeroDivisionError
        return Outcome(3.0, 8, ())


def test_the_workers_end_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker answers, run in this process with a short script."""
    monkeypatch.setattr(stopping._state, "quiet", False)  # and again when this process is no worker any more
    answers: list[tuple[str, Any]] = []

    class Link:
        inbox: Iterator[tuple[str, Any]] = iter(
            [("task", Trouble()), ("job", JOBS[0]), ("job", JOBS[1]), ("job", JOBS[2])]
        )

        def recv(self) -> tuple[str, Any]:
            for message in self.inbox:
                return message
            raise EOFError

        def send(self, message: tuple[str, Any]) -> None:
            answers.append(message)

    with stopping.heeding():  # gives the signals back
        pool_module._worker(Link())
    kinds = [kind for kind, _ in answers]
    assert kinds == ["progress", "done", "progress", "refused", "progress", "failed"]
    assert answers[1][1] == Outcome(3.0, 8, ())
    assert str(answers[3][1]) == "bad file"
    assert "ZeroDivisionError" in answers[5][1]


SCRIPT = """
import os, time
from placl.execute.pool import PoolExecutor

class Sleeping:
    def run(self, job, on_progress):
        on_progress(os.getpid(), 0)
        time.sleep(60)

if __name__ == "__main__":
    PoolExecutor(2).run(Sleeping(), {0: 0, 1: 1}, print, lambda number, pid, _: print(pid, flush=True))
"""


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_the_process_that_hired_them(tmp_path: Path, deadly: signal.Signals) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, encoding="utf-8")
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    process.send_signal(deadly)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


@pytest.mark.parametrize("last", [("done", "kept"), ("stopped", None)])
def test_asked_to_stop_it_waits_for_what_runs_and_gives_out_nothing_more(task: Task, last: tuple[str, Any]) -> None:
    executor = Scripted(1, iter([[("progress", (1, 2)), last]]))
    done: dict[int, Any] = {}
    with pytest.raises(stopping.Stopped):
        executor.run(task, {4: JOBS[1], 5: JOBS[1]}, done.__setitem__, lambda *_: stopping.ask())
    assert done == ({4: "kept"} if last[0] == "done" else {})
    assert not stopping.asked()
