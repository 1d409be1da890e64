"""``placl data``: what the commands write and say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from placl.data.synthetic import write_animals


@pytest.fixture
def animals_folder(tmp_path: Path) -> Path:
    write_animals(tmp_path / "animals", 6, seed=3, size=48)
    return tmp_path / "animals"


def test_without_a_command_there_is_help(placl: Callable) -> None:
    ended = placl("data")
    assert ended.code == 0
    assert ended.err == ""
    assert all(command in ended.out for command in ("import", "info", "preview", "split"))


def test_import(placl: Callable, animals_folder: Path, tmp_path: Path) -> None:
    ended = placl("data", "import", animals_folder, "--out", tmp_path / "mine")
    file = tmp_path / "mine" / "annotations.json"
    assert ended.out.strip() == f"coco: 6 images, 6 labelled and 0 unlabelled instances: {file}"
    assert file.is_file()
    placl("data", "import", animals_folder, "--out", tmp_path / "mine").refused("is there already", "--overwrite")


def test_import_with_no_option_makes_a_folder_here(
    placl: Callable, animals_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert placl("data", "import", animals_folder).code == 0
    assert (tmp_path / "here" / "animals" / "annotations.json").is_file()


def test_info(placl: Callable, animals_folder: Path) -> None:
    content = json.loads(placl("data", "info", animals_folder, "--json").out)
    assert {key: content[key] for key in ("format", "images", "labelled", "unlabelled")} == {
        "format": "coco",
        "images": 6,
        "labelled": 6,
        "unlabelled": 0,
    }
    assert len(content["keypoints"]) == 14
    assert isinstance(content["problems"], list)
    lines = placl("data", "info", animals_folder).out
    assert "left_front_paw" in lines


def test_preview(placl: Callable, animals_folder: Path, tmp_path: Path) -> None:
    ended = placl("data", "preview", animals_folder, "--out", tmp_path / "sheet.png", "--count", 4)
    assert ended.code == 0
    assert (tmp_path / "sheet.png").is_file()
    assert (tmp_path / "sheet.html").is_file()


def test_split_and_train_settings(placl: Callable, animals_folder: Path, tmp_path: Path) -> None:
    ended = placl("data", "split", animals_folder, "--out", tmp_path / "parts", "--labels", 0.5, "--json")
    content = json.loads(ended.out)
    assert content["instances"] == {"labelled": 2, "unlabelled": 3, "val": 1}
    assert (tmp_path / "parts" / "placl.yaml").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import", "nowhere"], ("nowhere: does not exist",)),
        (["info", "animals", "--format", "coca"], ('format "coca" is unknown', 'Did you mean "coco"?')),
        (["import", "animals", "--protocol", "cab"], ('protocol "cab" is unknown', 'Did you mean "cub"?')),
        (["preview", "animals", "--sampling", "odd"], ('--sampling "odd" is unknown',)),
        (["import", "animals", "--to", "lsp"], ("format lsp can be read and not written",)),
    ],
)
def test_complaints(
    placl: Callable,
    animals_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    placl("data", *arguments).refused(*words)
