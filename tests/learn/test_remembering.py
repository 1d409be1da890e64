"""Trainings that are kept for other runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.learn.course import TrainingSet
from placl.learn.network import fresh_network
from placl.learn.remembering import Remembering
from placl.learn.training import Learned, Training, Trainings
from placl.models.weights import weights_bytes

MakeConfig = Callable[..., Config]


@dataclass(frozen=True)
class Counting:
    """Trainings, counted."""

    done: list[int] = field(default_factory=list, repr=False)

    def run(self, job: Training, on_progress: Callable[[int, int], None]) -> Learned:
        self.done.append(job.seed)
        return Trainings().run(job, on_progress)


def ignore(done: int, total: int) -> None:
    pass


def test_a_training_is_done_once(tiny: MakeConfig, data: TrainingSet, tmp_path: Path) -> None:
    counting = Counting()
    task = Remembering(counting, tmp_path)
    job = Training(tiny(), data, constant(0.5, 2), 3)
    first, second = task.run(job, ignore), task.run(job, ignore)
    assert counting.done == [3]
    assert second == first
    assert first.weights == Trainings().run(job, ignore).weights


def test_what_changes_a_weight_is_another_training(tiny: MakeConfig, data: TrainingSet, tmp_path: Path) -> None:
    counting = Counting()
    task = Remembering(counting, tmp_path)
    job = Training(tiny(), data, constant(0.5, 2), 3)
    assert data.pseudo is not None
    assert data.unlabelled is not None
    others = [
        replace(job, seed=4),
        replace(job, config=tiny({"train.lr": 0.1})),
        replace(job, config=tiny({"augment.flip": 0.1})),
        replace(job, curriculum=constant(0.4, 2)),
        replace(job, data=replace(data, pseudo=replace(data.pseudo, model="another"))),
        replace(job, data=replace(data, start=weights_bytes(fresh_network(tiny(), 14, 5, torch.device("cpu"))))),
        replace(job, data=replace(data, labelled=data.labelled.take(np.arange(15)))),
    ]
    for number, other in enumerate([job, *others]):
        task.run(other, ignore)
        assert len(counting.done) == number + 1


def test_how_pseudo_labels_are_selected_matters_where_there_are_some(
    tiny: MakeConfig, data: TrainingSet, tmp_path: Path
) -> None:
    def key(of: TrainingSet, scale: str) -> str:
        return Remembering(Counting(), tmp_path)._key(Training(tiny({"select.scale": scale}), of, None, 3))

    assert key(data, "raw") != key(data, "quantile")
    alone = TrainingSet(data.labelled)
    assert key(alone, "raw") == key(alone, "quantile")


def test_weights_to_begin_with_are_known_by_their_content(tiny: MakeConfig, data: TrainingSet, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    config = tiny({"model.init": "pretrained", "model.weights": str(file)})
    keys = []
    for content in (b"one", b"another"):
        file.write_bytes(content)
        keys.append(Remembering(Counting(), tmp_path)._key(Training(config, data, None, 3)))
    assert keys[0] != keys[1]


def test_seeds_of_the_run_and_where_it_runs_are_no_matter(tiny: MakeConfig, data: TrainingSet, tmp_path: Path) -> None:
    counting = Counting()
    task = Remembering(counting, tmp_path)
    job = Training(tiny(), data, None, 3)
    task.run(job, ignore)
    task.run(replace(job, config=tiny({"search.steps": 7, "rounds.count": 1, "seed": 8})), ignore)
    assert len(counting.done) == 1


@pytest.mark.parametrize("ending", [".json", ".safetensors"])
def test_a_torn_file_is_made_again(tiny: MakeConfig, data: TrainingSet, tmp_path: Path, ending: str) -> None:
    counting = Counting()
    task = Remembering(counting, tmp_path)
    job = Training(tiny(), data, None, 3)
    first = task.run(job, ignore)
    (file,) = tmp_path.glob(f"*{ending}")
    file.write_bytes(file.read_bytes()[:40])
    assert task.run(job, ignore).weights == first.weights
    assert len(counting.done) == 2
