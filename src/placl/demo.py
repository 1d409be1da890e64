"""``placl demo``: the whole method on animals drawn by code, in a few minutes on two cores.

2,000 training images, 100 of them labelled, 400 for validation and 600 for the test. Three networks of the same
budget are compared: trained on the 100 labels, on the 100 labels by PLACL, and on all 2,000.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from placl import config as configuration
from placl.api import Result, train
from placl.data.load import Dataset
from placl.data.synthetic import animals, write_animals
from placl.watch import Watch

TRAIN, VAL, TEST = 2000, 400, 600
SAMPLES = "animals"  # in the run folder: images with a COCO file, to try placl predict and placl evaluate on
UNSEEN = 1_000_000  # added to the seed, it draws animals that no demo trains on
SETTINGS: dict[str, Any] = {
    "preset": "cpu",
    "data.label_fraction": 0.05,
    "train.steps_per_epoch": 20,
    "teacher.input_size": None,
    "rounds.count": 1,
    "rounds.keep": "last",  # round_1 is alike, but has seen one half only
    "reference": True,
}


def demo_data(seed: int) -> Dataset:
    """Animals by ``seed``; no two seeds share one."""
    source = np.repeat(["labelled", "val", "test"], [TRAIN, VAL, TEST])
    return Dataset(animals(TRAIN + VAL + TEST, seed), source)


def run_demo(out: Path, seed: int = 0, watch: Watch | None = None, overrides: dict[str, Any] | None = None) -> Result:
    seeds = {"seed": seed, "data.split_seed": seed}
    config = configuration.load(None, {**SETTINGS, **seeds, **(overrides or {})})
    result = train(config, out, watch, demo_data(seed))
    write_animals(out / SAMPLES, 24, seed + UNSEEN)
    return result
