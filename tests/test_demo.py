"""The demo's data and settings; that it recovers the gap is measured in `benchmarks/`, not here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placl import config, demo


def test_the_demo_hides_95_per_cent_of_the_training_labels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, count in (("TRAIN", 320), ("VAL", 20), ("TEST", 20)):
        monkeypatch.setattr(demo, name, count)
    quick = {
        "train.epochs": 2,
        "train.steps_per_epoch": 1,
        "teacher.steps_per_epoch": 3,
        "rounds.count": 1,
        "execute.where": "serial",
        "execute.final_threads": 1,
    }
    result = demo.run_demo(tmp_path / "run", seed=3, overrides=quick)
    labels = {row["stage"]: row["labels"] for row in result.rows}
    assert labels == {"round_0": 16, "round_1": 16, "final": 16, "few": 16, "full": 320}
    assert {name: row["stage"] for name, row in result.compared.items()} == {
        "supervised": "few", "placl": "final", "full": "full"
    }  # fmt: skip
    assert {row["images"] for row in result.compared.values()} == {2 * 64}  # the same budget for all
    assert result.gap_recovered is not None


def test_seeds_draw_other_animals() -> None:
    demo_data = demo.animals(4, 0), demo.animals(4, 1)
    assert not np.array_equal(demo_data[0].keypoints, demo_data[1].keypoints)


def test_the_settings_are_valid_and_the_yardstick_is_on() -> None:
    settings = config.load(None, demo.SETTINGS)
    assert settings.reference
    assert settings.data.label_fraction == 0.05
