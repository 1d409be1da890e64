"""``placl plan``: the arguments of ``placl train``, a table or one JSON document, and no run."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

KEYS = {"trainings", "candidates", "parts", "disk", "workers", "notes", "images", "seconds", "hours", "summary"}


@pytest.fixture(autouse=True)
def _in_a_blink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placl.calibration.CALIBRATION", 0.3)


def test_json(placl: Callable, animals: Path, small: list[str], tmp_path: Path) -> None:
    arguments = "--labeled", animals, "--out", tmp_path / "x", "-q", *small, "teacher.input_size=null"
    ended = placl("plan", "--json", *arguments)
    assert (ended.code, ended.err) == (0, "")
    content = json.loads(ended.out)
    assert set(content) == KEYS
    assert content["trainings"] == {"round_0": 32, "round_1": 32}
    assert (content["candidates"], content["images"]) == (2, 4 * 32)
    assert content["seconds"] == pytest.approx(sum(part["seconds"] for part in content["parts"]), abs=0.1)
    assert set(content["parts"][0]) == {"name", "trainings", "images", "read", "seconds"}
    assert not (tmp_path / "x").exists()
    # the crops are cached, and are what the training then finds
    (cache,) = (tmp_path / "cache").iterdir()
    assert content["disk"]["crops"] == sum(file.stat().st_size for file in cache.iterdir())
    before = (cache / "crops.npy").stat().st_mtime_ns
    assert placl("train", *arguments).code == 0
    assert [folder.name for folder in (tmp_path / "cache").iterdir()] == [cache.name]
    assert (cache / "crops.npy").stat().st_mtime_ns == before


def test_the_table_and_its_sentence(placl: Callable, animals: Path, small: list[str]) -> None:
    ended = placl("plan", "--labeled", animals, "-q", *small, "train.epoch=data")
    lines = [line.split() for line in ended.out.splitlines() if line.strip()]
    assert ["part", "trainings", "training", "images", "images", "read", "time"] in lines
    (search,) = [line for line in lines if line[0] == "search"]
    assert search[1] == "2"
    assert "train.epoch=data: counted as if every pseudo-label were selected" in ended.out
    assert ended.out.splitlines()[-1].startswith("2 candidates and 2 full trainings, ")


def test_a_disk_without_room(
    placl: Callable, animals: Path, small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")  # as shutil has it
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**6, 10**6, 2000))
    ended = placl("plan", "--labeled", animals, "-q", "--out", tmp_path / "not" / "there", *small)
    assert f"{tmp_path / 'not' / 'there'}: its disk has 2 kB free, the run needs " in ended.out


def test_wrong_input_is_refused_as_a_training_would_be(placl: Callable, animals: Path, small: list[str]) -> None:
    placl("plan", "--labeled", animals, "-q", *small, "train.epocs=3").refused('unknown key "train.epocs"')
    placl("plan", "-q").refused("no labels", "--labeled")


def test_help_is_there_at_once() -> None:
    code = """
import sys
from placl.cli.plan import plan
print([name for name in ("torch", "numpy", "placl.config", "rich.console") if name in sys.modules])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    begun = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ended.stdout == "[]\n"
    assert time.monotonic() - begun < 5  # half a second on an idle machine
