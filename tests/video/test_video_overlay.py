"""Videos of predictions: as many frames as the source, at its rate, of its size."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from dots import DOTS
from films import film_frame, read_film
from placl.data.formats.frames import video_head
from placl.data.skeleton import Skeleton
from placl.errors import InputError, MachineError
from placl.overlay import LEFT, MIDDLE, RIGHT
from placl.video.overlay import overlay_video

POINTS = np.array([[[20.0, 30.0], [50.0, 40.0], [70.0, 20.0]]])
SURE = np.ones((1, 3), np.float32)
WHOLE = np.array([[0.0, 0.0, 96.0, 64.0]])
NO_EDGES = Skeleton(DOTS.keypoints, flip_pairs=DOTS.flip_pairs)


def write(path: Path, frames: list[np.ndarray | None], fps: float = 25.0, threshold: float = 0.0) -> list[np.ndarray]:
    with overlay_video(path, fps, NO_EDGES, threshold) as show:
        for frame in frames:
            show(frame, POINTS, SURE * 0.5, WHOLE)
    return read_film(path)


def grey(width: int = 96, height: int = 64) -> np.ndarray:
    return np.full((height, width, 3), 90, np.uint8)


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".avi"])
@pytest.mark.parametrize("fps", [0.5, 12.3, 30000 / 1001, 250])
def test_frames_rate_and_size(tmp_path: Path, suffix: str, fps: float) -> None:
    path = tmp_path / f"o{suffix}"
    shown = write(path, [grey()] * 7, fps)
    assert [frame.shape for frame in shown] == [(64, 96, 3)] * 7
    assert video_head(path).fps == pytest.approx(fps, abs=1e-3)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_keypoints_are_drawn_where_they_are(tmp_path: Path) -> None:
    (shown,) = write(tmp_path / "o.mp4", [grey()])
    for (x, y), colour in zip(POINTS[0].astype(int), (LEFT, MIDDLE, RIGHT), strict=True):
        assert np.abs(shown[y, x].astype(int) - colour).max() < 60  # colours suffer from the codec
    assert np.abs(shown[55:].astype(int) - 90).max() < 10


def test_weak_keypoints_are_left_out(tmp_path: Path) -> None:
    (shown,) = write(tmp_path / "o.mp4", [grey()], threshold=0.6)
    assert np.abs(shown.astype(int) - 90).max() < 10


@pytest.mark.parametrize(("width", "height"), [(97, 64), (96, 65), (97, 65), (1, 1)])
def test_odd_sides_get_a_pixel_more(tmp_path: Path, width: int, height: int) -> None:
    shown = write(tmp_path / "o.mp4", [grey(width, height)] * 3)
    assert [frame.shape[:2] for frame in shown] == [(height + height % 2, width + width % 2)] * 3
    assert shown[0][-1].mean() > 60  # not black


def test_a_frame_of_another_size_is_brought_to_the_first_ones(tmp_path: Path) -> None:
    shown = write(tmp_path / "o.mp4", [grey(), grey(48, 32), grey()])
    assert [frame.shape for frame in shown] == [(64, 96, 3)] * 3


@pytest.mark.parametrize("fps", [0.0, 1e9])
def test_a_rate_that_is_none(tmp_path: Path, fps: float) -> None:
    assert len(write(tmp_path / "o.mp4", [grey()] * 3, fps)) == 3
    assert video_head(tmp_path / "o.mp4").fps == 25


def test_an_older_video_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "o.mp4"
    write(path, [grey()] * 3)

    def fail() -> None:
        with overlay_video(path, 25, DOTS) as show:
            show(film_frame(None), POINTS, SURE, WHOLE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [file.name for file in tmp_path.iterdir()] == ["o.mp4"]
    assert len(read_film(path)) == 3


def test_frames_that_the_disk_did_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placl.video.overlay.promised_length", lambda path: 2)
    with pytest.raises(MachineError, match=r"o\.mp4: only 2 of 3 frames could be written"):
        write(tmp_path / "o.mp4", [grey()] * 3)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cv2.VideoWriter, "isOpened", lambda self: False)
    with pytest.raises(MachineError, match="no video of 96 x 64 pixels can be written there"):
        write(tmp_path / "o.mp4", [grey()])


@pytest.mark.parametrize("name", ["o.png", "o", "o.gif"])
def test_names_that_are_no_video(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"the overlay of a video is a video\. Name one of \.mp4, \.mov, \.avi"):
        write(tmp_path / name, [grey()])
