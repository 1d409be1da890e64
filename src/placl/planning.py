"""``placl.plan``: what a training comes to before it starts: trainings, images, time on this machine and disk.

Counts follow from the configuration and the data. Times come from the real functions, run for about ten seconds in as
many processes as there will be workers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from placl.api import check_networks, corrected, draw_roles, make_yardsticks
from placl.calibration import CALIBRATION, Pace, Speeds, calibrate, kind_of, stand_in
from placl.checks import check, check_heads
from placl.config import Config
from placl.curriculum.searcher import make_searcher
from placl.data.load import Dataset, load_dataset
from placl.data.pool import Pool
from placl.data.splits import Problem, Split, make_problem, take_ids
from placl.errors import InputError
from placl.execute.executor import available_cores
from placl.learn.candidate import make_folds
from placl.learn.network import fresh_network
from placl.rounds import found_by_search, stage_configs
from placl.search import proxy_task
from placl.stages import FINAL
from placl.watch import Silent, Watch

LINE = 300  # bytes of a candidate in the journal, search.csv and tb/, its thresholds not counted
PER_THRESHOLD = 45  # bytes of a candidate's threshold there
PER_KEYPOINT = 18  # bytes of a pseudo-label's keypoint in parquet: three float32, dictionaries and indices
PER_ARRAY = 12  # bytes of it in the arrays that trainings map
FIXED = 40_000  # bytes of config.yaml, report.html, environment.json and the like


@dataclass(frozen=True)
class Part:
    """A part of the run. ``seconds`` are of the clock, whatever runs side by side."""

    name: str
    trainings: int
    images: int  # training images through networks
    read: int  # images that networks are asked about, once each, however many views
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a training would come to, and what it would take on this machine."""

    trainings: dict[str, int]  # full trainings by name, and their training images
    candidates: int  # of all searches together
    parts: tuple[Part, ...]  # in order: name, trainings, images and seconds of each
    disk: dict[str, int]  # bytes: "crops" (in the cache, now) and "run" (the folder, in the end)
    workers: int  # processes, or GPUs
    notes: tuple[str, ...] = ()  # what is worth knowing beforehand, a line each

    @property
    def images(self) -> int:
        return sum(part.images for part in self.parts)

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def summary(self) -> str:
        return (
            f"{plural(self.candidates, 'candidate')} and {plural(len(self.trainings), 'full training')}, "
            f"{plural(self.images, 'training image')}: about {duration(self.seconds)} on this machine, "
            f"{size(sum(self.disk.values()))}"
        )

    def to_dict(self) -> dict[str, Any]:
        totals = {"images": self.images, "seconds": round(self.seconds, 1), "hours": round(self.seconds / 3600, 4)}
        return asdict(self) | totals | {"summary": self.summary}


def plan(config: Config, dataset: Dataset | None = None, watch: Watch | None = None) -> Plan:
    """Read the data as a training does (crops are cached for it), count, and time the functions that it will call."""
    watch = watch or Silent()
    if config.method != "placl":
        raise InputError(f"method={config.method}: plans are for method=placl. `placl study --dry-run` counts others.")
    config = config.anchored()
    dataset, reading = _read(config, watch) if dataset is None else (dataset, 0.0)
    for line in dataset.shared.lines() if dataset.shared else ():
        watch.say(line)
    split = draw_roles(dataset, config)
    pool = corrected(dataset, split)
    problem = make_problem(pool, split, needs_val=config.needs_val)
    check(problem, config)
    exam = take_ids(pool, split.test)
    check_heads(exam, "test", config)
    check_networks(config, len(pool.skeleton))
    work = count(pool, problem, split, config)
    watch.say(f"timing this machine for about {CALIBRATION:.0f} seconds")
    speeds = calibrate(problem, config)
    parts = _parts(work, speeds, problem, len(exam), config, reading)
    asked = config.searches * work.steps * work.samples
    trainings = {training.name: training.images for training in (*work.first, *work.later)}
    disk = {"crops": _cache_bytes(pool), "run": _run_bytes(work, problem, split, config)}
    return Plan(trainings, asked, parts, disk, speeds.workers, _notes(config, speeds.workers))


