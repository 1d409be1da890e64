"""``placl study``: runs, tables, --dry-run, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

STUDY = "title: Mine\ndatasets: [animals]\nfractions: [0.4]\nseeds: [0]\nrows: [supervised, pl]\n"


@pytest.fixture
def arguments(animals: Path, small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A study of two runs."""
    monkeypatch.setattr("placl.studies.cost.SECONDS", 0.01)
    file, data = tmp_path / "mine.yaml", tmp_path / "placl.yaml"
    file.write_text(STUDY)
    data.write_text(f"labeled: {animals}\ntest_fraction: 0.2\n")
    settings = [setting for setting in small if not setting.startswith("data.label_fraction")]
    out = ["--out", tmp_path / "study", "--workers", 1]
    return [file, "--data", f"animals={data}", *out, *settings]


def test_a_table_and_files(placl: Callable, arguments: list[object], tmp_path: Path) -> None:
    ended = placl("study", *arguments, "-q")
    assert (ended.code, ended.err) == (0, "")
    assert "PL (data distillation)" in ended.out
    assert {path.name for path in (tmp_path / "study").iterdir()} == {
        "animals", "trainings", "results.csv", "table.md", "table.html",
    }  # fmt: skip


def test_json(placl: Callable, arguments: list[object]) -> None:
    ended = placl("study", *arguments, "-q", "--json")
    content = json.loads(ended.out)
    assert [row["method"] for row in content["rows"]] == ["supervised", "pl"]
    assert content["failed"] == {}


def test_a_dry_run_lists_runs_and_hours_and_writes_nothing(
    placl: Callable, arguments: list[object], tmp_path: Path
) -> None:
    ended = placl("study", *arguments, "--dry-run", "--json")
    content = json.loads(ended.out)
    assert [(run["method"], run["trainings"], run["done"]) for run in content["runs"]] == [
        ("supervised", 1, False), ("pl", 2, False),
    ]  # fmt: skip
    assert content["hours"] >= 0
    assert not (tmp_path / "study").exists()
    assert "2 of 2 runs to do" in placl("study", *arguments, "--dry-run").out


def test_a_dry_run_looks_at_the_data(placl: Callable, arguments: list[object], tmp_path: Path) -> None:
    (tmp_path / "placl.yaml").write_text(f"labeled: {tmp_path}/gone.json\n")
    placl("study", *arguments, "--dry-run").refused("gone.json")
    placl("study", *arguments, "-q").refused("gone.json")
    assert not (tmp_path / "study").exists()
    (tmp_path / "birds").mkdir()
    file = tmp_path / "birds.yaml"
    file.write_text(STUDY.replace("animals", "cub"))
    placl("study", file, "--data", f"cub={tmp_path}/birds", *arguments[3:], "--dry-run").refused("birds", "images.txt")


def test_only_some_rows(placl: Callable, arguments: list[object]) -> None:
    ended = placl("study", *arguments, "--dry-run", "--json", "--rows", "pl", "--seeds", 3, "--seeds", 4)
    assert [(run["method"], run["seed"]) for run in json.loads(ended.out)["runs"]] == [("pl", 3), ("pl", 4)]


def test_what_is_wrong_is_said_in_a_line(placl: Callable, arguments: list[object], tmp_path: Path) -> None:
    placl("study", "table9").refused('study "table9" is unknown', "table1")
    placl("study", arguments[0]).refused("where is animals", "--data animals=PATH")
    placl("study", arguments[0], "--data", "animals").refused("--data animals", "NAME=PATH")
    placl("study", arguments[0], "--data", f"animals={tmp_path}/no").refused("no: is not there")
    (tmp_path / "empty").mkdir()
    placl("study", arguments[0], "--data", f"animals={tmp_path}/empty").refused("holds no placl.yaml")


def test_a_failed_run_makes_the_command_fail(placl: Callable, arguments: list[object], tmp_path: Path) -> None:
    folder = tmp_path / "study" / "animals" / "40" / "seed0" / "supervised"
    folder.mkdir(parents=True)
    (folder / "something").touch()
    ended = placl("study", *arguments, "-q")
    assert ended.code == 1
    assert "1 run failed: animals, supervised, 40 %, seed 0: " in ended.err
