"""Candidates as one network: what each of them would have been alone, up to float noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.learn import network as network_module
from placl.learn.candidate import Job, Outcome, Task, run_candidate
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import Trained, inner_loop, make_optimizer
from placl.learn.network import fresh_network
from placl.learn.pseudo_labels import PseudoLabels
from placl.learn.together import Stack, can_run_together, run_together, train_together
from placl.models import zoo
from placl.models.weights import weights_bytes

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")
TWENTY_STEPS = {"train.epochs": 4, "train.steps_per_epoch": 5, "train.precision": "float32"}
ADAM = {"train.optimizer": "adam", "train.loss": "mse", "train.weight_decay": 0.01}
ADAMW = {"train.optimizer": "adamw", "train.loss": "bce", "train.weight_decay": 0.1}
MUON = {"train.optimizer": "muon", "train.loss": "bce", "train.weight_decay": 0.1}
# Common random numbers for the first two; the third has other weights, batches and augmentation.
JOBS = [Job(Curriculum((0.9, 0.5)), 7), Job(Curriculum((0.1, 0.7)), 7), Job(Curriculum((0.4, 0.2)), 8)]
NOISE = 0.02  # of the way that training took the weights, in float32
EXACT = 1e-6  # in double precision
DOOMED = Job(Curriculum((0.3, 0.3)), 13)


@pytest.fixture
def make_task(tiny: MakeConfig, problem: Problem, pool: Pool) -> Callable[..., Task]:
    confidence = np.random.default_rng(0).random((12, 14), dtype=np.float32)
    data = TrainingSet(problem.labelled, problem.halves[0], PseudoLabels(pool.keypoints[16:28], confidence, "m"))
    return lambda changes: Task(tiny({**TWENTY_STEPS, **changes}), data, problem.val)


def alone(task: Task, job: Job) -> Trained:
    return inner_loop(task.config, task.data, job.curriculum, job.seed)


def state(net: nn.Module) -> Tensor:
    """All weights and statistics in a row."""
    return torch.cat([tensor.detach().double().flatten() for tensor in net.state_dict().values()])


def distance(one: Trained, other: Trained, task: Task, seed: int) -> float:
    """Between the weights of two trained networks, over the way that training took the second."""
    nets = (one.net, other.net, fresh_network(task.config, 14, seed, CPU))
    found, wanted, begun = (torch.cat([p.detach().flatten() for p in net.parameters()]) for net in nets)
    return float((found - wanted).norm() / (wanted - begun).norm())


def assert_same(found: Outcome, wanted: Outcome) -> None:
    assert found.reward == pytest.approx(wanted.reward, abs=1.0)  # 3 of 280 keypoints may lie on the edge
    assert (found.images, found.selected) == (wanted.images, wanted.selected)


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    """In double precision. In float32, noise of 1e-7 throws an activation over zero on some CPUs, and grows."""

    def make(config: Config, keypoints: int, seed: int, device: torch.device) -> zoo.KeypointNet:
        net = fresh_network(config, keypoints, seed, device).double()
        net.register_forward_pre_hook(lambda net, given: (given[0].double(),))
        return net

    monkeypatch.setattr(network_module, "fresh_network", make)


# --- the same results


def test_networks_that_the_data_brings(make_task: Callable[..., Task]) -> None:
    task = make_task(ADAMW)
    task = replace(task, data=replace(task.data, start=weights_bytes(fresh_network(task.config, 14, 3, CPU))))
    for found, job in zip(train_together(task.config, task.data, JOBS), JOBS, strict=True):
        assert distance(found, alone(task, job), task, 3) < NOISE


@pytest.mark.parametrize("changes", [ADAM, ADAMW, MUON], ids=["adam", "adamw", "muon"])
def test_a_stack_is_its_networks_to_the_last_digits_of_double_precision(tiny: MakeConfig, changes: Any) -> None:
    """In float32, Adam makes steps out of the noise of gradients that are nearly 0; here the noise is 1e-16."""
    config = tiny(changes)
    nets, separate = ([fresh_network(config, 3, seed, CPU).double() for seed in (1, 2, 3)] for _ in range(2))
    optimizers = [make_optimizer(net, config) for net in separate]
    stack, rows = Stack(nets, config), [0, 1, 2]
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        if step == 3:  # the second leaves
            stack.write(1, nets[1])
            stack.keep([0, 2])
            rows = [0, 2]
        images = torch.rand(len(rows), 4, 3, 32, 32, generator=generator, dtype=torch.float64)
        stack.step(stack(images).square().sum(), 0.01)
        for row, batch in zip(rows, images, strict=True):
            optimizers[row].param_groups[0]["lr"] = 0.01
            optimizers[row].zero_grad()
            torch.autograd.backward(separate[row](batch).square().sum())
            optimizers[row].step()
    for place, row in enumerate(rows):
        stack.write(place, nets[row])
    for net, wanted in zip(nets, separate, strict=True):
        torch.testing.assert_close(net.state_dict(), wanted.state_dict(), rtol=1e-7, atol=1e-9)
    steps = [int(net.get_buffer("stem.1.num_batches_tracked")) for net in nets]
    assert steps == [6, 3, 6]


@pytest.mark.usefixtures("double")
def test_networks_are_what_each_would_be_alone(make_task: Callable[..., Task]) -> None:
    task = make_task(ADAMW)
    found = train_together(task.config, task.data, JOBS)
    for one, job in zip(found, JOBS, strict=True):
        wanted = alone(task, job)
        assert distance(one, wanted, task, job.seed) < EXACT
        assert (one.images, one.selected, one.diverged) == (20 * 8, wanted.selected, False)
        assert not one.net.training
        for name, statistic in one.net.named_buffers():
            torch.testing.assert_close(statistic, wanted.net.get_buffer(name), rtol=1e-6, atol=1e-7)
    assert distance(found[0], found[1], task, 7) > 0.1  # what a curriculum changes is much more


def test_outcomes_are_those_of_candidates(make_task: Callable[..., Task]) -> None:
    task = make_task(ADAMW)
    progress: list[tuple[int, int]] = []
    found = run_together(task, JOBS, lambda done, total: progress.append((done, total)))
    assert progress == [(n, 4) for n in (1, 2, 3, 4)]
    for outcome, job in zip(found, JOBS, strict=True):
        assert_same(outcome, run_candidate(task, job.curriculum, job.seed))
    assert len({outcome.selected for outcome in found}) == 3


def test_networks_are_kept_where_a_search_may_want_them(make_task: Callable[..., Task]) -> None:
    task = replace(make_task(ADAMW), keep=True)
    found = task.run_many(JOBS[:2], lambda done, total: None)
    nets = [one.net for one in train_together(task.config, task.data, JOBS[:2])]
    assert [outcome.weights for outcome in found] == [weights_bytes(net) for net in nets]
    assert found[0].seconds == found[1].seconds > 0
    assert all(outcome.weights is None for outcome in run_together(make_task(ADAMW), JOBS[:2]))


def test_folds_go_one_after_the_other(make_task: Callable[..., Task]) -> None:
    task = make_task({"reward.source": "folds", "reward.folds": 2, "train.epochs": 2})
    progress: list[tuple[int, int]] = []
    found = run_together(task, JOBS, lambda done, total: progress.append((done, total)))
    assert progress == [(n, 4) for n in (1, 2, 3, 4)]
    for outcome, job in zip(found, JOBS, strict=True):
        assert_same(outcome, run_candidate(task, job.curriculum, job.seed))


def test_the_same_candidates_together_have_the_same_bits(make_task: Callable[..., Task]) -> None:
    task = make_task({"train.epochs": 2})
    one, other = (train_together(task.config, task.data, JOBS) for _ in range(2))
    assert all(torch.equal(state(a.net), state(b.net)) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("changes", "epochs"), [({}, 4), ({"train.epoch": "data", "train.epochs": 2}, 6)], ids=["together", "in turn"]
)
def test_a_task_takes_several_jobs(make_task: Callable[..., Task], changes: dict[str, Any], epochs: int) -> None:
    task = make_task(changes)
    progress: list[tuple[int, int]] = []
    found = task.run_many(JOBS, lambda done, total: progress.append((done, total)))
    assert progress == [(n, epochs) for n in range(1, epochs + 1)]
    for outcome, job in zip(found, JOBS, strict=True):
        assert_same(outcome, run_candidate(task, job.curriculum, job.seed))


# --- one that diverges


@pytest.fixture
def doomed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of one seed begins where its loss is no number."""
    fresh = network_module.fresh_network

    def make(config: Config, keypoints: int, seed: int, device: torch.device) -> zoo.KeypointNet:
        net = fresh(config, keypoints, seed, device)
        if seed == DOOMED.seed:
            nn.init.constant_(net.get_parameter("final_layer.bias"), float("nan"))
        return net

    monkeypatch.setattr(network_module, "fresh_network", make)


