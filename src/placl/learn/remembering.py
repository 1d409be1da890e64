"""Trainings that several runs have in common, done once: a training is a pure function, so its result can be kept.

The runs of a study on the same labels all begin with the same network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import safetensors.torch
import torch

from placl.data.splits import fingerprint
from placl.execute.executor import Task
from placl.files import write_atomic
from placl.learn.device import pick_device, precision_on
from placl.learn.training import Learned, Training
from placl.run.journal import key_of
from placl.version import VERSION


@dataclass(frozen=True)
class Remembering:
    """Another task of trainings, whose results are kept in a folder and looked for there first."""

    task: Task[Training, Learned]
    folder: Path

    def run(self, job: Training, on_progress: Callable[[int, int], None]) -> Learned:
        place = self.folder / self._key(job)
        known = _read(place)
        if known is None:
            known = self.task.run(job, on_progress)
            _write(place, known)
        return known

    def _key(self, job: Training) -> str:
        """Everything that decides a weight."""
        config, data = job.config, job.data
        device, weights = pick_device(config.execute.device), config.model.weights
        sections = {"model", "train", "augment", "label"} | ({"select"} if data.pseudo is not None else set())
        return key_of(
            task=repr(self.task),
            settings=config.model_dump(mode="json", include=sections),
            threads=config.execute.final_threads,
            device=f"{device.type} {precision_on(config.train.precision, device)}",
            version=f"{VERSION} {torch.__version__} {cv2.__version__}",
            weights=hashlib.sha256(weights.read_bytes()).hexdigest() if weights else None,
            labelled=fingerprint(data.labelled),
            unlabelled=None if data.unlabelled is None else fingerprint(data.unlabelled),
            labels=None if data.pseudo is None else data.pseudo.model,
            curriculum=None if job.curriculum is None else job.curriculum.thresholds,
            seed=job.seed,
            **({} if data.start is None else {"start": hashlib.sha256(data.start).hexdigest()}),
        )


def _write(place: Path, learned: Learned) -> None:
    facts = {"images": learned.images, "selected": learned.selected, "seconds": learned.seconds}
    write_atomic(place.with_suffix(".safetensors"), learned.weights)
    # Last, for it is by this file that a result is found.
    write_atomic(place.with_suffix(".json"), json.dumps({**facts, "diverged": learned.diverged}))


def _read(place: Path) -> Learned | None:
    try:
        facts = json.loads(place.with_suffix(".json").read_text())
        weights = place.with_suffix(".safetensors").read_bytes()
        safetensors.torch.load(weights)  # refuses one that is not whole
        return Learned(weights, int(facts["images"]), tuple(facts["selected"]), facts["diverged"], facts["seconds"])
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
        return None
