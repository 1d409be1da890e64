"""How fast this machine is at a training's work: the real functions, for about ten seconds.

They run in as many processes as there will be workers, because two trainings on two cores are slower than one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

import numpy as np

from placl.config import Config, Model
from placl.curriculum.curriculum import constant
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.execute.executor import Executor, make_executor
from placl.execute.serial import SerialExecutor
from placl.learn.course import TrainingSet
from placl.learn.device import pick_device, thread_count
from placl.learn.inner_loop import inner_loop
from placl.learn.label import label
from placl.learn.network import fresh_network
from placl.learn.pseudo_labels import PseudoLabels
from placl.learn.score import score

CALIBRATION = 10.0  # seconds, the start of the workers not counted
LONG = 1.5  # seconds of a step that is not timed twice


@dataclass(frozen=True)
class Pace:
    """Of one network, in seconds."""

    setup: float  # of a training, beside its steps
    step: float
    read: float  # an image, and its share of the score


@dataclass(frozen=True)
class Speeds:
    workers: int
    start: float  # until workers are there
    send: float  # until they have a task
    alone: dict[str, Pace]  # by `kind_of`
    beside: dict[str, Pace]  # with all workers busy
    label: float  # an image of the unlabelled ones, in all views
    read: dict[str, float]  # an image of a test, in the command's own process, by `kind_of`


def kind_of(config: Config, threads: int) -> str:
    """Trainings of one kind have steps of one length."""
    return f"{config.model.model_dump_json()} {config.train.batch} {threads}"


@dataclass(frozen=True)
class Job:
    config: Config
    threads: int
    seconds: float  # to spend; 0: only answer


@dataclass(frozen=True)
class Probe:
    """A task for an executor: the real functions for a while."""

    data: TrainingSet
    truth: Pool

    def run(self, job: Job, on_progress: Callable[[int, int], None]) -> Pace:
        if not job.seconds:  # what a process loads for its first training belongs to its start
            small = Model(name="tiny", input_size=32, width=0.25)
            _time_steps(job.config.model_copy(update={"model": small}), self.data, 1, 0.0, 2)
            return Pace(0, 0, 0)
        setup, step = time_training(job.config, self.data, job.threads, 0.7 * job.seconds)
        return Pace(setup, step, time_reading(job.config, self.truth, job.threads, 0.3 * job.seconds))


def stand_in(problem: Problem, config: Config) -> TrainingSet:
    """Round 1's data, all of it selected; pseudo-labels are not made yet."""
    half = problem.unlabelled_half(1, config.rounds.cross_training)
    if not len(half):
        return TrainingSet(problem.labelled)
    middle = np.full_like(half.keypoints, (half.crop_size - 1) / 2)
    return TrainingSet(problem.labelled, half, PseudoLabels(middle, np.ones(middle.shape[:2], np.float32), ""))


def calibrate(problem: Problem, config: Config) -> Speeds:
    on_cluster = config.execute.where == "ray"  # of which only this machine is at hand
    executor = SerialExecutor() if on_cluster else make_executor(config.execute)
    data = stand_in(problem, config)
    truth = problem.val if config.reward.source == "val" and len(problem.val) else problem.labelled
    final, threads = config.execute.final_threads, config.execute.threads
    first, teacher = config.taught(first=True), config.taught()
    asked = [(first, final), (teacher, final), (config, final)]
    asked += [(config.proxied(), threads)] if config.rounds.count else []
    jobs = {kind_of(some, number): (some, number) for some, number in asked}
    share = CALIBRATION / (3 + 2 * len(jobs))  # labels, one reading, and each training alone and beside others
    try:
        begun = time.monotonic()
        _ask(executor, Probe(data, truth), Job(config, 1, 0), executor.workers)
        there = time.monotonic()
        probe = Probe(data, truth)
        _ask(executor, probe, Job(config, 1, 0), executor.workers)
        sent = time.monotonic()
        beside = {kind: _ask(executor, probe, Job(*job, share), executor.workers) for kind, job in jobs.items()}
        alone = dict(beside)
        for kind, job in jobs.items():
            if executor.workers > 1 and time.monotonic() - sent < 0.7 * CALIBRATION:  # large networks take all of it
                alone[kind] = _ask(executor, probe, Job(*job, share), 1)
    finally:
        executor.close()
    unlabelled = data.unlabelled if data.unlabelled is not None else truth
    made = time_reading(teacher, unlabelled, final, share, all_views=True)
    readers = {kind_of(some, final): some for some in (first, teacher, config)}
    read = {kind: time_reading(some, truth, final, share) for kind, some in readers.items()}
    workers = (config.execute.workers or 1) if on_cluster else executor.workers
    return Speeds(workers, there - begun, sent - there, alone, beside, made, read)