@pytest.mark.usefixtures("double", "doomed")
def test_one_that_diverges_ends_and_leaves_the_others_alone(make_task: Callable[..., Task]) -> None:
    task = make_task({**ADAMW, "train.steps_per_epoch": 3})
    jobs = [DOOMED, *JOBS[:2]]
    first, *others = train_together(task.config, task.data, jobs)
    assert first.diverged
    assert (first.images, first.selected) == (3 * 8, alone(task, DOOMED).selected)  # one epoch, one group
    for one, job in zip(others, JOBS, strict=False):
        assert not one.diverged
        assert one.images == 12 * 8
        assert distance(one, alone(task, job), task, job.seed) < EXACT
    wanted = run_candidate(task, DOOMED.curriculum, DOOMED.seed)
    assert run_together(task, jobs)[0] == wanted


@pytest.mark.usefixtures("doomed")
def test_all_may_diverge(make_task: Callable[..., Task]) -> None:
    task = make_task({})
    progress: list[tuple[int, int]] = []
    found = run_together(task, [DOOMED, DOOMED], lambda done, total: progress.append((done, total)))
    assert [outcome.images for outcome in found] == [40, 40]
    assert progress == [(1, 4)]


# --- what can go together


class Dropping(zoo.KeypointNet):
    """A network with dropout, whose masks would not be those of networks alone."""

    stride = 4

    def __init__(self, keypoints: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, keypoints, kernel_size=4, stride=4), nn.Dropout(0.5))

    def forward(self, images: Tensor) -> Tensor:
        heatmaps: Tensor = self.layers(images)
        return heatmaps


