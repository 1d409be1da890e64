"""The folder that someone who follows the documentation sits in: images, labels, a video, and perhaps finished runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import pytest

from conftest import TINY
from films import write_film
from placl import config_reading
from placl.cli.main import main
from placl.data.importing import import_source
from placl.data.synthetic import write_animals

TRAIN = ["train", "--labeled", "ann.json", "--images", "photos", "--unlabeled", "more_photos"]
# Long enough that heatmaps are not flat: an export is compared with PyTorch, and a flat one has no peak to agree on.
SHORT = {"rounds.count": 1, "search.steps": 1, "train.steps_per_epoch": 20, "proxy.steps_per_epoch": 2}
# What a preset keeps: one without a search has none here, either, and its first network is another than the last.
OWN = {"search.searcher", "search.initial", "search.rise", "teacher.first_batch", "teacher.first_augment"}
Prepare = Callable[[str], Path]


def small_preset(name: str) -> dict[str, Any]:
    """Any preset, with trainings that take a second: what a page itself sets still goes over it."""
    preset = READ(name)
    for key, value in {**TINY, **SHORT}.items():
        if key in OWN:
            continue
        section, _, own = key.partition(".")
        preset[section][own] = value
    return preset


READ = config_reading.read_preset


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets, the demo and calibrations in a size for tests."""
    monkeypatch.setattr("placl.config_reading.read_preset", small_preset)
    demo = {"train.steps_per_epoch": 2, "teacher.steps_per_epoch": 2}
    monkeypatch.setattr("placl.demo.SETTINGS", {"data.label_fraction": 0.25, "reference": True, **demo})
    for name, count in {"TRAIN": 80, "VAL": 10, "TEST": 10}.items():
        monkeypatch.setattr(f"placl.demo.{name}", count)
    monkeypatch.setattr("placl.calibration.CALIBRATION", 0.1)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 drawn animals under all the names that pages use."""
    folder = tmp_path_factory.mktemp("images")
    content = json.loads(write_animals(folder / "SOURCE", 60, seed=0, size=64).read_text())
    drawn = sorted((folder / "SOURCE" / "images").iterdir())

    def copy(to: str, files: list[Path]) -> None:
        (folder / to).mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder / to)

    def write(name: str, numbers: range, images: str, **more: dict[int, Any]) -> None:
        records = [{**content["images"][i], "file_name": f"{images}{drawn[i].name}"} for i in numbers]
        for key, values in more.items():
            records = [{**record, key: values[i]} for i, record in zip(numbers, records, strict=True)]
        labels = [content["annotations"][i] for i in numbers]
        category = [{**content["categories"][0], "name": "wren"}]
        text = json.dumps({"images": records, "annotations": labels, "categories": category})
        (folder / name).write_text(text)

    copy("photos", drawn[:40])
    write("ann.json", range(40), "")
    write("labels.json", range(30, 40), "photos/")
    copy("more_photos", drawn[40:52])
    copy("folder", drawn[52:56])
    copy("others", drawn[40:])
    write("all.json", range(40, 60), "others/", split={i: "val" if i < 50 else "test" for i in range(40, 60)})
    picture = cv2.imread(str(drawn[0]))
    cv2.imwrite(str(folder / "photo.jpg"), picture)
    cv2.imwrite(str(folder / "photo.png"), picture)
    frames = [cv2.imread(str(file))[:, :, ::-1].copy() for file in drawn[:16]]
    write_film(folder / "clip.mp4", frames, codec="mp4v")
    write("few.json", range(20), "photos/")
    import_source(folder / "few.json", folder / "project", to="deeplabcut")
    write_more_frames(folder / "more_frames")
    (folder / "mine.yaml").write_text("data: {labeled: ann.json, images: photos, unlabeled: more_photos}\n")
    (folder / "birds").mkdir()
    (folder / "birds" / "placl.yaml").write_text("labeled: ../ann.json\nimages: ../photos\n")
    for name in ("CUB_200_2011", "ANIMALPOSE"):
        (folder / name).mkdir()
    return folder


def write_more_frames(folder: Path) -> None:
    write_animals(folder, 12, seed=1, size=64)
    (folder / "annotations.json").unlink()


@pytest.fixture(scope="session")
def trained(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with finished runs."""
    folder = tmp_path_factory.mktemp("trained") / "here"
    shutil.copytree(images, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PLACL_CACHE", str(folder.parent / "cache"))
        patch.setattr("placl.config_reading.read_preset", small_preset)
        assert main([*TRAIN, "--out", "runs/mine", "--quiet"]) == 0
    for name in ("birds", "birds-2"):
        shutil.copytree(folder / "runs" / "mine", folder / "runs" / name)
    return folder


@pytest.fixture
def prepare(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None) -> Prepare:
    """``prepare("trained")``: a copy of that folder, entered; nothing opens a browser or serves for ever."""

    def enter(name: str) -> Path:
        folder = tmp_path / "here"
        shutil.copytree(request.getfixturevalue(name), folder)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PLACL_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("placl.tracking.PATIENCE", {True: 600.0, False: 600.0})  # or it would work on elsewhere
        monkeypatch.setattr("webbrowser.open", lambda address: True)
        monkeypatch.setattr("socketserver.BaseServer.serve_forever", lambda server, poll_interval=0.5: None)
        return folder

    return enter
