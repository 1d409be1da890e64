"""One training on several devices: what one device would have learned, and no process that waits for ever.

Ranks are CPU processes here, and all but the first test's are forks of one that has imported torch already.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.data.pool import Pool
from placl.errors import InputError, MachineError
from placl.learn import distributed
from placl.learn.course import TrainingSet
from placl.learn.device import pick_device
from placl.learn.distributed import (
    _mapped,
    _Order,
    _run_ranks,
    devices_for,
    devices_of_candidate,
    inner_loop_distributed,
    with_whole_batches,
)
from placl.learn.inner_loop import inner_loop
from placl.learn.label import PseudoLabels
from placl.learn.network import fresh_network
from placl.models import zoo
from placl.models.weights import weights_bytes, weights_sha256

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")
TOY, BREAKING = "toy_for_ranks", "toy_that_breaks_in_rank_1"
IMPORT = "__import__('placl.curriculum.curriculum', fromlist=['_'])"


class Toy(zoo.KeypointNet):
    """No BatchNorm, so that ranks need not differ from one process; and a parameter that nothing depends on."""

    stride = 4

    def __init__(self, keypoints: int, breaks: bool = False) -> None:
        super().__init__()
        self.breaks = breaks
        self.body = nn.Conv2d(3, 8, kernel_size=4, stride=4)
        self.head = nn.Conv2d(8, keypoints, kernel_size=1)
        self.spare = nn.Linear(2, 2)

    def forward(self, images: Tensor) -> Tensor:
        heatmaps: Tensor = self.head(torch.tanh(self.body(images)))
        at_rank_1 = multiprocessing.current_process().name == "placl-rank-1"
        return heatmaps * torch.nan if self.breaks and self.training and at_rank_1 else heatmaps


def register_toy() -> None:
    zoo.register(TOY)(lambda spec: Toy(spec.keypoints))
    zoo.register(BREAKING)(lambda spec: Toy(spec.keypoints, breaks=True))


@dataclass(frozen=True)
class Announcing(Curriculum):
    """The process that receives it can build the toy by its name."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By the file's path: ranks cannot import tests by name.
        register = f"__import__('runpy').run_path({__file__!r})['register_toy']()"
        return eval, (f"{register} or {IMPORT}.Curriculum({self.thresholds!r})",)


class Buggy(Curriculum):
    """Rank 1 fails on it, rank 0 does not."""

    def __reduce__(self) -> tuple[Any, ...]:
        at_rank_1 = "1 / (__import__('multiprocessing').current_process().name != 'placl-rank-1')"
        return eval, (f"{at_rank_1} and {IMPORT}.Curriculum({self.thresholds!r})",)


