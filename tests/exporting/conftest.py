"""A small network that has learned something, and its export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placl import api
from placl import config as configuration
from placl.data.synthetic import write_animals
from placl.exporting.export import Exported, export

SETTINGS: dict[str, Any] = {
    "method": "supervised",
    "model.input_size": 32,
    "model.width": 0.5,
    "teacher.input_size": None,
    "teacher.first_batch": None,
    "teacher.first_augment": None,
    "data.label_fraction": 0.5,
    "data.test_fraction": 0.2,
    "train.epochs": 10,
    "train.steps_per_epoch": 20,
    "train.batch": 16,
    "train.optimizer": "adamw",
    "train.lr": 0.002,
    "train.sigma": 1.0,
    "execute.where": "serial",
    "execute.device": "cpu",
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of some seconds on 120 animals in files. Not to be changed."""
    folder = tmp_path_factory.mktemp("trained")
    labels = write_animals(folder / "animals", 120, seed=0, size=48)
    overrides = {**SETTINGS, "data.labeled": str(labels), "data.cache": str(folder / "cache")}
    api.train(configuration.load(None, overrides), folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def made(trained: Path) -> Exported:
    """Its export, in both formats. Not to be changed."""
    return export(trained, trained.parent / "made", licence="CC BY 4.0")
