"""From annotation files to predictions and scores, through the command line alone."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

EVERY_RUN = {
    "config.yaml", "environment.json", "split.json", "journal.jsonl", "results.csv", "skipped.json",
    "round_0/model.safetensors",
    "round_1/pseudo_labels.parquet", "round_1/search.csv", "round_1/curriculum.json", "round_1/model.safetensors",
    "best/model.safetensors", "best/model.yaml",
}  # fmt: skip


def test_train_again_predict_evaluate(placl: Callable, animals: Path, small: list[str], tmp_path: Path) -> None:
    run = tmp_path / "runs" / "animals"
    command = "train", "--labeled", animals, "--out", run, "--json", *small
    first = placl(*command)
    assert first.code == 0
    told = json.loads(first.out)
    assert [row["stage"] for row in told["stages"]] == ["round_0", "round_1"]
    assert told["labels"] == {"labelled": 15, "unlabelled": 23, "val": 10, "test": 12}
    assert "15 labelled, 23 unlabelled, 10 validation and 12 test instances" in first.err
    assert {str(file.relative_to(run)) for file in run.rglob("*")} >= EVERY_RUN
    with open(run / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["weights_sha256"] for row in rows] == [row["weights_sha256"] for row in told["stages"]]
    assert yaml.safe_load((run / "best" / "model.yaml").read_text())["weights_sha256"] == rows[-1]["weights_sha256"]

    # The same command carries on: here there is nothing left to do.
    journal = (run / "journal.jsonl").read_bytes()
    again = json.loads(placl(*command).out)
    assert (run / "journal.jsonl").read_bytes() == journal
    assert again["stages"] == told["stages"]

    # Another configuration is refused, with the keys that differ.
    placl(*command, "-q", "train.lr=0.5", "seed=1").refused("another configuration", "train.lr: ", "seed: 0 -> 1")
    assert (run / "journal.jsonl").read_bytes() == journal

    ended = placl("predict", run, animals, "--out", tmp_path / "p.json", "--json")
    assert json.loads(ended.out)["weights_sha256"] == rows[-1]["weights_sha256"]
    predictions = json.loads((tmp_path / "p.json").read_text())
    assert len(predictions) == 60
    assert len(predictions[0]["keypoints"]) == 3 * 14

    score = json.loads(placl("evaluate", run, "--json").out)
    assert (score["measured_on"], score["instances"]) == (f"test split of {run}", 12)
    assert score["value"] == pytest.approx(float(rows[-1]["test"]), abs=1e-4)
    assert json.loads(placl("evaluate", run, animals, "--json", "--metric", "pck_auc").out)["instances"] == 60
