"""``placl predict``: what it writes, what it says, and what it would overwrite."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest


def test_results_and_a_picture(placl: Callable, run: Path, annotations: Path, tmp_path: Path) -> None:
    ended = placl("predict", run, annotations, "--out", tmp_path / "o" / "p.json")
    assert ended.code == 0
    assert ended.out.splitlines() == [
        f"6 instances in 3 images: {tmp_path / 'o' / 'p.json'}",
        f"picture: {tmp_path / 'o' / 'p.png'}",
    ]
    records = json.loads((tmp_path / "o" / "p.json").read_text())
    assert [record["image_id"] for record in records] == [11, 11, 12, 12, 13, 13]
    assert sorted(file.name for file in (tmp_path / "o").iterdir()) == ["p.json", "p.png"]


def test_in_the_current_folder_by_default(
    placl: Callable, run: Path, annotations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert placl("predict", run, annotations.parent / "images" / "0.png", "--no-draw").code == 0
    assert len(json.loads(Path("predictions.json").read_text())) == 1
    assert not Path("predictions.png").exists()


def test_json_and_a_folder_of_pictures(placl: Callable, run: Path, annotations: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    ended = placl("predict", run, annotations.parent / "images", "--out", out, "--overlay", tmp_path / "pics", "--json")
    content = json.loads(ended.out)
    assert (content["images"], content["instances"], content["skipped"]) == (3, 3, [])
    assert content["overlay"] == [str(tmp_path / "pics" / f"{i}.png") for i in range(3)]


def test_skipped_images_are_named(placl: Callable, run: Path, annotations: Path, tmp_path: Path) -> None:
    (annotations.parent / "images" / "1.png").write_bytes(b"")
    ended = placl("predict", run, annotations, "--out", tmp_path / "p.json")
    assert ended.code == 0
    assert "1.png: the file is empty" in ended.err
    assert "1 images skipped" in ended.out


def test_images_without_a_box_are_counted(placl: Callable, run: Path, annotations: Path, tmp_path: Path) -> None:
    content = json.loads(annotations.read_text())
    content["annotations"] = content["annotations"][:2]
    annotations.write_text(json.dumps(content))
    line = "annotations.json: 2 images have no annotation and are left out."
    ended = placl("predict", run, annotations, "--out", tmp_path / "p.json", "--json")
    assert line in ended.err
    assert json.loads(ended.out)["notes"] == [line]


@pytest.mark.parametrize("overlay", [None, "drawn", "drawn.jpg"])
def test_pictures_of_the_same_command_are_not_predicted(
    placl: Callable, run: Path, annotations: Path, overlay: str | None
) -> None:
    photos = annotations.parent / "images"
    command = ["predict", run, photos, "--out", photos / "p.csv", *(["--overlay", photos / overlay] if overlay else [])]
    first = placl(*command)
    assert "left out" not in first.err
    before = (photos / "p.csv").read_text()
    again = placl(*command)
    assert again.out.splitlines()[0] == first.out.splitlines()[0] == f"3 instances in 3 images: {photos / 'p.csv'}"
    assert f"{photos}: {3 if overlay == 'drawn' else 1} images lie where pictures are written to" in again.err
    assert placl(*command, "--no-draw").code == 0
    assert (photos / "p.csv").read_text() == before


def test_an_image_that_is_named_is_predicted_whatever_its_name(
    placl: Callable, run: Path, annotations: Path, tmp_path: Path
) -> None:
    photo = annotations.parent / "images" / "0.png"
    assert placl("predict", run, photo, "--out", photo.with_suffix(".csv"), "--no-draw").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "set"], ("nowhere: no such run",)),
        (["run", "nowhere"], ("nowhere: does not exist",)),
        (["run", "set/annotations.json", "--out", "set"], ("set: is a folder", "--out")),
        (["run", "set/annotations.json", "--out", "set/annotations.json"], ("would be overwritten", "--out")),
        (["run", "set/images/0.png", "--overlay", "set/images/0.png"], ("would be overwritten", "--overlay")),
        (["run", "set", "--boxes", "set/annotations.json", "--out", "set/annotations.json"], ("would be overwritten",)),
        (["run", "set", "--out", "set/annotations.json/p.json"], ("is a file, not a folder",)),
        (["run", "set/annotations.json", "--boxes", "set/annotations.json"], ("brings its own boxes",)),
        (["run", "run/best/model.yaml"], ("model.yaml: is not an image",)),
    ],
)
def test_refusals(
    placl: Callable,
    run: Path,
    annotations: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*")), annotations.read_text()
    placl("predict", *arguments, "--quiet").refused(*words)
    assert (sorted(tmp_path.rglob("*")), annotations.read_text()) == before


def test_damaged_weights(placl: Callable, run: Path, annotations: Path) -> None:
    file = run / "best" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    placl("predict", run, annotations, "-q").refused(str(file), "is damaged")
