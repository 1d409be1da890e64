"""``placl evaluate``: the table, the document and the complaints."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest


def test_the_table(placl: Callable, run: Path, annotations: Path) -> None:
    ended = placl("evaluate", run, annotations)
    lines = [" ".join(line.split()) for line in ended.out.splitlines() if line.strip()]
    assert "keypoint PCK@0.1" in lines
    assert "left_red 100.00" in lines
    assert lines[-1].startswith(f"PCK@0.1 100.00 on {annotations}: 6 instances, 18 keypoints, mean error 0.01")


@pytest.mark.parametrize(
    ("arguments", "column"),
    [
        (["--alpha", "0.05"], "PCK@0.05"),
        (["--metric", "oks"], "PCK@0.1"),
        (["--metric", "pck_auc", "--alpha", "0.2"], "PCK@0.2"),
    ],
)
def test_the_column_says_which_pck(
    placl: Callable, run: Path, annotations: Path, arguments: list[str], column: str
) -> None:
    lines = placl("evaluate", run, annotations, *arguments).out.splitlines()
    assert ["keypoint", column] in [line.split() for line in lines]


def test_the_document(placl: Callable, run: Path, annotations: Path) -> None:
    ended = placl("evaluate", run, annotations, "--json", "--metric", "oks")
    content = json.loads(ended.out)
    assert (content["metric"], content["instances"], content["keypoints"]) == ("OKS mAP", 6, 18)
    assert content["value"] == pytest.approx(100)
    assert content["measured_on"] == str(annotations)
    assert content["per_keypoint"]["green"] == 100


def test_images_and_keypoints(placl: Callable, run: Path, annotations: Path, tmp_path: Path) -> None:
    content = json.loads(annotations.read_text())
    content["categories"][0]["keypoints"] = ["a", "b", "c"]
    moved = tmp_path / "moved.json"
    moved.write_text(json.dumps(content))
    arguments = "evaluate", run, moved, "--images", annotations.parent, "-q"
    placl(*arguments).refused("moved.json: its keypoints are not the model's", "--keypoints")
    assert placl(*arguments, "--keypoints", "left_red,green,right_blue").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], ("nowhere: no such run",)),
        (["run"], ("no labels to score on",)),
        (["run", "set/gone.json"], ("gone.json: does not exist",)),
        (["run", "set/annotations.json", "--metric", "okks"], ('"okks" is not a value', 'Did you mean "oks"?')),
        (["run", "set/annotations.json", "--alpha", "-1"], ("reward.alpha", "greater than 0")),
        (["run", "set/annotations.json", "--images", "gone"], ("gone: is not a folder", "--images")),
    ],
)
def test_refusals(
    placl: Callable,
    run: Path,
    annotations: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    placl("evaluate", *arguments, "-q").refused(*words)
