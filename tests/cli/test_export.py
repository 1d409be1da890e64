"""``placl export``: what it says, and how it refuses."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest


def test_both_formats_by_default(placl: Callable, run: Path) -> None:
    ended = placl("export", run)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    names = ["export.json", "README.md", "model.onnx", "model.pt2"]
    assert [line.split(": ")[0] for line in lines[:4]] == [str(run / "export" / name) for name in names]
    assert lines[4].startswith("model.onnx and PyTorch on 100 drawn images")
    assert "keypoints differ by at most" in lines[4]
    assert lines[5].startswith("model.pt2 and PyTorch on 100 drawn images")
    assert ended.err.splitlines()[0] == f"exporting round_1 of {run}: dots, 64 px"


def test_the_document_and_the_licence(placl: Callable, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "elsewhere" / "export"
    ended = placl("export", run, "--torch", "--out", out, "--licence", "CC0 <1.0>", "--json", "-q")
    content = json.loads(ended.out)
    assert ended.err == ""
    assert content["folder"] == str(out)
    assert sorted(content["files"]) == ["README.md", "export.json", "model.pt2"]
    assert content["agreement"]["model.pt2"]["images"] == 100
    assert "## Licence\n\nCC0 &lt;1.0&gt;\n" in (out / "README.md").read_text()


def test_without_the_extra(placl: Callable, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> object:
        return None if name in ("onnx", "onnxscript") else known(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    placl("export", run, "-q").refused("needs onnx and onnxscript: pip install 'placl[export]'.")
    assert not (run / "export").exists()
    assert placl("export", run, "--torch", "-q").code == 0


def test_with_a_torch_that_is_too_old(placl: Callable, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.__version__", "2.8.1+cpu")
    placl("export", run, "-q").refused("needs torch 2.9, here is 2.8.1+cpu", "placl[export]", "--torch")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], ("nowhere: no such run",)),
        (["begun"], ("begun: the run is not finished",)),
        (["run", "--out", "file"], ("file: is a file", "--out")),
        (["run", "--out", "file/export"], ("file: is a file", "--out")),
        (["run", "--out", "run"], ("run: is not empty and not an export", "--out")),
        (["run", "--out", "run", "--overwrite"], ("run: is not empty and not an export",)),
        (["run", "--tflite"], ("--tflite", "placl export --help")),
    ],
)
def test_refusals(
    placl: Callable,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("begun").mkdir()
    Path("begun/config.yaml").write_text("preset: cpu")
    Path("file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    placl("export", *arguments, "-q").refused(*words)
    assert sorted(tmp_path.rglob("*")) == before
    assert Path("file").read_text() == "mine"
