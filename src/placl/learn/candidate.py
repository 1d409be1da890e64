"""A candidate: one inner-loop training under one curriculum, and its reward.

A pure function of its arguments: the same bits in this process, in a worker, or for a second time after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.pool import Pool
from placl.learn.course import TrainingSet
from placl.learn.device import pick_device, thread_count
from placl.learn.distributed import devices_of_candidate, inner_loop_distributed
from placl.learn.inner_loop import Trained
from placl.learn.label import label
from placl.learn.network import fresh_network
from placl.learn.score import score
from placl.models.weights import weights_bytes

OnProgress = Callable[[int, int], None]  # epochs done, of how many


@dataclass(frozen=True)
class Job:
    """What tells the candidates of a round apart."""

    curriculum: Curriculum
    seed: int


@dataclass(frozen=True)
class Task:
    """What all candidates of a round share."""

    config: Config
    data: TrainingSet
    val: Pool
    keep: bool = False  # whether outcomes bring their networks along

    @cached_property
    def cost(self) -> int:
        """Epochs of one candidate, folds counted."""
        return self.config.train.epochs * (self.config.reward.folds if self.config.reward.source == "folds" else 1)

    def run(self, job: Job, on_progress: OnProgress) -> Outcome:
        start = time.monotonic()
        outcome = run_candidate(self, job.curriculum, job.seed, on_progress)
        return replace(outcome, seconds=time.monotonic() - start)

    def run_many(self, jobs: Sequence[Job], on_progress: OnProgress) -> list[Outcome]:
        """As one network where that gives the same, else one after the other."""
        from placl.learn.together import run_together  # which is made of what is here

        if len(jobs) > 1 and self._can_run_together:
            start = time.monotonic()
            together = run_together(self, jobs, on_progress)
            each = (time.monotonic() - start) / len(jobs)
            return [replace(outcome, seconds=each) for outcome in together]
        outcomes = []
        for place, job in enumerate(jobs):

            def progress(done: int, total: int, before: int = place) -> None:
                on_progress(before * total + done, len(jobs) * total)

            outcomes.append(self.run(job, progress))
        return outcomes

    @cached_property
    def _can_run_together(self) -> bool:
        from placl.learn.together import can_run_together

        device = pick_device(self.config.execute.device)
        return can_run_together(self.config, fresh_network(self.config, len(self.val.skeleton), 0, device))


@dataclass(frozen=True)
class Outcome:
    reward: float
    images: int  # training images that it cost
    selected: tuple[float, ...]  # share of pseudo-labels selected, per group
    seconds: float = field(default=0.0, compare=False)  # that it took, which is no part of what came out
    weights: bytes | None = field(default=None, compare=False, repr=False)  # of weights_bytes, where they are kept

    def to_dict(self) -> dict[str, Any]:
        facts = {"reward": self.reward, "images": self.images, "selected": list(self.selected)}
        return facts | {"seconds": round(self.seconds, 3)}

    @staticmethod
    def from_dict(content: dict[str, Any]) -> Outcome:
        seconds = float(content.get("seconds", 0.0))
        return Outcome(float(content["reward"]), int(content["images"]), tuple(content["selected"]), seconds)


def run_candidate(task: Task, curriculum: Curriculum, seed: int, on_progress: OnProgress | None = None) -> Outcome:
    """Train under the curriculum and measure the reward xi(Gamma)."""
    if task.config.reward.source == "val":
        return _train_and_score(task, task.data, task.val, curriculum, seed, 0, on_progress)
    outcomes, sizes = [], []
    for number, (train, held_out) in enumerate(make_folds(task)):
        outcomes.append(_train_and_score(task, train, held_out, curriculum, seed, number, on_progress))
        sizes.append(int((held_out.visibility > 0).sum()))
    return over_folds(outcomes, sizes)


def over_folds(outcomes: Sequence[Outcome], sizes: Sequence[int]) -> Outcome:
    """One candidate's outcome, from those of folds in which so many keypoints were counted."""
    return Outcome(
        reward=float(np.average([o.reward for o in outcomes], weights=sizes)),
        images=sum(o.images for o in outcomes),
        selected=outcomes[0].selected,
    )


def _train_and_score(
    task: Task,
    data: TrainingSet,
    truth: Pool,
    curriculum: Curriculum,
    seed: int,
    number: int,
    on_progress: OnProgress | None,
) -> Outcome:
    config = task.config

    def on_epoch(done: int, epochs: int, loss: float) -> None:
        if on_progress:
            on_progress(number * epochs + done, task.cost)

    devices, threads = devices_of_candidate(config), config.execute.threads
    trained = inner_loop_distributed(
        config, data, curriculum, seed, devices=devices, threads=threads, on_epoch=on_epoch
    )
    with thread_count(config.execute.threads):
        predicted = label(trained.net, truth, config)
    return outcome_of(task, trained, score(predicted, truth, config.reward).value)


def outcome_of(task: Task, trained: Trained, reward: float) -> Outcome:
    """One that is no longer made of finite numbers is worth nothing, whatever it answers."""
    sound = not trained.diverged and bool(np.isfinite(reward))
    weights = weights_bytes(trained.net) if task.keep and sound else None
    return Outcome(reward if sound else 0.0, trained.images, trained.selected, weights=weights)


def make_folds(task: Task) -> list[tuple[TrainingSet, Pool]]:
    """Each labelled instance is held out once, with all of its image; the folds are the same for every candidate."""
    labelled, unlabelled, pseudo = task.data.labelled, task.data.unlabelled, task.data.pseudo
    images, image = np.unique(labelled.image, return_inverse=True)
    order = np.random.default_rng([task.config.seed, 5]).permutation(len(images))
    folds = []
    for part in np.array_split(order, task.config.reward.folds):
        held_out = np.isin(image, part)
        data = replace(task.data, labelled=labelled.take(~held_out))
        if unlabelled is not None and (beside := np.isin(unlabelled.image, images[part])).any():
            others = np.flatnonzero(~beside)
            data = replace(
                data, unlabelled=unlabelled.take(others), pseudo=None if pseudo is None else pseudo.take(others)
            )
        folds.append((data, labelled.take(held_out)))
    return folds