def _read(config: Config, watch: Watch) -> tuple[Dataset, float]:
    """The data, and the seconds that reading them takes once their crops are there."""
    begun = time.monotonic()
    cropping: list[float] = []  # when the first crops were there, if they were not before

    def on_progress(done: int, total: int) -> None:
        cropping.append(time.monotonic())
        watch.progress("images", done, total, "cropping")

    workers = config.execute.workers or available_cores()
    dataset = load_dataset(config.data, config.view, workers=workers, on_progress=on_progress)
    return dataset, (cropping[0] if cropping else time.monotonic()) - begun


@dataclass(frozen=True)
class Training:
    name: str
    config: Config
    instances: int  # labelled, and all pseudo-labelled ones: an upper bound where a curriculum selects

    @property
    def steps(self) -> int:
        settings = self.config.train
        fixed = settings.epoch == "steps"
        return settings.epochs * (settings.steps_per_epoch if fixed else max(1, self.instances // settings.batch))

    @property
    def images(self) -> int:
        return self.steps * self.config.train.batch


@dataclass(frozen=True)
class Work:
    """What a run does."""

    first: tuple[Training, ...]  # round 0 and, beside it, the yardsticks
    later: tuple[Training, ...]  # the other rounds and the final training, one after the other
    labelled: tuple[int, ...]  # instances of each pass of pseudo-labelling
    folds: tuple[tuple[Training, int], ...]  # of one candidate: its trainings, each with the instances it is scored on
    steps: int  # T
    samples: int  # M


def count(pool: Pool, problem: Problem, split: Split, config: Config) -> Work:
    known, configs, rounds = len(problem.labelled), stage_configs(config), config.rounds.count
    units = make_yardsticks(pool, split, problem, config) if config.reference else []
    first = [Training("round_0", configs["round_0"], known)]
    first += [Training(unit.name, unit.config, len(unit.data.labelled)) for unit in units]
    halves = [len(problem.unlabelled_half(r, config.rounds.cross_training)) for r in range(1, rounds + 1)]
    later = [Training(f"round_{r}", configs[f"round_{r}"], known + half) for r, half in enumerate(halves, 1)]
    if FINAL in configs:
        halves.append(len(problem.unlabelled_half(rounds + 1)))
        later.append(Training(FINAL, configs[FINAL], known + halves[-1] + halves[-2]))
    searcher = make_searcher(config.search, np.zeros(config.groups), 0)
    samples = len(searcher.ask(config.search.samples))
    return Work(tuple(first), tuple(later), tuple(halves), _candidate(problem, config), searcher.steps, samples)


def _candidate(problem: Problem, config: Config) -> tuple[tuple[Training, int], ...]:
    task = proxy_task(config, stand_in(problem, config), problem.val)
    pseudo = len(task.data.unlabelled) if task.data.unlabelled is not None else 0
    folds = make_folds(task) if config.reward.source == "folds" else [(task.data, task.val)]
    return tuple((Training("", task.config, len(data.labelled) + pseudo), len(truth)) for data, truth in folds)


def _parts(
    work: Work, speeds: Speeds, problem: Problem, tested: int, config: Config, reading: float
) -> tuple[Part, ...]:
    final, trainings = config.execute.final_threads, (*work.first, *work.later)
    one_by_one = final > config.execute.threads  # as stages.train_side_by_side has it
    lanes = 1 if one_by_one else speeds.workers
    again = [training for training in work.later if training.name not in found_by_search(config)]
    retraining = [seconds(training, speeds.alone[kind_of(training.config, final)]) for training in again]
    beside = [(seconds(t, speeds.alone[kind]), seconds(t, speeds.beside[kind]))
              for t in work.first for kind in [kind_of(t.config, final)]]  # fmt: skip
    candidates = config.searches * work.steps * work.samples
    searching = 0.0
    if candidates:
        kind = kind_of(config.proxied(), config.execute.threads)
        one = candidate_seconds(work, speeds.alone[kind]), candidate_seconds(work, speeds.beside[kind])
        searching = config.searches * work.steps * side_by_side([one] * work.samples, speeds.workers)
    # Workers are hired when there is work for them: for round 0, and the others for the search.
    hired = min(lanes, len(work.first))
    starts = 2 + (bool(candidates) and hired < min(speeds.workers, work.samples))
    read = len(problem.val) + tested
    scoring = sum(read * speeds.read[kind_of(training.config, final)] for training in trainings)
    names = ", ".join(training.name for training in work.first)
    teacher = kind_of(config.taught(), final)
    slower = speeds.beside[teacher].step / speeds.alone[teacher].step  # all workers label
    sent = speeds.send * (len(trainings) + config.searches)
    per_candidate = sum(training.images for training, _ in work.folds)
    scored = sum(count for _, count in work.folds)
    parts = [
        Part("start", 0, 0, 0, reading + starts * speeds.start + sent),
        Part(names, len(work.first), _images(work.first), 0, side_by_side(beside, lanes)),
        Part("pseudo-labels", 0, 0, sum(work.labelled), sum(work.labelled) * speeds.label * slower / speeds.workers),
        Part("search", candidates * len(work.folds), candidates * per_candidate, candidates * scored, searching),
        Part("retraining", len(again), _images(again), 0, sum(retraining)),
        Part("scores", 0, 0, read * len(trainings), scoring),
    ]
    return tuple(part for part in parts if part.trainings or part.read or part.name == "start")


def _images(trainings: Sequence[Training]) -> int:
    return sum(training.images for training in trainings)


def seconds(training: Training, pace: Pace) -> float:
    return pace.setup + training.steps * pace.step


def candidate_seconds(work: Work, pace: Pace) -> float:
    return sum(seconds(training, pace) + scored * pace.read for training, scored in work.folds)


def side_by_side(jobs: Sequence[tuple[float, float]], workers: int) -> float:
    """Seconds until all jobs are done, given those of each alone and beside others; a free worker takes the next."""
    waiting, running, clock = list(jobs), list[tuple[tuple[float, float], float]](), 0.0
    while waiting or running:
        while waiting and len(running) < workers:
            running.append((waiting.pop(0), 1.0))  # a job and the share of it that is left
        shared = int(len(running) > 1)
        passed = min(left * max(job[shared], 1e-9) for job, left in running)
        clock += passed
        running = [(job, left - passed / max(job[shared], 1e-9)) for job, left in running]
        running = [(job, left) for job, left in running if left > 1e-9]
    return clock


def _cache_bytes(pool: Pool) -> int:
    if not isinstance(pool.crops, np.memmap):
        return 0
    return sum(file.stat().st_size for file in Path(str(pool.crops.filename)).parent.iterdir())


def _run_bytes(work: Work, problem: Problem, split: Split, config: Config) -> int:
    skeleton = problem.labelled.skeleton
    kept = [training.config for training in (*work.first, *work.later)] + [config]  # and one in best/
    weights = {model: _weights(some, len(skeleton)) for some in kept for model in [some.model.model_dump_json()]}
    written = mapped = sum(work.labelled)
    if any(training.name == FINAL for training in work.later):
        written += work.labelled[-2]  # the final file has both halves
        mapped += sum(work.labelled[-2:])
    name = max((len(i) for i in problem.unlabelled.ids), default=0)
    lines = config.searches * work.steps * work.samples * (LINE + PER_THRESHOLD * config.groups)
    return (
        FIXED
        + len(split.to_json())
        + sum(weights[some.model.model_dump_json()] for some in kept)
        + written * (name + PER_KEYPOINT * len(skeleton))
        + mapped * PER_ARRAY * len(skeleton)
        + lines
    )


def _weights(config: Config, keypoints: int) -> int:
    state = fresh_network(config, keypoints, 0, torch.device("cpu")).state_dict()
    return sum(tensor.numel() * tensor.element_size() + 100 for tensor in state.values())  # 100 for name and shape


def _notes(config: Config, workers: int) -> tuple[str, ...]:
    notes = []
    if config.train.epoch == "data" and config.rounds.count:
        notes.append("train.epoch=data: counted as if every pseudo-label were selected; a curriculum selects fewer")
    if config.execute.where == "ray":
        known = "as execute.workers has it" if config.execute.workers else "since execute.workers is not set"
        notes.append(f"ray: counted with {plural(workers, 'worker')}, {known}, each as fast as this machine")
    return tuple(notes)


def plural(number: int, what: str) -> str:
    """12300000 images -> "12.3 million images" """
    for unit, name in ((10**9, "billion"), (10**6, "million")):
        if number >= unit:
            return f"{number / unit:.1f} {name} {what}s"
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    for unit, name in ((365 * 86400.0, "years"), (30 * 86400.0, "months"), (86400.0, "days"), (3600.0, "hours")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def size(count: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count / 1e3:.0f} kB"
