"""A full training as a job for an executor: what is to be trained goes in, weights come out as safetensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.learn.checkpoint import Checkpoint
from placl.learn.course import TrainingSet
from placl.learn.distributed import devices_for, inner_loop_distributed
from placl.models.weights import weights_bytes


@dataclass(frozen=True)
class Training:
    config: Config
    data: TrainingSet
    curriculum: Curriculum | None  # None where no pseudo-label takes part
    seed: int
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True)
class Learned:
    weights: bytes  # of weights_bytes
    images: int  # how many training images went through the network
    selected: tuple[float, ...]  # share of the pseudo-labels selected, per group
    diverged: bool  # the loss was not finite
    seconds: float


@dataclass(frozen=True)
class Trainings:
    """The task of full trainings: they share nothing."""

    def run(self, job: Training, on_progress: Callable[[int, int], None]) -> Learned:
        start = time.monotonic()
        trained = inner_loop_distributed(
            job.config,
            job.data,
            job.curriculum or constant(0.0),
            job.seed,
            devices=devices_for(job.config)[: job.config.train.batch],  # an image for each
            threads=job.config.execute.final_threads,
            on_epoch=lambda done, total, loss: on_progress(done, total),
            checkpoint=job.checkpoint,
        )
        weights = weights_bytes(trained.net)
        seconds = trained.earlier + time.monotonic() - start
        return Learned(weights, trained.images, trained.selected, trained.diverged, seconds)
