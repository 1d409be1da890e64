"""Training with a term on unlabelled images: what is in a batch, what it costs, and that it repeats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lessons import Told
from placl.config import Config
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.learn.course import TrainingSet, learning_rate
from placl.learn.training import Training
from placl.methods import consistency
from placl.methods.consistency import ConsistentTrainings, Seen, Term, consistent, train_consistently
from placl.methods.posecons import PoseCons
from placl.models.weights import weights_sha256
from placl.models.zoo import KeypointNet

MakeConfig = Callable[..., Config]
STILL = {f"augment.{name}": 0 for name in ("flip", "rotate", "scale", "shift", "colour", "cutout")}


class Nothing(Term):
    """Adds nothing, and keeps what it sees."""

    seen: list[Seen]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        type(self).seen = []

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        self.seen.append(seen)
        return seen.outputs.sum() * 0


@pytest.fixture
def data(problem: Problem) -> TrainingSet:
    return TrainingSet(problem.labelled, problem.unlabelled)


def trained_sha(config: Config, data: TrainingSet, term: type[Term] = PoseCons, seed: int = 5) -> str:
    return weights_sha256(train_consistently(config, data, term, seed, threads=1).net)


# --- what a term sees


def test_unlabelled_images_have_no_labels_to_give(tiny: MakeConfig, data: TrainingSet, pool: Pool) -> None:
    # The same crops with their labels still there: nothing changes.
    assert data.unlabelled is not None
    index = np.flatnonzero(np.isin(pool.rows, data.unlabelled.rows))
    leaky = replace(data, unlabelled=pool.take(index))
    assert leaky.unlabelled is not None
    assert leaky.unlabelled.labelled.all()
    assert (leaky.unlabelled.rows == data.unlabelled.rows).all()
    assert trained_sha(tiny(), leaky) == trained_sha(tiny(), data)


def test_a_term_sees_what_it_asks_for(tiny: MakeConfig, data: TrainingSet) -> None:
    class Three(Nothing):
        others = 3

    train_consistently(tiny(), data, Three, 5, threads=1)
    assert [seen.place for seen in Three.seen] == [0.0, 0.25, 0.5, 0.75]
    seen = Three.seen[0]
    assert len(seen.others) == 3
    assert seen.outputs.shape == seen.targets.shape == (8, 14, 8, 8)
    assert seen.outputs.requires_grad
    assert not seen.targets[seen.weights == 0].any()
    peaks = seen.targets.flatten(2).amax(2)
    assert (peaks[seen.weights > 0] > 0.6).all()
    matrices = [view.matrix for view in (seen.first, *seen.others)]
    assert len({matrix.numpy().tobytes() for matrix in matrices}) == 4
    for one in (seen.first, *seen.others):
        assert torch.equal(one.mirrored, torch.linalg.det(one.matrix[:, :, :2]) < 0)


# --- the loss


def test_a_weight_rises_along_its_ramp(tiny: MakeConfig, problem: Problem) -> None:
    class Ramped(Nothing):
        weight, ramp = 3.0, 0.5

    term = Ramped(tiny(), Told(), problem.labelled.skeleton, 1)
    assert term.strength(0.0) == pytest.approx(3 * np.exp(-5))
    assert term.strength(0.25) == pytest.approx(3 * np.exp(-1.25))
    assert term.strength(0.5) == term.strength(0.9) == 3.0
    assert Nothing(tiny(), Told(), problem.labelled.skeleton, 1).strength(0.0) == 1.0


def test_a_term_is_added_with_its_weight(tiny: MakeConfig, data: TrainingSet) -> None:
    class Seven(Nothing):
        weight = 2.0

        def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
            return super().loss(net, seen) + 7.0

    losses: list[float] = []
    hashes = set()
    for term in (Nothing, Seven):
        trained = train_consistently(tiny(), data, term, 5, threads=1, on_epoch=lambda *told: losses.append(told[2]))
        hashes.add(weights_sha256(trained.net))
    assert losses[2:] == pytest.approx([loss + 14.0 for loss in losses[:2]])
    assert len(hashes) == 1  # a constant has no gradient


# --- the training


def test_the_same_arguments_give_the_same_bits(tiny: MakeConfig, data: TrainingSet) -> None:
    torch.manual_seed(1)
    first = trained_sha(tiny(), data)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert trained_sha(tiny(), data) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert trained_sha(tiny(), data, seed=6) != first
    assert trained_sha(tiny(), data, Nothing) != first


def test_steps_and_images_are_those_of_other_trainings(tiny: MakeConfig, data: TrainingSet) -> None:
    trained = train_consistently(tiny(), data, Nothing, 5, threads=1)
    assert len(Nothing.seen) == 2 * 2
    assert trained.images == 2 * 2 * 8
    assert trained.selected == ()
    assert not trained.diverged
    assert not trained.net.training
    trained = train_consistently(tiny({"train.epoch": "data"}), data, Nothing, 5, threads=1)
    assert trained.images == 2 * ((16 + 24) // 8) * 8  # a pass over all images


def test_rates_are_those_of_the_schedule(tiny: MakeConfig, data: TrainingSet, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def rate(config: Config, epoch: float) -> float:
        asked.append(epoch)
        return learning_rate(config, epoch)

    monkeypatch.setattr(consistency, "learning_rate", rate)
    train_consistently(tiny(), data, Nothing, 5, threads=1)
    assert asked == [0.0, 0.5, 1.0, 1.5]


def test_without_unlabelled_images_there_is_still_a_training(tiny: MakeConfig, data: TrainingSet) -> None:
    assert data.unlabelled is not None
    none = replace(data, unlabelled=data.unlabelled.take(np.zeros(0, np.int64)))
    train_consistently(tiny(), none, Nothing, 5, threads=1)
    assert all(bool(seen.labelled.all()) for seen in Nothing.seen)


def test_a_loss_that_is_no_number_ends_the_training(tiny: MakeConfig, data: TrainingSet) -> None:
    class Broken(Nothing):
        def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
            return super().loss(net, seen) + (torch.nan if seen.place >= 0.5 else 0.0)

    trained = train_consistently(tiny({"train.epochs": 4}), data, Broken, 5, threads=1)
    assert trained.diverged
    assert trained.images == 3 * 2 * 8


def test_what_a_term_has_of_its_own_is_trained_and_what_it_gives_is_kept(tiny: MakeConfig, data: TrainingSet) -> None:
    class Owner(Nothing):
        made: Owner

        def __init__(self, config: Config, net: KeypointNet, skeleton: Any, seed: int) -> None:
            super().__init__(config, net, skeleton, seed)
            self.gain = nn.Parameter(torch.ones(()))
            Owner.made = self

        def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
            return super().loss(net, seen) + self.gain**2

        def after_step(self, net: KeypointNet) -> None:
            self.steps = getattr(self, "steps", 0) + 1

        def result(self, net: KeypointNet) -> KeypointNet:
            self.kept = net
            return net

    trained = train_consistently(tiny(), data, Owner, 5, threads=1)
    assert Owner.made.gain < 1
    assert Owner.made.steps == 4
    assert Owner.made.kept is trained.net


def test_a_group_has_its_own_pace_and_settings(tiny: MakeConfig, data: TrainingSet) -> None:
    class Slow(Nothing):
        made: Slow

        def __init__(self, config: Config, net: KeypointNet, skeleton: Any, seed: int) -> None:
            super().__init__(config, net, skeleton, seed)
            self.fast, self.slow = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
            Slow.made = self

        def groups(self, net: KeypointNet) -> list[dict[str, Any]]:
            fast = {"params": [*net.parameters(), self.fast], "pace": 1.0}
            return [fast, {"params": [self.slow], "pace": 0.01}]

        def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
            return super().loss(net, seen) - self.fast - self.slow

    train_consistently(tiny({"train.optimizer": "adam", "train.weight_decay": 0.0}), data, Slow, 5, threads=1)
    assert Slow.made.fast > 0
    assert Slow.made.slow.item() == pytest.approx(0.01 * Slow.made.fast.item())


def test_a_term_says_what_the_supervised_loss_is_of(tiny: MakeConfig, data: TrainingSet) -> None:
    class Flat(Nothing):
        def supervised(self, outputs: Tensor) -> Tensor:
            return 0.0 * outputs

    losses: list[float] = []
    config = tiny({"train.loss": "mse"})
    train_consistently(config, data, Flat, 5, threads=1, on_epoch=lambda *told: losses.append(told[2]))
    of_nothing = [(seen.weights * seen.targets.square().mean((2, 3))).sum() / seen.weights.sum() for seen in Flat.seen]
    assert losses == pytest.approx([float(sum(of_nothing[:2])) / 2, float(sum(of_nothing[2:])) / 2], rel=1e-4)


def test_labels_that_a_term_makes_are_learned_from(tiny: MakeConfig, data: TrainingSet) -> None:
    class Labels(Nothing):
        begun: list[float]

        def begin_epoch(self, net: KeypointNet, data: TrainingSet, place: float) -> None:
            Labels.begun = [*getattr(Labels, "begun", []), place]

        def labels(self) -> tuple[np.ndarray, np.ndarray] | None:
            middle = np.full((24, 14, 2), (data.labelled.crop_size - 1) / 2, np.float32)
            return middle, np.tile(np.arange(14) == 0, (24, 1)).astype(np.float32)

    train_consistently(tiny(STILL), data, Labels, 5, threads=1)
    assert Labels.begun == [0.0, 0.5]
    for seen in Labels.seen:
        assert seen.weights[~seen.labelled].tolist() == [[1.0] + [0.0] * 13] * 4
        assert (seen.keypoints[~seen.labelled][:, 0] == 15.5).all()  # the middle of 32 pixels


def test_as_a_task_and_as_a_method(tiny: MakeConfig, data: TrainingSet, make_lab: Callable[..., Any]) -> None:
    config = tiny({"method": "posecons"})
    told: list[tuple[int, int]] = []
    learned = ConsistentTrainings(PoseCons).run(Training(config, data, None, 5), lambda *done: told.append(done))
    assert told == [(1, 2), (2, 2)]
    assert learned.images == 32
    assert repr(ConsistentTrainings(PoseCons)).count("placl.methods.posecons.PoseCons") == 1  # its name among others
    method = consistent(PoseCons)
    assert method.stages(config) == {"final": config}
    stages = list(method.run(make_lab(config)))
    assert [stage.name for stage in stages] == ["final"]
    assert stages[0].curriculum is None
    assert Path(make_lab(config).run.path / "final" / "model.safetensors").exists()
