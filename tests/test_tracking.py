"""What a run tells its tracker, and that no tracker can stop a training."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placl import api, tracking
from placl.config import Config
from placl.data.load import Dataset
from placl.errors import InputError
from placl.tracking import Tracking, tracked
from placl.watch import Silent


class Saying(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class Notebook:
    """A tracker that writes down what it is told, and can be told to fail."""

    told: list[tuple[Any, ...]]
    fails_at = ""
    held: threading.Event | None = None

    def begin(self, run: Path, settings: dict[str, Any], known: str | None) -> tuple[str, str]:
        self._note("begin", run.name, settings["train.lr"], known)
        return known or "id-1", "page 1"

    def log(self, scalars: dict[str, float], step: int) -> None:
        if self.held is not None:
            self.held.wait(10)
        self._note("log", scalars, step)

    def end(self, files: list[Path], finished: bool) -> None:
        self._note("end", [file.name for file in files], finished)

    def _note(self, what: str, *rest: Any) -> None:
        if what == self.fails_at:
            raise ConnectionError(f"no answer to {what}\nand a long story")
        self.told.append((what, *rest))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> type[Notebook]:
    """``track=mlflow`` goes to a fresh notebook."""
    book = type("Fresh", (Notebook,), {"told": []})
    monkeypatch.setitem(tracking.TRACKERS, "mlflow", book)
    monkeypatch.setattr(tracking, "installed", lambda package: True)
    return book


@pytest.fixture
def follow(tmp_path: Path, tiny: Callable[..., Config]) -> Callable[..., list[str]]:
    """Begin, log, end; returns what was said."""

    def run(*logged: tuple[dict[str, float], int]) -> list[str]:
        watch = Saying()
        with tracked("mlflow", watch) as found:
            found.begin(tmp_path, tiny({"train.lr": 0.5}))
            for scalars, step in logged:
                found.log(scalars, step)
        return watch.lines

    return run


def test_everything_arrives_in_order(
    notebook: type[Notebook], follow: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "report.html").touch()
    said = follow(({"stages/val": 1.0}, 0), ({"round_1/reward_mean": 2.0}, 1))
    assert notebook.told == [
        ("begin", tmp_path.name, 0.5, None),
        ("log", {"stages/val": 1.0}, 0),
        ("log", {"round_1/reward_mean": 2.0}, 1),
        ("end", ["report.html"], True),
    ]
    assert said == ["track=mlflow: page 1"]


def test_a_run_that_is_carried_on_repeats_nothing(
    notebook: type[Notebook], follow: Callable[..., list[str]], tmp_path: Path
) -> None:
    first = ({"stages/val": 1.0}, 0), ({"round_1/reward_mean": 2.0}, 1)
    follow(*first)
    notebook.told.clear()
    follow(*first, ({"round_1/reward_mean": 3.0}, 2))
    assert notebook.told == [
        ("begin", tmp_path.name, 0.5, "id-1"),
        ("log", {"round_1/reward_mean": 3.0}, 2),
        ("end", [], True),
    ]
    kept = json.loads((tmp_path / "tracking.json").read_text())
    assert kept == {"mlflow": {"id": "id-1", "sent": {"stages": 0, "round_1": 2}}}


@pytest.mark.parametrize("moment", ["begin", "log", "end"])
def test_a_failure_is_said_once(notebook: type[Notebook], follow: Callable[..., list[str]], moment: str) -> None:
    notebook.fails_at = moment
    said = follow(({"stages/val": 1.0}, 0), ({"stages/val": 2.0}, 1))
    assert said[-1] == f"track=mlflow: no answer to {moment} (the training goes on without it)"
    assert len(said) == (1 if moment == "begin" else 2)


def test_a_damaged_file_is_no_reason_to_stop(
    notebook: type[Notebook], follow: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "tracking.json").write_text('{"mlflow": 3}')
    assert [line for line in follow() if "goes on without it" in line]


def test_a_tracker_that_hangs_is_left_behind(
    notebook: type[Notebook], follow: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "PATIENCE", {True: 0.05})
    notebook.held = threading.Event()
    said = follow(({"stages/val": 1.0}, 0))
    notebook.held.set()
    assert said[-1].startswith("track=mlflow: does not answer")


def test_a_training_that_fails_is_not_finished(notebook: type[Notebook], tmp_path: Path, tiny: Callable) -> None:
    (tmp_path / "report.html").touch()

    def interrupted() -> None:
        with tracked("mlflow", Silent()) as found:
            found.begin(tmp_path, tiny())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert notebook.told[-1] == ("end", [], False)


def test_without_a_tracker_nothing_happens(tmp_path: Path, tiny: Callable[..., Config]) -> None:
    found = Tracking("none", Silent())
    found.begin(tmp_path, tiny())
    found.log({"stages/val": 1.0}, 0)
    found.end(finished=True)
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_missing_is_named_before_anything_begins(
    monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., Config], dataset: Dataset, tmp_path: Path
) -> None:
    monkeypatch.setattr(tracking, "installed", lambda package: False)
    with pytest.raises(InputError, match=r"track=wandb needs a package: pip install 'placl\[wandb\]'\."):
        api.train(tiny({"track": "wandb"}), tmp_path / "run", dataset=dataset)
    assert not (tmp_path / "run").exists()


def test_a_training_tells_its_tracker(
    notebook: type[Notebook], tiny: Callable[..., Config], dataset: Dataset, tmp_path: Path
) -> None:
    settings = {"rounds.count": 1, "rounds.finish": "last", "search.steps": 1, "data.label_fraction": 0.4}
    result = api.train(tiny({**settings, "track": "mlflow"}), tmp_path / "run", dataset=dataset)
    logged = {(name, step) for what, scalars, step in notebook.told[1:-1] for name in scalars}
    assert {("stages/val", 0), ("stages/test", 0), ("stages/val", 1), ("round_1/reward_mean", 1)} <= logged
    assert notebook.told[-1] == ("end", ["report.html", "results.csv", "config.yaml", "best"], True)

    # It is no part of the run's identity: the run carries on without it, from a journal that has everything.
    journal = (tmp_path / "run" / "journal.jsonl").read_bytes()
    assert api.train(tiny(settings), tmp_path / "run", dataset=dataset).rows == result.rows
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == journal
