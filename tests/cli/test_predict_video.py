"""``placl predict`` on a video: what it writes in which format, what it says, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from films import film_frame, read_film, write_film


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """12 frames in a folder of their own."""
    return write_film(tmp_path / "in" / "film.avi", [film_frame((60 + 3 * i, 80)) for i in range(12)])


def test_results_and_a_video(placl: Callable, run: Path, film: Path, tmp_path: Path) -> None:
    ended = placl("predict", run, film, "--out", tmp_path / "o" / "p.json")
    assert ended.code == 0
    first, second = ended.out.splitlines()
    assert first.startswith("12 instances in 12 frames (")
    assert first.endswith(f" frames/s): {tmp_path / 'o' / 'p.json'}")
    assert second == f"video: {tmp_path / 'o' / 'p_overlay.mp4'}"
    records = json.loads((tmp_path / "o" / "p.json").read_text())
    assert [record["frame_index"] for record in records] == list(range(12))
    assert len(read_film(tmp_path / "o" / "p_overlay.mp4")) == 12
    assert sorted(file.name for file in (tmp_path / "o").iterdir()) == ["p.json", "p_overlay.mp4"]


def test_results_that_are_called_as_the_video(placl: Callable, run: Path, film: Path) -> None:
    clip = film.rename(film.with_suffix(".mp4"))
    assert placl("predict", run, clip, "--out", clip.with_suffix(".csv")).code == 0
    assert sorted(file.name for file in clip.parent.iterdir()) == ["film.csv", "film.mp4", "film_overlay.mp4"]


@pytest.mark.parametrize(
    ("arguments", "name", "kind"),
    [
        (["--out", "p.csv"], "p.csv", "csv"),
        (["--out", "p.h5"], "p.h5", "deeplabcut"),
        (["--out", "p.csv", "--format", "deeplabcut"], "p.csv", "deeplabcut"),
        (["--format", "sleap", "--track"], "predictions.slp", "sleap"),
    ],
)
def test_formats(
    placl: Callable,
    run: Path,
    film: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    name: str,
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    told = json.loads(placl("predict", run, film, "--no-draw", "--json", *arguments).out)
    assert (told["format"], told["predictions"], told["overlay"]) == (kind, name, [])
    assert (told["frames"], told["promised_frames"], told["instances"]) == (12, 12, 12)
    assert told["frames_per_second"] > 0
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["in", "run", name])


def test_a_video_that_is_cut_off(placl: Callable, run: Path, film: Path, tmp_path: Path) -> None:
    content = film.read_bytes()
    film.write_bytes(content[: len(content) // 2])
    ended = placl("predict", run, film, "--out", tmp_path / "p.json", "--overlay", tmp_path / "o.avi")
    assert ended.code == 0
    n = len(read_film(tmp_path / "o.avi"))
    assert 1 < n < 12
    assert ended.out.startswith(f"{n} instances in {n} of 12 promised frames")
    assert ended.err == f"film.avi: its header promises 12 frames, {n} came. What is missing is cut off or damaged.\n"


def test_an_interruption_leaves_no_half_file(
    placl: Callable, run: Path, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placl.video import prediction

    calls: list[int] = []
    look = prediction.look

    def interrupted(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return look(*arguments)

    monkeypatch.setattr(prediction, "look", interrupted)
    ended = placl("predict", run, film, "--track", "--out", tmp_path / "o" / "p.json")
    ended.refused("placl: interrupted.", code=130)
    assert list((tmp_path / "o").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["in/words.mp4"], ("in/words.mp4: is not a video that can be opened",)),
        (["in/nothing.mp4"], ("in/nothing.mp4: does not exist",)),
        (["in/film.avi", "--overlay", "o.png"], ("o.png: the overlay of a video is a video", ".mp4")),
        (["in/film.avi", "--overlay", "in"], ("in: is a folder", "--overlay")),
        (["in/film.avi", "--overlay", "in/film.avi"], ("would be overwritten", "--overlay")),
        (["in/film.avi", "--out", "p.txt"], ("p.txt: its suffix tells no format",)),
        (["in/film.avi", "--out", "p.csv", "--format", "coco"], ("p.csv: a file of format coco is called .json",)),
        (["in/film.avi", "--format", "yolo"], ('format "yolo" is unknown',)),
        (["in/film.avi", "--boxes", "in/words.mp4"], ("in/words.mp4: is not JSON",)),
        (["set", "--track"], ("set: is not a video", "--track")),
        (["set", "--overlay", "o.mp4"], ("o.mp4: set is not a video", ".png")),
    ],
)
def test_refusals(
    placl: Callable,
    run: Path,
    annotations: Path,
    film: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in/words.mp4").write_text("words")
    before = sorted(tmp_path.rglob("*"))
    placl("predict", "run", *arguments, "--quiet").refused(*words)
    assert sorted(tmp_path.rglob("*")) == before
