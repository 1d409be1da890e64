"""How commands end, and that help does not wait for torch."""

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import placl as package
from placl import config as configuration
from placl.cli.main import main
from placl.errors import InputError, MachineError
from placl.version import VERSION

HEAVY = ("torch", "cv2", "numpy", "pandas", "rich.console", "placl.config")


def fails_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def load(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("placl.config.load", load)


def test_version(placl: Callable) -> None:
    assert placl("--version").out == f"placl {VERSION}\n"


COMMANDS = ["demo", "train", "plan", "report", "ui", "predict", "evaluate", "suggest", "export", "study", "bench"]


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_the_commands(placl: Callable, arguments: tuple[str, ...]) -> None:
    ended = placl(*arguments)
    assert ended.code == 0
    for command in (*COMMANDS, "data"):
        assert f"\n  {command} " in ended.out


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
from placl.cli.main import main
for command in [[], *([name] for name in {COMMANDS!r})]:
    assert main([*command, "--help"]) == 0
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert ended.stderr == "[]\n"


def test_the_module_runs_and_gives_its_exit_code() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "placl", "predict", "--nonsense"], capture_output=True, text=True, env=environment()
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("placl: No such option: --nonsense")
    assert ended.stdout == ""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], ("trian", "placl --help")),
        (["predict"], ("Missing argument", "RUN", "placl predict --help")),
        (["train", "--lables", "x"], ("--lables", "placl train --help")),
        (["train", "--seed", "many"], ("--seed",)),
        (["predict", "run", "image", "--threshold", "2"], ("--threshold",)),
    ],
)
def test_wrong_usage(placl: Callable, arguments: list[str], words: tuple[str, ...]) -> None:
    placl(*arguments).refused(*words)


def test_wrong_input(placl: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, InputError("ann.json: is wrong.\nFix it."))
    placl("train").refused("placl: ann.json: is wrong. Fix it.")


def test_the_machine_s_fault(placl: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, MachineError("a worker died."))
    placl("train").refused("a worker died.", code=1)


def test_what_nobody_expected(placl: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, RuntimeError("failed in a worker:\nTraceback\nKeyError: 3"))
    placl("train").refused("RuntimeError: failed in a worker: ... KeyError: 3", "--debug", "PLACL_DEBUG=1", code=1)


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_debugging_shows_the_traceback(placl: Callable, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    fails_with(monkeypatch, RuntimeError("oh"))
    if way == "variable":
        monkeypatch.setenv("PLACL_DEBUG", "1")
    ended = placl("train", *(["--debug"] if way == "flag" else []))
    assert ended.code == 1
    assert ended.err.startswith("Traceback")
    assert ended.err.splitlines()[-1].startswith("placl: RuntimeError: oh")


def test_a_full_disk_anywhere(placl: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, OSError(errno.ENOSPC, "No space left on device", "runs/x/tb"))
    placl("train").refused("runs/x/tb: no space left on the disk", code=1)


def test_an_interruption_says_how_to_go_on(placl: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, KeyboardInterrupt())
    placl("train").refused("stopped; the same command carries on where it was.", code=130)


def test_an_interrupted_prediction_begins_anew(placl: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, KeyboardInterrupt())
    monkeypatch.setattr("placl.cli.predict.open_watch", configuration.load)
    ended = placl("predict", "train", "demo")  # a run of that name is no training
    ended.refused("placl: interrupted.", code=130)
    assert "carries on" not in ended.err


@pytest.mark.parametrize("flags", [["--json"], []])
def test_names_that_the_terminal_cannot_print_fail_nothing(
    run: Path, annotations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    out, printed = tmp_path / "鳥.json", io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding="cp1252"))  # as of Windows, piped
    assert main(["predict", str(run), str(annotations), "--out", str(out), "--no-draw", *flags]) == 0
    text = printed.getvalue().decode("cp1252")
    assert "\\u9ce5.json" in text
    if flags:
        assert json.loads(text)["predictions"] == str(out)


def test_every_public_name_is_there_and_stays() -> None:
    import placl.evaluation
    import placl.prediction  # a module of a function's name would take its place

    assert package.__version__ == VERSION
    assert set(package.__all__) <= set(dir(package))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert package.predict is placl.prediction.predict
    assert package.evaluate is placl.evaluation.evaluate
    assert callable(package.train)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'predictor'"):
        package.predictor  # noqa: B018
