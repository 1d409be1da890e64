"""A full training as a job for an executor: what is to be trained goes in, weights come out as safetensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import safetensors.torch

from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.learn.course import TrainingSet
from placl.learn.distributed import devices_for, inner_loop_distributed


@dataclass(frozen=True)
class Training:
    config: Config
    data: TrainingSet
    curriculum: Curriculum | None  # None where no pseudo-label takes part
    seed: int


@dataclass(frozen=True)
class Learned:
    weights: bytes  # safetensors: nothing is unpickled that was not made here, and no memory is shared
    images: int  # how many training images went through the network
    selected: tuple[float, ...]  # share of the pseudo-labels selected, per group
    diverged: bool  # the loss was not finite
    seconds: float


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
        )
        state = {name: tensor.cpu().contiguous() for name, tensor in trained.net.state_dict().items()}
        seconds = time.monotonic() - start
        return Learned(safetensors.torch.save(state), trained.images, trained.selected, trained.diverged, seconds)