@pytest.fixture
def toy() -> Iterator[dict[str, Any]]:
    register_toy()
    yield {"model.name": TOY, "model.width": 1.0}
    del zoo._REGISTRY[TOY], zoo._REGISTRY[BREAKING]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that start within a blink."""
    multiprocessing.set_forkserver_preload(["placl.learn.distributed", "torch._dynamo"])  # DDP imports the second
    monkeypatch.setattr(distributed, "START", "forkserver")


@pytest.fixture
def data(pool: Pool) -> TrainingSet:
    labelled, hidden = pool.take(np.arange(16)), pool.take(np.arange(16, 40))
    pseudo = PseudoLabels(hidden.keypoints, np.linspace(0, 1, 24 * 14, dtype=np.float32).reshape(24, 14), "m")
    return TrainingSet(labelled, hidden.without_labels(), pseudo)


def ranks_alive() -> list[str]:
    return sorted(child.name for child in multiprocessing.active_children() if child.name.startswith("placl-rank"))


# --- what is learned


@pytest.mark.parametrize("begins", ["afresh", "with what the data brings"])
def test_two_ranks_learn_what_one_process_learns(
    tiny: MakeConfig, toy: dict[str, Any], data: TrainingSet, begins: str
) -> None:
    # 9 images: one rank has 5 of them and the other 4, with different numbers of visible keypoints.
    settings = {"train.batch": 9, "train.epochs": 4, "train.steps_per_epoch": 5, "train.lr": 0.01}
    # Adam divides by the length of gradients; a decay within them makes it notice a wrong factor.
    decay = {"train.optimizer": "adam", "train.weight_decay": 0.03}
    config, curriculum = tiny({**toy, **settings, **decay}), Announcing((0.3, 0.6))
    fresh = fresh_network(config, 14, 3, CPU)
    if begins != "afresh":
        fresh = fresh_network(config, 14, 8, CPU)
        data = replace(data, start=weights_bytes(fresh))
    heard: dict[str, list[tuple[int, int, float]]] = {"alone": [], "ranks": []}
    alone = inner_loop(config, data, curriculum, 3, on_epoch=lambda *epoch: heard["alone"].append(epoch))
    ranks = inner_loop_distributed(
        config, data, curriculum, 3, devices=[CPU, CPU], on_epoch=lambda *epoch: heard["ranks"].append(epoch)
    )
    begun, expected, found = (net.state_dict() for net in (fresh, alone.net, ranks.net))
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=1e-4, atol=1e-6, err_msg=name)
    assert not torch.allclose(begun["body.weight"], expected["body.weight"], rtol=0.1)
    assert torch.equal(found["spare.weight"], begun["spare.weight"])  # no decay either
    np.testing.assert_allclose(heard["ranks"], heard["alone"], rtol=1e-5)
    assert (ranks.images, ranks.selected, ranks.diverged) == (alone.images, alone.selected, False)
    assert not ranks.net.training
    assert ranks_alive() == []


def test_with_batchnorm_ranks_learn_and_agree(tiny: MakeConfig, data: TrainingSet, tmp_path: Path, quick: None) -> None:
    still = {f"augment.{name}": 0 for name in ("flip", "rotate", "scale", "shift", "colour", "cutout")}
    config = tiny({**still, "train.epochs": 5, "train.steps_per_epoch": 4, "train.lr": 0.004, "train.loss": "mse"})
    mapped = _mapped(data, str(tmp_path))
    shas = set()
    for attempt in range(2):
        losses: list[float] = []
        order = _Order(config, mapped, constant(0.5), 1, (CPU, CPU), 1, str(tmp_path / f"meeting_{attempt}"))
        answers = _run_ranks(order, lambda done, total, loss, losses=losses: losses.append(loss))
        assert losses[-1] < 0.8 * losses[0]
        assert [answer.images for answer in answers] == [5 * 4 * 8] * 2
        assert len(answers[0].weights) > 0 == len(answers[1].weights)
        shas |= {answer.sha256 for answer in answers}
    assert len(shas) == 1  # of both ranks, running statistics and all, for the second time, too


def test_ranks_agree_that_the_loss_is_no_number(
    tiny: MakeConfig, toy: dict[str, Any], data: TrainingSet, quick: None
) -> None:
    # Rank 1's loss is no number in the only step of the first epoch, when rank 0's still is one.
    config = tiny({**toy, "model.name": BREAKING, "train.steps_per_epoch": 1, "train.epochs": 30})
    heard: list[float] = []
    trained = inner_loop_distributed(
        config, data, Announcing((0.0,)), 1, devices=[CPU, CPU], on_epoch=lambda *epoch: heard.append(epoch[2])
    )
    assert trained.diverged
    assert np.isfinite(heard).tolist() == [False]
    assert trained.images == 8


# --- trouble


@pytest.mark.parametrize("number", [0, 1])
def test_a_rank_that_is_killed_ends_the_training(tiny: MakeConfig, data: TrainingSet, quick: None, number: int) -> None:
    killed: list[float] = []

    def kill(done: int, total: int, loss: float) -> None:
        if not killed:
            (rank,) = (c for c in multiprocessing.active_children() if c.name == f"placl-rank-{number}")
            assert rank.pid is not None
            os.kill(rank.pid, signal.SIGKILL)
            killed.append(time.monotonic())

    config = tiny({"train.epochs": 100_000})
    with pytest.raises(MachineError, match=rf"^process {number + 1} of the 2 of one training died \(exit .*[^\n]$"):
        inner_loop_distributed(config, data, constant(0.5), 1, devices=[CPU, CPU], on_epoch=kill)
    assert time.monotonic() - killed[0] < 5
    assert ranks_alive() == []


def test_errors_of_ranks_come_back(tiny: MakeConfig, data: TrainingSet, quick: None) -> None:
    with pytest.raises(InputError, match=r'no such network\. Did you mean "tiny"'):
        inner_loop_distributed(tiny({"model.name": "tinny"}), data, constant(0.5), 1, devices=[CPU, CPU])
    with pytest.raises(RuntimeError, match=r"(?s)failed in one of its 2 processes:\nTraceback.*ZeroDivisionError"):
        inner_loop_distributed(tiny(), data, Buggy((0.0,)), 1, devices=[CPU, CPU])  # rank 0 waits for rank 1
    assert ranks_alive() == []


def test_whoever_listens_may_end_the_training(tiny: MakeConfig, data: TrainingSet, quick: None) -> None:
    def enough(done: int, total: int, loss: float) -> None:
        assert ranks_alive() == ["placl-rank-0", "placl-rank-1"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inner_loop_distributed(tiny({"train.epochs": 9}), data, constant(0.5), 1, devices=[CPU, CPU], on_epoch=enough)
    assert ranks_alive() == []


def test_ranks_do_not_outlive_who_started_them(
    tiny: MakeConfig, data: TrainingSet, tmp_path: Path, quick: None
) -> None:
    endless = tiny({"train.steps_per_epoch": 1_000_000})  # an epoch's end would tell rank 0 that nobody listens
    order = _Order(endless, _mapped(data, str(tmp_path)), constant(0.5), 1, (CPU, CPU), 1, str(tmp_path / "meeting"))
    # The ranks inherit its end of the line, so the line is dead when all of them are.
    script = (
        "import time; from placl.learn import distributed; distributed.START = 'fork'\n"
        "distributed._listen = lambda crew, _: [link.send(len(crew)), time.sleep(60)]\n"
        "distributed._run_ranks(order, None)"
    )
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    starter = context.Process(target=exec, args=(script, {"order": order, "link": theirs}))
    starter.start()
    theirs.close()
    assert ours.recv() == 2
    starter.kill()
    assert ours.poll(timeout=20)
    with pytest.raises(EOFError):
        ours.recv()


@pytest.mark.parametrize("devices", [3, 0])
def test_every_rank_needs_an_image(tiny: MakeConfig, data: TrainingSet, devices: int) -> None:
    with pytest.raises(InputError, match=rf"^train\.batch=2 cannot be shared by {devices} devices"):
        inner_loop_distributed(tiny({"train.batch": 2}), data, constant(0.5), 1, devices=[CPU] * devices)


# --- devices


def test_one_device_needs_no_other_process(tiny: MakeConfig, data: TrainingSet) -> None:
    processes: set[int] = set()
    config = tiny()
    trained = inner_loop_distributed(
        config, data, constant(0.5), 1, devices=devices_for(config), on_epoch=lambda *_: processes.add(os.getpid())
    )
    assert processes == {os.getpid()}
    assert weights_sha256(trained.net) == weights_sha256(inner_loop(config, data, constant(0.5), 1).net)


def test_all_gpus_that_are_visible(tiny: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert devices_for(tiny({"execute.device": "cpu"})) == [CPU]
    assert devices_for(tiny({"execute.device": "auto"})) == [torch.device("cuda", n) for n in range(3)]
    on_ray = {"execute.device": "auto", "execute.where": "ray"}
    assert devices_of_candidate(tiny({**on_ray, "ray.gpus_per_candidate": 3})) == devices_for(tiny(on_ray))
    for config in (tiny(on_ray), tiny({"execute.device": "auto", "ray.gpus_per_candidate": 3})):
        assert devices_of_candidate(config) == [pick_device("auto")]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert devices_for(tiny({"execute.device": "cuda"})) == [torch.device("cuda")]


def test_batchnorm_over_all_gpus_keeps_names_and_activations() -> None:
    net = zoo.create("simple_baseline_efficientnet_b0", 3)
    before, acts = net.state_dict(), [m.act for m in net.modules() if hasattr(m, "act")]
    found = with_whole_batches(net)
    assert found is net
    assert not [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    assert [m.act for m in net.modules() if hasattr(m, "act")] == acts
    assert {name: tensor.data_ptr() for name, tensor in net.state_dict().items()} == {
        name: tensor.data_ptr() for name, tensor in before.items()
    }
