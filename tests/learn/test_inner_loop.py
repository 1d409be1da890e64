"""Algorithm 1: a pure function of its arguments, trained on what is selected and on nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from placl import config as configuration
from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.data.synthetic import animals
from placl.learn.course import TrainingSet
from placl.learn.device import pick_device, thread_count
from placl.learn.inner_loop import inner_loop
from placl.learn.network import fresh_network
from placl.models import zoo
from placl.models.weights import weights_bytes, weights_sha256
from placl.models.zoo import KeypointNet

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")


def trained_sha(config: Config, data: TrainingSet, curriculum: Curriculum, seed: int = 1) -> str:
    return weights_sha256(inner_loop(config, data, curriculum, seed).net)


def with_pseudo(data: TrainingSet, **changes: np.ndarray) -> TrainingSet:
    assert data.pseudo is not None
    return replace(data, pseudo=replace(data.pseudo, **changes))


# --- purity


def test_the_same_arguments_give_the_same_bits(tiny: MakeConfig, data: TrainingSet) -> None:
    config, curriculum = tiny(), Curriculum((0.5, 0.2))
    torch.manual_seed(1)
    first = trained_sha(config, data, curriculum)
    torch.manual_seed(2)  # whatever the global generators hold
    np.random.default_rng(3)
    assert trained_sha(config, data, curriculum) == first
    assert trained_sha(config, data, curriculum, seed=2) != first
    assert trained_sha(config, data, Curriculum((0.5, 0.7))) != first


def test_a_network_that_the_data_brings_is_gone_on_with(tiny: MakeConfig, data: TrainingSet) -> None:
    begun = fresh_network(tiny(), 14, 5, CPU)
    data = replace(data, start=weights_bytes(begun))
    still = inner_loop(tiny({"train.lr": 1e-12, "train.weight_decay": 0.0}), data, constant(0.5, 2), 1).net
    for name, parameter in begun.named_parameters():
        torch.testing.assert_close(still.get_parameter(name), parameter, rtol=0, atol=1e-9)
    curriculum = constant(0.5, 2)
    assert trained_sha(tiny(), data, curriculum) != trained_sha(tiny(), replace(data, start=None), curriculum)


def test_a_fresh_network_leaves_the_global_generator_alone(tiny: MakeConfig) -> None:
    before = torch.get_rng_state()
    one, same, other = (weights_sha256(fresh_network(tiny(), 14, seed, CPU)) for seed in (1, 1, 2))
    assert one == same != other
    assert torch.equal(torch.get_rng_state(), before)


def test_the_thread_count_is_put_back() -> None:
    before = torch.get_num_threads()
    found = []

    def fail() -> None:
        with thread_count(before + 1):
            found.append(torch.get_num_threads())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert found == [before + 1]
    assert torch.get_num_threads() == before


# --- what is trained on


def test_what_is_not_selected_has_no_influence(tiny: MakeConfig, data: TrainingSet, pool: Pool) -> None:
    # At a threshold of 1 nothing is selected: neither pseudo-labels nor unlabelled images can matter.
    config = tiny()
    reference = trained_sha(config, data, constant(1.0))
    assert data.pseudo is not None
    assert data.unlabelled is not None
    wrong = with_pseudo(data, keypoints=data.pseudo.keypoints[::-1] + 3, confidence=1 - data.pseudo.confidence)
    others = replace(data, unlabelled=pool.take(np.arange(40, 60)).without_labels())
    assert trained_sha(config, wrong, constant(1.0)) == reference
    assert trained_sha(config, others, constant(1.0)) == reference
    assert trained_sha(config, wrong, constant(0.0)) != trained_sha(config, data, constant(0.0))


def test_at_a_threshold_of_one_the_labelled_set_is_what_there_is(tiny: MakeConfig, data: TrainingSet) -> None:
    # The batches need not be those of a training without pseudo-labels, but as many images go through.
    config = tiny({"train.epoch": "data"})
    none = inner_loop(config, data, constant(1.0), 1)
    alone = inner_loop(config, TrainingSet(data.labelled), constant(1.0), 1)
    assert none.images == alone.images == 2 * 16
    assert none.selected == (0.0,)
    assert alone.selected == (0.0,)


def test_unselected_keypoints_of_a_selected_instance_have_no_influence(tiny: MakeConfig, data: TrainingSet) -> None:
    config, curriculum = tiny({"select.level": "keypoint", "select.scale": "raw"}), constant(0.5)
    reference = trained_sha(config, data, curriculum)
    assert data.pseudo is not None
    for first, same in ((1, True), (0, False)):  # odd keypoints are unsure everywhere, even ones sure in ten instances
        keypoints = data.pseudo.keypoints.copy()
        keypoints[:, first::2] += 5
        assert (trained_sha(config, with_pseudo(data, keypoints=keypoints), curriculum) == reference) is same


def test_shares_are_those_of_the_groups(tiny: MakeConfig, data: TrainingSet) -> None:
    config = tiny({"select.level": "keypoint", "select.scale": "raw"})
    trained = inner_loop(config, data, Curriculum((0.5, 0.0)), 1)
    assert trained.selected == (0.25, 1.0)  # half the keypoints of half the instances, then all
    whole = inner_loop(tiny({"select.level": "instance", "select.scale": "raw"}), data, Curriculum((0.4, 0.6)), 1)
    assert whole.selected == (0.5, 0.0)  # the sure ones' mean is 0.5


def test_an_epoch_is_a_pass_over_what_is_selected_or_a_number_of_steps(tiny: MakeConfig, data: TrainingSet) -> None:
    config = {"train.batch": 4, "select.level": "instance", "select.scale": "raw"}
    curriculum = Curriculum((0.4, 1.0))  # 16 + 10 instances, then 16
    assert inner_loop(tiny({**config, "train.epoch": "data"}), data, curriculum, 1).images == 4 * (26 // 4 + 16 // 4)
    assert inner_loop(tiny(config), data, curriculum, 1).images == 4 * 2 * 2


def test_an_empty_half_is_like_none(tiny: MakeConfig, data: TrainingSet) -> None:
    assert data.unlabelled is not None
    assert data.pseudo is not None
    nobody = np.zeros(0, np.int64)
    empty = TrainingSet(data.labelled, data.unlabelled.take(nobody), data.pseudo.take(nobody))
    assert trained_sha(tiny(), empty, constant(0.5)) == trained_sha(tiny(), TrainingSet(data.labelled), constant(0.5))


def test_invisible_keypoints_have_no_influence(tiny: MakeConfig, data: TrainingSet) -> None:
    hidden = data.labelled.visibility.copy()
    hidden[:, 3] = 0
    keypoints = data.labelled.keypoints.copy()
    keypoints[:, 3] = np.nan
    one, other = (
        TrainingSet(replace(data.labelled, visibility=hidden, keypoints=places))
        for places in (data.labelled.keypoints, keypoints)
    )
    assert trained_sha(tiny(), one, constant(0.0)) == trained_sha(tiny(), other, constant(0.0))


# --- it learns


def test_thirty_steps_on_animals_lower_the_loss(tiny: MakeConfig, data: TrainingSet) -> None:
    losses: list[float] = []
    calls: list[tuple[int, int]] = []

    def on_epoch(done: int, total: int, loss: float) -> None:
        calls.append((done, total))
        losses.append(loss)

    # Of the cross-entropy with soft targets a part can never go away; the squared error has no such floor.
    still = {f"augment.{name}": 0 for name in ("flip", "rotate", "scale", "shift", "colour", "cutout")}
    config = tiny({**still, "train.epochs": 6, "train.steps_per_epoch": 5, "train.lr": 0.004, "train.loss": "mse"})
    trained = inner_loop(config, data, constant(1.0), 1, on_epoch=on_epoch)
    assert calls == [(n, 6) for n in range(1, 7)]
    assert losses[-1] < 0.7 * losses[0]
    assert not trained.diverged
    assert trained.images == 30 * 8
    assert not trained.net.training


def test_a_loss_that_is_no_number_ends_the_training(tiny: MakeConfig, data: TrainingSet) -> None:
    config = tiny({"train.lr": 1e9, "train.loss": "mse", "train.epochs": 40, "train.optimizer": "adam"})
    trained = inner_loop(config, data, constant(1.0), 1)
    assert trained.diverged
    assert trained.images < 40 * 2 * 8


def test_devices() -> None:
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


# --- the paper's networks


# timm starts the residual branches of a ResNet at zero: what is inside them moves from the second step on.
@pytest.mark.parametrize(("name", "millions", "moving"), [("hrnet_w32", 28.5, 0.9), ("resnet50", 34.0, 0.3)])
def test_the_papers_networks_take_one_real_step(name: str, millions: float, moving: float) -> None:
    step = {"train.epochs": 1, "train.epoch": "steps", "train.steps_per_epoch": 1, "train.batch": 2}
    config = configuration.load(None, {"preset": "paper", "model.name": name, "execute.device": "cpu", **step})
    assert config.model.input_size == 256
    data = TrainingSet(animals(2, 0, size=256))
    losses: list[float] = []
    before = fresh_network(config, 14, 1, CPU)
    parameters = sum(p.numel() for p in before.parameters())
    assert round(parameters / 1e6, 1) == millions
    trained = inner_loop(config, data, constant(0.0), 1, on_epoch=lambda done, total, loss: losses.append(loss))
    assert np.isfinite(losses).all()
    assert losses[0] > 0
    changed = [not torch.equal(a, b) for a, b in zip(before.parameters(), trained.net.parameters(), strict=True)]
    assert np.mean(changed) > moving
    assert heatmap_side(trained.net) == 64


def heatmap_side(net: KeypointNet) -> int:
    with torch.inference_mode():
        heatmaps = net(torch.zeros(1, 3, 256, 256))
    assert heatmaps.shape[:2] == (1, 14)
    assert heatmaps.shape[2] == heatmaps.shape[3]
    return int(heatmaps.shape[3])


def test_dropout_draws_from_the_seed_too(tiny: Callable[..., Config], problem: Problem) -> None:
    class Forgetful(zoo.KeypointNet):
        stride = 4

        def __init__(self, keypoints: int) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, keypoints, 4, 4), torch.nn.Dropout(0.5))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            heatmaps: torch.Tensor = self.layers(images)
            return heatmaps

    zoo.register("forgetful")(lambda spec: Forgetful(spec.keypoints))
    try:
        config = tiny({"model.name": "forgetful", "model.width": 1.0})
        data = TrainingSet(problem.labelled)
        torch.manual_seed(1)
        first = weights_sha256(inner_loop(config, data, constant(0.0), 7).net)
        torch.manual_seed(2)
        before = torch.get_rng_state()
        assert weights_sha256(inner_loop(config, data, constant(0.0), 7).net) == first
        assert torch.equal(torch.get_rng_state(), before)
    finally:
        zoo._REGISTRY.pop("forgetful")
