"""The command line in this process, and a small training on animals in files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from placl.cli.main import main
from placl.data.synthetic import write_animals

SMALL = [
    *("model.input_size=32", "model.width=0.5", "select.scale=quantile"),
    *("train.epochs=2", "train.epoch=steps", "train.steps_per_epoch=2", "train.batch=8"),
    *("teacher.first_batch=null", "teacher.first_augment=null"),
    *("search.searcher=ppo2", "search.group_size=1", "search.steps=1", "search.samples=2", "search.updates=5"),
    *("proxy.images=null", "proxy.val_images=null", "proxy.epochs=null", "proxy.steps_per_epoch=null"),
    *("rounds.count=1", "rounds.finish=last", "rounds.keep=last"),
    *("execute.where=serial", "execute.workers=1", "execute.device=cpu"),
    *("execute.threads=1", "execute.final_threads=1"),
    *("data.label_fraction=0.4", "data.test_fraction=0.2"),
]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def refused(self, *words: str, code: int = 2) -> None:
        """One line on stderr that has the words, and nothing else anywhere."""
        assert self.code == code, self.err
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("placl: ")
        for word in words:
            assert word in line


Placl = Callable[..., Ended]


@pytest.fixture
def placl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Placl:
    """``placl("train", "--out", path)`` -> how it ended; caches stay in the test's folder."""
    monkeypatch.setenv("PLACL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PLACL_DEBUG", raising=False)

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return run


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Settings with which a training of animals takes a second."""
    return SMALL


@pytest.fixture(scope="session")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The annotation file of 60 animals of 64 px. Not to be changed."""
    return write_animals(tmp_path_factory.mktemp("animals"), 60, seed=0, size=64)