@pytest.fixture
def dropping() -> Iterator[str]:
    zoo.register("dropping")(lambda spec: Dropping(spec.keypoints))
    yield "dropping"
    del zoo._REGISTRY["dropping"]


def able(config: Config) -> bool:
    return can_run_together(config, fresh_network(config, 14, 0, CPU))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # attention: right, but one network at a time
@pytest.mark.parametrize(
    "model",
    [
        {"model.name": "tiny"},
        {"model.name": "hrnet_w18", "model.width": 1},
        {"model.name": "simple_baseline", "model.width": 1, "model.backbone": "resnet18"},
        {"model.name": "simple_baseline", "model.width": 1, "model.backbone": "vit_tiny_patch16_224"},
    ],
    ids=lambda model: model.get("model.backbone", model["model.name"]),
)
def test_networks_of_the_zoo_go_together(tiny: MakeConfig, model: dict[str, Any]) -> None:
    assert able(tiny({**model, "train.precision": "float32"}))


def test_what_is_random_goes_alone(tiny: MakeConfig, dropping: str, one_conv: str) -> None:
    assert not able(tiny({"model.name": dropping, "model.width": 1, "train.precision": "float32"}))
    assert able(tiny({"model.name": one_conv, "model.width": 1, "train.precision": "float32"}))


def test_convolutions_that_autocast_does_not_reach_go_alone(tiny: MakeConfig) -> None:
    assert not able(tiny({"train.precision": "bfloat16"}))


def test_trying_a_network_leaves_it_as_it_was(tiny: MakeConfig) -> None:
    config = tiny({"train.precision": "float32"})
    net = fresh_network(config, 14, 0, CPU).eval()
    before = state(net)
    assert can_run_together(config, net)
    assert torch.equal(state(net), before)
    assert not net.training
    assert all(parameter.grad is None for parameter in net.parameters())


def test_epochs_of_different_lengths_go_alone(make_task: Callable[..., Task]) -> None:
    task = make_task({"train.epoch": "data", "train.batch": 4, "select.level": "instance"})
    assert not able(task.config)
    with pytest.raises(ValueError, match=r"as many steps each, not \[5, 6\]"):
        run_together(task, [replace(JOBS[0], curriculum=Curriculum((t,))) for t in (0.7, 0.2)])