def _ask(executor: Executor, probe: Probe, job: Job, times: int) -> Pace:
    """The mean of a job that runs ``times`` times, side by side as far as there are workers."""
    found: list[Pace] = []
    executor.run(probe, dict.fromkeys(range(times), job), lambda _, pace: found.append(pace), lambda *_: None)
    return Pace(*(float(np.mean(values)) for values in zip(*(asdict(pace).values() for pace in found), strict=True)))


class _EnoughError(Exception):
    """Raised by a callback to leave a training."""


def time_training(config: Config, data: TrainingSet, threads: int, seconds: float) -> tuple[float, float]:
    """Seconds of a training beside its steps, and of a step; where a step is too long, that of a part of its batch."""
    full = config.train.batch
    batch = min(full, 1 if config.model.input_size >= 64 else 2)  # one value per channel cannot be normalised
    setup, step = _time_steps(config, data, threads, seconds / 4, batch)
    larger = min(full, int(batch * seconds / (4 * step)))  # room for three steps
    if larger > batch:
        epoch = int(seconds / (40 * step * larger / batch))
        batch = larger
        setup, step = _time_steps(config, data, threads, 0.75 * seconds, batch, max(1, min(10, epoch)))
    return setup, step * full / batch


def _time_steps(
    config: Config, data: TrainingSet, threads: int, seconds: float, batch: int, epoch: int = 1
) -> tuple[float, float]:
    """A training that is left after ``seconds``; ``epoch`` steps are timed together."""
    settings = {"batch": batch, "epoch": "steps", "steps_per_epoch": epoch, "epochs": 1_000_000}
    config = config.model_copy(update={"train": config.train.model_copy(update=settings)})
    times = [time.perf_counter()]

    def on_epoch(done: int, total: int, loss: float) -> None:
        times.append(time.perf_counter())
        passed = times[-1] - times[0]
        if passed > seconds and (done > 2 or passed > LONG):
            raise _EnoughError

    with suppress(_EnoughError):
        inner_loop(config, data, constant(0.0), 0, threads=threads, on_epoch=on_epoch)
    epochs = np.diff(times)
    if len(epochs) < 2:
        return 0.0, float(epochs.sum()) / epoch
    # The median: whoever else uses the machine for a moment will not do so for the whole training.
    usual = float(np.median(epochs[1:]))
    return max(0.0, float(epochs[0]) - usual), usual / epoch


def time_reading(config: Config, pool: Pool, threads: int, seconds: float, all_views: bool = False) -> float:
    """Seconds an image of reading a network, and of the score where images have labels."""
    net = fresh_network(config, len(pool.skeleton), 0, pick_device(config.execute.device))
    number = 1
    while True:
        number = min(4 * number, len(pool), config.label.batch)
        some = pool.take(np.arange(number))
        begun = time.perf_counter()
        with thread_count(threads):
            found = label(net, some, config, all_views=all_views)
        if not all_views and some.labelled.any():
            score(found, some, config.reward)
        took = time.perf_counter() - begun
        if took > seconds / 5 or number == min(len(pool), config.label.batch):
            return took / number
