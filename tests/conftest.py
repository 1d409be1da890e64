"""What many tests share: one CPU thread, a configuration that trains in a blink, animals of 32 px, a toy network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dots import dot_network, write_dot_model, write_dots
from placl import config as configuration
from placl.config import Config
from placl.data.load import Dataset
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.data.synthetic import animals
from placl.execute.executor import Executor
from placl.execute.serial import SerialExecutor
from placl.lab import Lab, Meter
from placl.models import zoo
from placl.rounds import stage_configs
from placl.run.folder import RunFolder
from placl.watch import Silent, Watch

pytest_plugins = ["browsing"]

MakeConfig = Callable[..., Config]
MakeLab = Callable[..., Lab]

TINY: dict[str, Any] = {
    "model.input_size": 32,
    "model.width": 0.5,
    "augment.cutout": 1,
    "train.epochs": 2,
    "train.epoch": "steps",
    "train.steps_per_epoch": 2,
    "train.batch": 8,
    "train.optimizer": "adamw",
    "train.lr": 0.002,
    "train.sigma": 1.0,
    "train.labelled_share": 0.5,
    "teacher.input_size": None,
    "teacher.first_batch": None,
    "teacher.first_augment": None,
    "search.searcher": "ppo2",
    "search.initial": 0.3,
    "search.rise": 0.0,
    "search.group_size": 1,
    "search.steps": 2,
    "search.samples": 2,
    "search.updates": 5,
    "proxy.val_images": None,
    "proxy.epochs": None,
    "proxy.steps_per_epoch": None,
    "rounds.count": 2,
    "rounds.finish": "both",
    "rounds.keep": "last",
    # Fresh networks are sure of nothing: on ranks, thresholds select something all the same.
    "select.scale": "quantile",
    "execute.where": "serial",
    "execute.threads": 1,
    "execute.final_threads": 1,
    "execute.device": "cpu",
}


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> MakeConfig:
    """``tiny({"train.lr": 0.1})``: a configuration of 2 epochs of 2 steps, with overrides."""

    def make(overrides: dict[str, Any] | None = None) -> Config:
        return configuration.load(None, {**TINY, **(overrides or {})})

    return make


@pytest.fixture(scope="session")
def pool() -> Pool:
    """60 animals with labels."""
    return animals(60, 0, size=32)


@pytest.fixture(scope="session")
def dataset(pool: Pool) -> Dataset:
    """40 labelled (of which configurations use a part), 10 for validation and 10 for the test."""
    return Dataset(pool, np.repeat(["labelled", "val", "test"], [40, 10, 10]), ())


@pytest.fixture(scope="session")
def problem(pool: Pool) -> Problem:
    """16 labelled instances, two halves of 12 without labels, 20 for validation."""
    part = [pool.take(index) for index in np.split(np.arange(60), [16, 28, 40])]
    return Problem(part[0], (part[1].without_labels(), part[2].without_labels()), part[3])


@pytest.fixture
def make_lab(problem: Problem, tmp_path: Path) -> MakeLab:
    def make(
        config: Config,
        out: str = "run",
        executor: Executor | None = None,
        watch: Watch | None = None,
        on: Problem | None = None,
    ) -> Lab:
        given, watch = on or problem, watch or Silent()
        meter = Meter(given, config, 1, watch, list(stage_configs(config).values()))
        return Lab(given, config, RunFolder(tmp_path / out, config), "key", executor or SerialExecutor(), watch, meter)

    return make


class OneConv(zoo.KeypointNet):
    """The smallest network there is: one convolution from the image to heatmaps of a quarter of its side."""

    stride = 4

    def __init__(self, keypoints: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, keypoints, kernel_size=4, stride=4)

    def forward(self, images: Tensor) -> Tensor:
        heatmaps: Tensor = self.conv(images)
        return heatmaps


@pytest.fixture
def one_conv() -> Iterator[str]:
    """The name of a registered toy network."""
    name = "one_conv"
    zoo.register(name)(lambda spec: OneConv(spec.keypoints))
    yield name
    del zoo._REGISTRY[name]


@pytest.fixture
def dots() -> Iterator[None]:
    """The network that finds dots can be built by its name."""
    with dot_network():
        yield


@pytest.fixture
def run(dots: None, tmp_path: Path) -> Path:
    """A finished run whose network finds dots."""
    return write_dot_model(tmp_path / "run")


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    """A COCO file of dots beside its images."""
    return write_dots(tmp_path / "set")


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared(repository: Path) -> Path:
    """The folder beside the repository with the paper and real data; tests that need it are skipped without."""
    folder = repository.parent / "shared"
    if not folder.is_dir():
        pytest.skip("../shared is not here")
    return folder
