"""``placl report``: one page, several runs, and the complaints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A run of which little more is there than its name."""
    folder = tmp_path / "a" / "birds"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("method: placl\n")
    (folder / "results.csv").write_text("stage,metric,val,test\nround_0,PCK@0.1,60,50\nround_1,PCK@0.1,50,40\n")
    return folder


def test_a_run_gets_its_page(placl: Callable, begun: Path) -> None:
    ended = placl("report", begun)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == str(begun / "report.html")
    assert lines[1].startswith("round_1 is worse than round_0")
    assert "<title>birds · placl</title>" in (begun / "report.html").read_text()


def test_runs_of_one_name_are_told_apart(placl: Callable, begun: Path, tmp_path: Path) -> None:
    other = tmp_path / "b" / "birds"
    other.mkdir(parents=True)
    (other / "config.yaml").write_text("{}")
    out = tmp_path / "page.html"
    ended = placl("report", begun, other, "--out", out, "--json")
    assert json.loads(ended.out)["report"] == str(out)
    text = out.read_text()
    assert json.dumps(str(begun)) in text
    assert json.dumps(str(other)) in text


@pytest.mark.parametrize(("name", "expected"), [("nowhere", "no such run"), (".", "is not a run folder")])
def test_what_is_no_run(placl: Callable, tmp_path: Path, name: str, expected: str) -> None:
    ended = placl("report", tmp_path / name)
    assert (ended.code, ended.out) == (2, "")
    assert expected in ended.err


def test_a_folder_cannot_be_written_to(placl: Callable, begun: Path, tmp_path: Path) -> None:
    ended = placl("report", begun, "--out", tmp_path)
    assert ended.code == 2
    assert "is a folder. Name a file with --out." in ended.err
