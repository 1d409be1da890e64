"""Frames of videos as files: one for each frame, whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from placl.data.formats import frames
from placl.data.formats.format import Options
from placl.data.formats.frames import frame_folder, frames_of, frames_root, is_whole, write_frame
from placl.errors import InputError, MachineError


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """8 frames; frame i is of grey value 30 * i."""
    writer = cv2.VideoWriter(str(tmp_path / "clip.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for i in range(8):
        writer.write(np.full((48, 64, 3), 30 * i, np.uint8))
    writer.release()
    return tmp_path / "clip.avi"


def value(image: Path) -> int:
    found = cv2.imread(str(image))
    assert found is not None
    return int(np.median(found))


def test_frames_by_number(clip: Path, tmp_path: Path) -> None:
    found = frames_of(clip, [5, 2, 40], tmp_path / "out")  # 40 is beyond the end
    assert list(found) == [5, 2]
    assert found[5] == frame_folder(clip, tmp_path / "out") / "clip_000005.png"
    np.testing.assert_allclose([value(found[5]), value(found[2])], [150, 60], atol=3)


def test_only_missing_frames_are_decoded(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = frames_of(clip, [1, 2, 3], tmp_path)
    asked: list[set[int]] = []
    decoded = frames.decoded

    def watched(video: Path, wanted: set[int]) -> object:
        asked.append(wanted)
        return decoded(video, wanted)

    monkeypatch.setattr(frames, "decoded", watched)
    assert frames_of(clip, [1, 2, 3], tmp_path) == first
    assert asked == []
    first[2].write_bytes(first[2].read_bytes()[:-1])
    assert not is_whole(first[2])
    assert set(frames_of(clip, [1, 2, 3, 4], tmp_path)) == {1, 2, 3, 4}
    assert asked == [{2, 4}]
    assert is_whole(first[2])


def test_decoding_ends_with_the_last_frame_that_is_wanted(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    decoded = frames.decoded

    def watched(video: Path, wanted: set[int]) -> object:
        for number, frame in enumerate(decoded(video, wanted)):
            seen.append(number)
            yield frame

    monkeypatch.setattr(frames, "decoded", watched)
    frames_of(clip, [2], tmp_path)
    assert seen == [0, 1, 2]


def test_the_folder_is_of_the_video_and_its_content(clip: Path, tmp_path: Path) -> None:
    folder = frame_folder(clip, tmp_path)
    assert folder.parent == tmp_path
    assert folder.name.startswith("clip-")
    (tmp_path / "link.avi").symlink_to(clip)
    assert frame_folder(tmp_path / "link.avi", tmp_path) == folder
    os.utime(clip, ns=(1, 1))
    assert frame_folder(clip, tmp_path) != folder
    with pytest.raises(InputError, match=r"none.avi: cannot be read \(No such file"):
        frame_folder(tmp_path / "none.avi", tmp_path)


def test_a_broken_video_and_a_file_in_the_way(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.avi").write_bytes(b"nothing")
    with pytest.raises(InputError, match="is not a video that can be opened"):
        frames_of(tmp_path / "bad.avi", [0], tmp_path / "out")
    (tmp_path / "out").touch()
    with pytest.raises(MachineError, match="cannot be written"):
        frames_of(clip, [0], tmp_path / "out")


def test_a_frame_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(MachineError, match="no space left"):
            write_frame(tmp_path / "a.png", np.zeros((4, 4, 3), np.uint8))
    assert list(tmp_path.iterdir()) == []
    write_frame(tmp_path / "a.png", np.zeros((4, 4), np.uint8))
    assert is_whole(tmp_path / "a.png")
    assert not is_whole(tmp_path / "b.png")


def test_grey_frames_are_grey_files(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (4, 5), dtype=np.uint8)
    colour = np.stack([grey, grey, grey ^ 1], axis=2)
    for name, image in (("a", grey), ("b", np.repeat(grey[..., None], 3, axis=2)), ("c", colour)):
        write_frame(tmp_path / name, image)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert np.array_equal(cv2.imread(str(tmp_path / "c"), cv2.IMREAD_UNCHANGED), colour)


def test_where_frames_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACL_CACHE", str(tmp_path / "cache"))
    assert frames_root(Options()) == tmp_path / "cache" / "frames"
    assert frames_root(Options(frames=tmp_path)) == tmp_path
