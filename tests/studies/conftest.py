"""A dataset on the disk and a study of it that runs in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from placl.data.synthetic import write_animals

SMALL = {
    "model.input_size": 32,
    "model.width": 0.5,
    "select.scale": "quantile",
    "train.epochs": 2,
    "train.epoch": "steps",
    "train.steps_per_epoch": 2,
    "train.batch": 8,
    "teacher.input_size": None,
    "teacher.steps_per_epoch": None,
    "search.group_size": 1,
    "search.steps": 1,
    "search.samples": 2,
    "search.updates": 2,
    "proxy.images": None,
    "proxy.val_images": None,
    "proxy.epochs": None,
    "proxy.steps_per_epoch": None,
    "rounds.count": 1,
    "rounds.finish": "last",
    "rounds.keep": "last",
    "execute.where": "serial",
    "execute.device": "cpu",
    "execute.threads": 1,
    "execute.final_threads": 1,
}
STUDY = """
title: A study of animals
datasets: [animals]
fractions: [0.3, 1.0]
seeds: [0, 1]
rows: [supervised, pl, fixed-0.3, {name: mine, title: My own, method: placl, search.searcher: manual}]
"""


@pytest.fixture(scope="session")
def animals_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A placl.yaml of 50 animals."""
    folder = tmp_path_factory.mktemp("animals")
    write_animals(folder, 50, seed=0)
    file = folder / "placl.yaml"
    file.write_text("labeled: annotations.json\nval_fraction: 0.2\ntest_fraction: 0.2\n")
    return file


@pytest.fixture
def study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLACL_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "mine.yaml"
    file.write_text(STUDY)
    return file


@pytest.fixture
def small() -> dict[str, object]:
    return dict(SMALL)
