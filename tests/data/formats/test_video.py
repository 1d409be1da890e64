"""Videos: which frames are taken, where they are kept, and what is said of broken ones."""

import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from placl.data.formats import frames, video
from placl.data.formats.format import Options
from placl.data.formats.video import FORMAT, read_videos
from placl.errors import InputError, MachineError

SIDE = 64
PATHS = {"PYTHONPATH": os.pathsep.join(sys.path)}


def numbered(number: int, scene: int = 0) -> np.ndarray:
    """A frame whose 4x4 blocks spell its number in black and white, on which compression has no hold."""
    bits = [(number >> i & 1) * 200 + 25 for i in range(8)] + [scene * 200 + 25] * 8
    return np.kron(np.array(bits, np.uint8).reshape(4, 4), np.ones((SIDE // 4, SIDE // 4), np.uint8))


def number_of(path: Path) -> int:
    image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    assert image is not None
    middles = image[SIDE // 8 :: SIDE // 4, SIDE // 8 :: SIDE // 4].reshape(-1)
    return sum(int(middle > 125) << i for i, middle in enumerate(middles[:8]))


def write(path: Path, frames: list[np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    codec = cv2.VideoWriter_fourcc(*("MJPG" if path.suffix == ".avi" else "mp4v"))
    writer = cv2.VideoWriter(str(path), codec, 25, (SIDE, SIDE))
    for frame in frames:
        writer.write(cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR))
    writer.release()
    return path


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """100 frames that can be told apart."""
    return write(tmp_path / "in" / "clip.mp4", [numbered(i) for i in range(100)])


def options(tmp_path: Path, count: int, sampling: str = "even") -> Options:
    return Options(frames=tmp_path / "frames", count=count, sampling=sampling)


@pytest.mark.parametrize("suffix", [".mp4", ".avi"])
def test_even_frames_are_the_ones_named(tmp_path: Path, suffix: str) -> None:
    clip = write(tmp_path / f"clip{suffix}", [numbered(i) for i in range(100)])
    found = read_videos(clip, options(tmp_path, 5))
    instances = found.instances
    assert instances.ids == tuple(f"clip{suffix}#0000{n}" for n in (10, 30, 50, 70, 90))
    assert [image.name for image in instances.images] == [f"clip_0000{n}.png" for n in (10, 30, 50, 70, 90)]
    assert [number_of(image) for image in instances.images] == [10, 30, 50, 70, 90]
    assert instances.images[0].is_relative_to(tmp_path / "frames")
    assert np.isnan(instances.boxes).all()
    assert instances.skeleton is None
    assert found.notes == ()


@pytest.mark.parametrize("sampling", ["even", "motion", "diverse"])
def test_a_short_video_gives_all_it_has(tmp_path: Path, sampling: str) -> None:
    clip = write(tmp_path / "short.avi", [numbered(i) for i in range(7)])
    found = read_videos(clip, options(tmp_path, 20, sampling))
    assert [number_of(image) for image in found.instances.images] == list(range(7))
    assert found.notes == ("short.avi: 20 frames were asked for, it has 7; all are taken.",)


def test_motion_leaves_still_passages_out(tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.avi", [numbered(0)] * 150 + [numbered(i) for i in range(50)])
    found = read_videos(clip, options(tmp_path, 10, "motion"))
    taken = [int(name.split("#")[1]) for name in found.instances.ids]
    assert len(taken) == 10
    assert sum(number < 150 for number in taken) <= 1


def test_diverse_takes_one_frame_of_each_scene(tmp_path: Path) -> None:
    scenes = [3] * 40 + [80] * 5 + [17] * 20 + [200] * 10 + [3] * 20
    clip = write(tmp_path / "clip.avi", [numbered(scene) for scene in scenes])
    found = read_videos(clip, options(tmp_path, 4, "diverse"))
    assert sorted(number_of(image) for image in found.instances.images) == [3, 17, 80, 200]


def test_diverse_says_when_frames_are_copies(tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.avi", [numbered(scene) for scene in [1] * 10 + [2] * 10])
    found = read_videos(clip, options(tmp_path, 4, "diverse"))
    assert sorted(number_of(image) for image in found.instances.images) == [1, 2]
    assert found.notes == ("clip.avi: 4 frames were asked for, but only 2 of its 20 differ.",)


def test_a_long_video_is_thinned_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "MOST_THUMBNAILS", 16)
    scenes = [1] * 60 + [2] * 60 + [4] * 80
    clip = write(tmp_path / "clip.avi", [numbered(scene) for scene in scenes])
    found = read_videos(clip, options(tmp_path, 3, "diverse"))
    assert sorted(number_of(image) for image in found.instances.images) == [1, 2, 4]


@pytest.mark.parametrize("promised", [0, 12, 5000])
def test_headers_that_lie_do_no_harm(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, promised: int
) -> None:
    monkeypatch.setattr(video, "promised_length", lambda _: promised)
    found = read_videos(clip, options(tmp_path, 5))
    assert [number_of(image) for image in found.instances.images] == [10, 30, 50, 70, 90]
    cut = ("clip.mp4: its header promises 5000 frames, 100 can be decoded; is it cut off?",)
    assert found.notes == (cut if promised == 5000 else ())
    assert sorted(path.name for path in found.instances.images[0].parent.glob("*.png")) == [
        f"clip_0000{n}.png" for n in (10, 30, 50, 70, 90)
    ]  # and none that the header had led to
    assert len(list((tmp_path / "frames").iterdir())) == 1


def test_a_video_that_breaks_off(tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.avi", [numbered(i) for i in range(200)])
    clip.write_bytes(clip.read_bytes()[: clip.stat().st_size // 2])
    found = read_videos(clip, options(tmp_path, 10))
    numbers = [int(name.split("#")[1]) for name in found.instances.ids]
    assert [number_of(image) for image in found.instances.images] == numbers
    assert len(numbers) == 10
    assert numbers[-1] < 110


def test_frames_are_used_again(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_videos(clip, options(tmp_path, 5))
    with monkeypatch.context() as patch:
        patch.setattr(frames, "open_video", lambda *_: pytest.fail("decoded again"))
        again = read_videos(clip, options(tmp_path, 5))
    assert (again.instances.images, again.instances.ids) == (first.instances.images, first.instances.ids)
    write(clip, [numbered(255 - i) for i in range(100)])
    os.utime(clip, ns=(1, 1))
    changed = read_videos(clip, options(tmp_path, 5))
    assert [number_of(image) for image in changed.instances.images] == [245, 225, 205, 185, 165]


def test_a_frame_is_one_image_however_it_was_chosen(clip: Path, tmp_path: Path) -> None:
    """Otherwise it could be in both halves of the unlabelled images, or labelled and unlabelled."""
    few = read_videos(clip, options(tmp_path, 10)).instances  # 5, 15, ..., 95
    before = {image: image.stat().st_mtime_ns for image in few.images}
    many = read_videos(clip, options(tmp_path, 50)).instances  # 1, 3, ..., 99
    assert set(few.images) < set(many.images)
    assert len(read_videos(clip, options(tmp_path, 100, "motion")).instances) == 100
    moving = read_videos(clip, options(tmp_path, 60, "motion")).instances
    assert moving.images[0].parent == few.images[0].parent
    assert len(list(few.images[0].parent.glob("*.png"))) == 100
    assert {image: image.stat().st_mtime_ns for image in few.images} == before  # used again
    link = tmp_path / "link.mp4"
    link.symlink_to(clip)
    assert read_videos(link, options(tmp_path, 10)).instances.images == few.images


@pytest.mark.parametrize("sampling", video.SAMPLINGS)
@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "no numbers", "bad numbers", "other numbers"])
def test_what_got_lost_is_made_anew(clip: Path, tmp_path: Path, damage: str, sampling: str) -> None:
    first = read_videos(clip, options(tmp_path, 5, sampling)).instances
    image = first.images[2]
    (numbers,) = image.parent.glob(".*.json")
    if damage == "gone":
        image.unlink()
    elif damage in ("cut", "empty"):
        image.write_bytes(image.read_bytes()[: 50 if damage == "cut" else 0])
    elif damage == "no numbers":
        numbers.unlink()
    else:
        bad = '{"numbers": [1, 500], "length": 100, "promised": 100}'
        numbers.write_text("[[1" if damage == "bad numbers" else bad)
    found = read_videos(clip, options(tmp_path, 5, sampling)).instances
    assert found.images == first.images
    assert [number_of(image) for image in found.images] == [int(name.split("#")[1]) for name in found.ids]


def test_an_interrupted_extraction_leaves_nothing_half_done(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = frames.write_frame

    def interrupted(file: Path, image: np.ndarray) -> None:
        if file.name == "clip_000050.png":
            raise KeyboardInterrupt
        written(file, image)

    for module in (frames, video):
        monkeypatch.setattr(module, "write_frame", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_videos(clip, options(tmp_path, 5))
    assert [path for path in (tmp_path / "frames").rglob("*") if path.is_file()] == []
    monkeypatch.undo()
    assert len(read_videos(clip, options(tmp_path, 5)).instances) == 5


def test_frames_go_to_the_cache_unless_told(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACL_CACHE", str(tmp_path / "cache"))
    found = read_videos(clip, Options(count=2))
    assert all(image.is_relative_to(tmp_path / "cache" / "frames") for image in found.instances.images)


def test_a_folder_of_videos(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in ("b.avi", "day 1/clip.avi", "day 2/clip.avi", ".hidden/clip.avi"):
        write(folder / name, [numbered(i) for i in range(4)])
    (folder / "broken.mp4").write_bytes(b"nothing")
    found = read_videos(folder, options(tmp_path, 2))
    names = [f"{name}#00000{i}" for name in ("b.avi", "day 1/clip.avi", "day 2/clip.avi") for i in (1, 3)]
    assert found.instances.ids == tuple(names)
    assert [number_of(image) for image in found.instances.images] == [1, 3] * 3
    assert len(found.notes) == 1
    assert found.notes[0].startswith(f"{folder / 'broken.mp4'}: is not a video that can be opened")


def test_what_is_claimed(clip: Path, tmp_path: Path) -> None:
    assert FORMAT.claims(clip)
    assert FORMAT.claims(clip.parent)
    assert not FORMAT.claims(tmp_path / "none.mp4")
    (clip.parent / "notes.txt").touch()
    assert FORMAT.claims(clip.parent)
    assert not FORMAT.claims(clip.parent / "notes.txt")
    (clip.parent / "a").mkdir()
    assert not FORMAT.claims(clip.parent / "a")
    (clip.parent / "a" / "b.PNG").touch()
    assert not FORMAT.claims(clip.parent)


@pytest.mark.parametrize("content", [b"", b"no video" * 500])
@pytest.mark.parametrize("sampling", video.SAMPLINGS)
def test_a_broken_video(tmp_path: Path, content: bytes, sampling: str) -> None:
    (tmp_path / "bad.mp4").write_bytes(content)
    with pytest.raises(InputError, match="is not a video that can be opened") as caught:
        read_videos(tmp_path / "bad.mp4", options(tmp_path, 5, sampling))
    assert str(caught.value).startswith(str(tmp_path / "bad.mp4"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "frames").exists()


def test_ffmpeg_keeps_silent(tmp_path: Path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video" * 500)
    # In a process of its own: FFmpeg asks once whether it may talk, and here another test may have been first.
    code = (
        "import sys; from pathlib import Path; from placl.data.formats import frames\n"
        "try: frames.open_video(Path(sys.argv[1]))\n"
        "except frames.InputError: print('refused')"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "bad.mp4")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | PATHS)
    assert (done.stdout, done.stderr) == ("refused\n", "")


@pytest.mark.parametrize("sampling", video.SAMPLINGS)
def test_a_video_without_frames(tmp_path: Path, sampling: str, monkeypatch: pytest.MonkeyPatch, clip: Path) -> None:
    for module in (frames, video):
        monkeypatch.setattr(module, "decoded", lambda *_: iter(()))
    with pytest.raises(InputError, match="no frame can be decoded"):
        read_videos(clip, options(tmp_path, 5, sampling))


def test_bad_requests(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'sampling "odd" is unknown\. Known are even, motion, diverse'):
        read_videos(clip, options(tmp_path, 5, "odd"))
    with pytest.raises(InputError, match="0 frames cannot be taken"):
        read_videos(clip, options(tmp_path, 0))
    with pytest.raises(InputError, match="does not exist"):
        read_videos(tmp_path / "none", options(tmp_path, 5))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no videos"):
        read_videos(tmp_path / "empty", options(tmp_path, 5))
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / "empty" / name).touch()
    with pytest.raises(InputError, match="none of its 2 videos can be read"):
        read_videos(tmp_path / "empty", options(tmp_path, 5))


def test_a_file_in_the_way_is_one_line(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "frames").touch()
    with pytest.raises(MachineError, match="cannot be written"):
        read_videos(clip, options(tmp_path, 5))


@pytest.mark.realdata
@pytest.mark.parametrize("sampling", video.SAMPLINGS)
@pytest.mark.parametrize(
    ("name", "length", "size"),
    [
        ("lightning_pose/videos/test_vid.mp4", 994, (406, 396)),
        ("sleap/centered_pair_low_quality.mp4", 1100, (384, 384)),
    ],
)
def test_real_videos(
    shared: Path, tmp_path: Path, name: str, length: int, size: tuple[int, int], sampling: str
) -> None:
    found = read_videos(shared / "formats" / name, options(tmp_path, 12, sampling))
    numbers = [int(identity.split("#")[1]) for identity in found.instances.ids]
    assert len(set(numbers)) == 12
    assert numbers == sorted(numbers)
    assert numbers[-1] < length
    image = cv2.imread(str(found.instances.images[0]))
    assert image is not None
    assert image.shape[:2] == size
    assert found.notes == ()
