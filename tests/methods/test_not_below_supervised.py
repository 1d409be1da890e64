"""Every method, on drawn animals with few labels: not below what the labels alone teach."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from placl import config as configuration
from placl.api import train
from placl.data.load import Dataset
from placl.data.synthetic import animals
from placl.methods.method import PLACES

TRAIN, VAL, TEST = 1000, 200, 400
# 100 labels, 900 images without, trainings of 1,000 steps: half as many teach no network enough to label well.
SETTINGS: dict[str, Any] = {
    "preset": "cpu",
    "data.label_fraction": 0.1,
    "model.input_size": 48,
    "model.width": 0.25,
    "train.epochs": 8,
    "train.steps_per_epoch": 125,
    "train.batch": 16,
    "train.optimizer": "adamw",
    "train.lr": 0.01,
    "train.sigma": 1.0,
    "train.labelled_share": 0.5,
    "augment.rotate": 15.0,
    "augment.scale": 0.1,
    "teacher.input_size": None,
    "teacher.first_batch": None,
    "teacher.first_augment": None,
    "search.searcher": "ppo2",
    "search.initial": 0.3,
    "search.rise": 0.0,
    "search.group_size": 2,
    "search.steps": 2,
    "search.samples": 3,
    "proxy.epochs": 4,
    "proxy.steps_per_epoch": 15,
    "proxy.val_images": None,
    "rounds.count": 1,
    "rounds.finish": "last",
    "rounds.keep": "last",
    "execute.where": "serial",
    "execute.device": "cpu",
    "execute.threads": 1,
    "execute.final_threads": 1,
}

Score = Callable[[str], float]


@pytest.fixture(scope="module")
def score(tmp_path_factory: pytest.TempPathFactory) -> Score:
    """The test score of a method. Runs share the networks that they have in common."""
    folder = tmp_path_factory.mktemp("methods")
    source = np.repeat(["labelled", "val", "test"], [TRAIN, VAL, TEST])
    dataset = Dataset(animals(TRAIN + VAL + TEST, 0, size=48), source)

    @cache
    def run(method: str) -> float:
        config = configuration.load(None, {**SETTINGS, "method": method})
        result = train(config, folder / method, dataset=dataset, library=folder / "trainings")
        return float(result.row(result.best)["test"])

    return run


@pytest.mark.parametrize("method", [name for name in PLACES if PLACES[name] != PLACES["supervised"]])
def test_unlabelled_images_do_no_harm(score: Score, method: str) -> None:
    assert score(method) > score("supervised") - 1.0
