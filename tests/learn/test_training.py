"""A full training as a job: the weights of the inner loop, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.data.pool import Pool
from placl.execute.pool import PoolExecutor
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import inner_loop
from placl.learn.pseudo_labels import PseudoLabels
from placl.learn.training import Learned, Training, Trainings
from placl.models.weights import weights_sha256

MakeConfig = Callable[..., Config]


@pytest.fixture
def job(tiny: MakeConfig, pool: Pool) -> Training:
    labelled, hidden = pool.take(np.arange(16)), pool.take(np.arange(16, 40))
    pseudo = PseudoLabels(hidden.keypoints, np.linspace(0, 1, 24 * 14, dtype=np.float32).reshape(24, 14), "m")
    data = TrainingSet(labelled, hidden.without_labels(), pseudo)
    return Training(tiny({"train.epochs": 3}), data, Curriculum((0.5, 0.0)), seed=4)


def sha256(learned: Learned) -> str:
    return weights_sha256(safetensors.torch.load(learned.weights))


def test_it_is_the_inner_loop(job: Training) -> None:
    progress: list[tuple[int, int]] = []
    learned = Trainings().run(job, lambda done, total: progress.append((done, total)))
    assert job.curriculum is not None
    trained = inner_loop(job.config, job.data, job.curriculum, job.seed)
    assert sha256(learned) == weights_sha256(trained.net)
    assert (learned.images, learned.selected, learned.diverged) == (trained.images, trained.selected, False)
    assert learned.seconds > 0
    assert progress == [(1, 3), (2, 3), (3, 3)]


def test_without_a_curriculum_the_labels_alone_are_trained_on(job: Training) -> None:
    alone = replace(job, data=TrainingSet(job.data.labelled), curriculum=None)
    trained = inner_loop(job.config, alone.data, constant(0.0), job.seed)
    assert sha256(Trainings().run(alone, lambda *_: None)) == weights_sha256(trained.net)


def test_two_workers_give_what_this_process_gives(job: Training, pool: Pool, tmp_path: Path) -> None:
    np.save(tmp_path / "crops.npy", pool.crops)
    crops = np.load(tmp_path / "crops.npy", mmap_mode="r")
    assert job.data.unlabelled is not None
    data = replace(
        job.data,
        labelled=replace(job.data.labelled, crops=crops),
        unlabelled=replace(job.data.unlabelled, crops=crops),
    )
    jobs = {0: replace(job, data=data), 1: replace(job, data=TrainingSet(data.labelled), curriculum=None, seed=5)}
    done: dict[int, Learned] = {}
    executor = PoolExecutor(2)
    try:
        executor.run(Trainings(), jobs, done.__setitem__, lambda *_: None)
    finally:
        executor.close()
    assert {n: sha256(done[n]) for n in jobs} == {n: sha256(Trainings().run(jobs[n], lambda *_: None)) for n in jobs}
