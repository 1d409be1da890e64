"""``placl demo``: the table of three networks, and the document that the issue asks for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placl.api import Result
from placl.watch import Watch

ROW = {"metric": "PCK@0.1", "val": 50.0, "selected": None, "seconds": 60.0}


class Stub:
    def __init__(self, *stages: tuple[str, float, int]) -> None:
        self.rows = [{"stage": name, "test": test, "labels": labels, **ROW} for name, test, labels in stages]

    def __call__(self, out: Path, seed: int = 0, watch: Watch | None = None, overrides: Any = None) -> Result:
        self.asked = out, seed, overrides
        return Result(out, self.rows, "final", 240.04)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    stub = Stub(("round_0", 40.0, 100), ("round_1", 45.0, 100), ("final", 55.0, 100), ("full", 60.0, 2000))
    monkeypatch.setattr("placl.demo.run_demo", stub)
    return stub


def test_the_document(placl: Callable, stub: Stub) -> None:
    content = json.loads(placl("demo", "--json").out)
    assert content == {
        "supervised": {"pck": 40.0, "labels": 100},
        "placl": {"pck": 55.0, "labels": 100},
        "full": {"pck": 60.0, "labels": 2000},
        "gap_recovered": 0.75,
        "seconds": 240.0,
        "run": "runs/demo-0",
    }
    assert stub.asked == (Path("runs/demo-0"), 0, None)


def test_the_table(placl: Callable, stub: Stub) -> None:
    ended = placl("demo", "--quiet", "--seed", 2, "--out", "d", "train.epochs=3")
    assert ended.err == ""
    lines = [" ".join(line.split()) for line in ended.out.splitlines() if line.strip()]
    assert "test PCK@0.1 training, s" in lines
    assert "supervised, 5 % of the labels 40.00 60.0" in lines
    assert "PLACL, 5 % of the labels 55.00 60.0" in lines
    assert "supervised, 100 % of the labels 60.00 60.0" in lines
    assert "75 % of the gap recovered in 240 s" in lines
    assert stub.asked == (Path("d"), 2, {"train.epochs": 3})


def test_without_the_yardstick(placl: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placl.demo.run_demo", Stub(("round_0", 40.0, 100), ("final", 55.0, 100)))
    assert json.loads(placl("demo", "--json", "reference=false").out)["gap_recovered"] is None
    ended = placl("demo", "reference=false")
    assert ended.code == 0
    lines = [" ".join(line.split()) for line in ended.out.splitlines() if line.strip()]
    assert "supervised, 100 labels 40.00 60.0" in lines
    assert "PLACL, 100 labels 55.00 60.0" in lines
    assert "done in 240 s" in lines
    assert "%" not in ended.out
    assert "gap" not in ended.out


def test_it_has_its_own_configuration(placl: Callable, stub: Stub) -> None:
    placl("demo", "mine.yaml").refused("the demo has its own configuration")
