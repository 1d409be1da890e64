"""The model card: figures of the run, names that try to break it, and code that runs."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from placl.config import load
from placl.data.skeleton import Skeleton
from placl.exporting.card import card, steered
from placl.exporting.export import Exported
from placl.exporting.facts import Facts, read_facts
from placl.exporting.markdown import plain
from placl.model import Model
from placl.version import VERSION

FILES = ["model.onnx", "model.pt2"]


def cells(text: str) -> dict[str, list[str]]:
    """Tables by their first column."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in rows}


def test_figures_are_the_runs(made: Exported, trained: Path) -> None:
    text = (made.folder / "README.md").read_text(encoding="utf-8")
    rows = cells(text)
    with open(trained / "results.csv", newline="") as lines:
        (result,) = csv.DictReader(lines)
    assert rows["PCK&#64;0.1, all"] == [f"{float(result[part]):.2f}" for part in ("val", "test")]
    metrics = json.loads((trained / result["stage"] / "metrics.json").read_text())
    nose = [f"{metrics[part]['per_keypoint']['nose']:.2f}" for part in ("val", "test")]
    assert rows["nose"] == nose
    split = json.loads((trained / "split.json").read_text())
    assert rows["labelled, trained on"] == [str(len(split["labelled"]))]
    assert rows["unlabelled"] == [str(len(split["half_1"]) + len(split["half_2"]))]
    assert rows["test (labelled, for scores only)"] == ["24"]
    assert "labelled: annotations.json." in text
    assert str(trained.parent) not in text
    assert "## Licence\n\nCC BY 4.0\n" in text
    assert f"placl {VERSION}" in text
    assert result["weights_sha256"] in text


def test_a_model_without_its_run(run: Path) -> None:
    model = Model.from_dir(run)
    text = card(model, read_facts(model), FILES, "not stated")
    assert text.startswith(
        "# run\n\nLocalises 3 keypoints of one object in an image: left\\_red, green, right\\_blue.\n"
    )
    assert "## Scores\n\nNot known here" in text
    assert "## Data\n\nNot known here.\n" in text
    assert "Licence\n\nnot stated\n" in text


def test_scores_of_other_weights_are_not_shown(trained: Path) -> None:
    model = Model.from_dir(trained)
    assert set(read_facts(model).scores) == {"val", "test"}
    text = card(replace(model, sha256="0" * 64), read_facts(replace(model, sha256="0" * 64)), FILES, "")
    assert "## Scores\n\nNot known here" in text


def test_a_run_without_validation_and_test(run: Path) -> None:
    model = Model.from_dir(run)
    facts = Facts("x", row={"metric": "PCK@0.1", "val": "", "test": ""})
    assert "## Scores\n\nNot measured: " in card(model, facts, FILES, "")


def test_the_search_is_told_and_whether_validation_decided_anything(run: Path) -> None:
    model = Model.from_dir(run)
    facts = read_facts(model)

    def told(settings: dict[str, object]) -> str:
        return card(model, replace(facts, config=load(None, settings)), FILES, "")

    ppo2 = {"search.searcher": "ppo2"}
    assert "no search, thresholds from 0.1 to 0.3" in told({})
    assert "search by ppo2 in 4 x 6 trainings a round" in told(ppo2)
    assert not steered(load())  # networks that label are not up for choice
    assert steered(load(None, ppo2))
    assert not steered(load(None, {**ppo2, "reward.source": "folds", "rounds.keep": "last"}))
    alike = {"teacher.input_size": None}
    assert steered(load(None, alike))
    assert not steered(load(None, {**alike, "rounds.keep": "last"}))
    assert not steered(load(None, {"method": "supervised"}))


def test_names_cannot_break_the_card(run: Path) -> None:
    names = ("<script>alert(1)</script>", "a|b\n# c", 'ü "`x`" \u202e [l](http://e.org)')
    model = replace(Model.from_dir(run), skeleton=Skeleton(names))
    facts = Facts("x\n## y <b>", scores={"val": {"value": 50, "metric": "PCK@0.1", "instances": 2, "per_keypoint": {}}})
    text = card(model, facts, FILES, "MIT\n# <i>")
    assert "<script" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# x ## y &lt;b&gt;",
        "## Scores",
        "## Data",
        "## Training",
        "## Intended use and limits",
        "## Licence",
        "## Use",
    ]
    scores = text.split("## Scores\n\n")[1].split("\n\n")[0].splitlines()
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in scores] == [3] * 6
    assert 'ü "\\`x\\`" \\[l\\](http:&#47;&#47;e.org)' in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("left_ear", "left\\_ear"),
        ("- a", "\\- a"),
        ("1. a", "1\\. a"),
        ("12.50", "12.50"),
        ("-3 dB", "-3 dB"),
        ("# a", "\\# a"),
        ("---", "\\---"),
        ("a\r\n\tb\x00", "a b"),
        ("x@y.org", "x&#64;y.org"),
        ("back\\slash", "back\\\\slash"),
        ("日本 ß", "日本 ß"),
    ],
)
def test_plain_text(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_its_code_runs(made: Exported, tmp_path: Path) -> None:
    text = (made.folder / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    for name in ("model.onnx", "model.pt2", "export.json"):
        (tmp_path / name).symlink_to(made.folder / name)
    cv2.imwrite(str(tmp_path / "crop.png"), np.random.default_rng(0).integers(0, 256, (50, 50, 3), np.uint8))
    code += "\nprint(type(keypoints).__name__, tuple(keypoints.shape))\n"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == json.loads((tmp_path / "export.json").read_text())[
        "keypoints"
    ]
    assert lines[-1] == "Tensor (1, 14, 2)"


def test_the_docs_code_finds_what_placl_finds(made: Exported, trained: Path, repository: Path, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (repository / "docs" / "export.md").read_text(), re.DOTALL)
    photo = sorted((trained.parent / "animals" / "images").iterdir())[0]
    (tmp_path / "photo.png").symlink_to(photo)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "export").symlink_to(made.folder)
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    found = np.array([re.findall(r": (.*), (.*) \(", line)[0] for line in ended.stdout.splitlines()], float)
    expected = Model.from_dir(trained)([photo]).keypoints[0]
    pixel = 4 * 1.25 * 48 / 32  # a heatmap pixel in the photo
    assert np.median(np.abs(found - expected)) < 0.25 * pixel
