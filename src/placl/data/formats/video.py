"""Videos: a file, or a folder of them. Frames are sampled into image files, each one unlabelled instance.

Headers lie about the number of frames and seeking is not exact, so a video is decoded from its first frame to its
last. A set of frames appears whole or not at all, and is used again as long as its video has not changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from placl.data.formats.folder import SUFFIXES as IMAGES
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.frame_sampling import diverse, evenly, moving
from placl.data.instances import plain_instances
from placl.errors import InputError
from placl.files import disk_errors

VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")
SAMPLINGS = ("even", "motion", "diverse")
THUMBNAIL = 32  # side, pixels
MOST_THUMBNAILS = 8192  # kept to choose from; a longer video is thinned out, so memory does not grow with it
CUT_OFF = 0.95  # a video with less than this share of the frames that its header promises is worth a note
MARKER = ".frames.json"


@dataclass(frozen=True)
class FrameSet:
    """The frames of one video on the disk."""

    images: tuple[Path, ...]
    numbers: tuple[int, ...]  # of the frames, counted from 0
    notes: tuple[str, ...]


def sample_video(video: Path, root: Path, count: int, sampling: str) -> FrameSet:
    """Frames of a video in a folder of their own below ``root``; those of the last time if they are still right."""
    try:
        status = video.stat()
    except OSError as error:
        raise InputError(f"{video}: cannot be read ({error.strerror}).") from error
    key = f"{video.resolve()}|{status.st_size}|{status.st_mtime_ns}|{count}|{sampling}"
    folder = root / f"{video.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    kept = _finished(folder)
    if kept is not None:
        return kept
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    with disk_errors(folder):
        try:
            partial.mkdir(parents=True)
            _extract(video, partial, count, sampling)
            shutil.rmtree(folder, ignore_errors=True)  # a set that has lost files
            partial.rename(folder)
        except OSError:
            kept = _finished(folder)  # another process may have been faster
            if kept is None:
                raise
            return kept
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    made = _finished(folder)
    assert made is not None
    return made


def _finished(folder: Path) -> FrameSet | None:
    """The set in a folder, if all its files are there in their full size."""
    try:
        record = json.loads((folder / MARKER).read_bytes())
        files = tuple(folder / name for name in record["files"])
        if not all(file.stat().st_size == size for file, size in zip(files, record["sizes"], strict=True)):
            return None
        return FrameSet(files, tuple(record["numbers"]), tuple(record["notes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _extract(video: Path, folder: Path, count: int, sampling: str) -> None:
    promised = _promised(video)
    if sampling == "even":
        # The header is believed at first: if it was right, one pass through the video is enough.
        chosen = evenly(promised, count)
        length = _save(video, folder, chosen)
        if length != promised:
            for file in folder.iterdir():
                file.unlink()
            chosen = evenly(length, count)
            _save(video, folder, chosen)
    else:
        chosen, length = _most_moving(video, count) if sampling == "motion" else _most_diverse(video, count)
        _save(video, folder, chosen)
    files = sorted(folder.iterdir())
    if not files:
        raise InputError(f"{video}: no frame can be decoded. It may be empty, cut off, or of a codec unknown here.")
    record = {
        "files": [file.name for file in files],
        "sizes": [file.stat().st_size for file in files],
        "numbers": [int(file.stem.rsplit("_", 1)[1]) for file in files],
        "notes": _notes(video, length, promised, len(files), count),
    }
    (folder / MARKER).write_text(json.dumps(record))


def _notes(video: Path, length: int, promised: int, taken: int, count: int) -> list[str]:
    notes = []
    if length < CUT_OFF * promised:
        notes.append(f"{video.name}: its header promises {promised} frames, {length} can be decoded; is it cut off?")
    if taken < min(count, length):
        notes.append(f"{video.name}: {count} frames were asked for, but only {taken} of its {length} differ.")
    elif taken < count:
        notes.append(f"{video.name}: {count} frames were asked for, it has {length}; all are taken.")
    return notes


def _save(video: Path, folder: Path, chosen: np.ndarray) -> int:
    """Write the chosen frames and return how many the video has."""
    length = 0
    for number, frame in enumerate(_frames(video, set(chosen.tolist()))):
        length += 1
        if frame is not None:
            content = cv2.imencode(".png", frame)[1]
            (folder / f"{video.stem}_{number:06d}.png").write_bytes(content.tobytes())
    return length


def _most_moving(video: Path, count: int) -> tuple[np.ndarray, int]:
    change: list[float] = []  # how much each frame differs from the one before
    before: np.ndarray | None = None
    for frame in _frames(video):
        now = before if frame is None else _thumbnail(frame).astype(np.float32)
        change.append(0.0 if before is None or now is None else float(np.abs(now - before).mean()))
        before = now
    return moving(np.array(change), count), len(change)


def _most_diverse(video: Path, count: int) -> tuple[np.ndarray, int]:
    most, step, length = max(MOST_THUMBNAILS, 4 * count), 1, 0
    numbers: list[int] = []
    thumbnails: list[np.ndarray] = []
    for number, frame in enumerate(_frames(video)):
        length += 1
        if number % step == 0 and frame is not None:
            numbers.append(number)
            thumbnails.append(_thumbnail(frame))
        if len(numbers) > most:  # from now on, half as dense
            step, numbers, thumbnails = 2 * step, numbers[::2], thumbnails[::2]
    if not numbers:
        return np.zeros(0, np.int64), length
    points = np.stack(thumbnails).reshape(len(numbers), -1).astype(np.float32)  # (T, 32 * 32)
    return np.array(numbers)[diverse(points, count)], length


def _thumbnail(frame: np.ndarray) -> np.ndarray:
    """(32, 32) uint8 grey."""
    small = cv2.resize(frame, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY))


def _frames(video: Path, wanted: Container[int] | None = None) -> Iterator[np.ndarray | None]:
    """(H, W, 3) uint8 BGR of every frame, None for those that are not wanted or cannot be decoded."""
    capture = _open(video)
    try:
        number = 0
        while capture.grab():
            good, frame = capture.retrieve() if wanted is None or number in wanted else (False, None)
            yield np.asarray(frame) if good else None
            number += 1
    finally:
        capture.release()


def _promised(video: Path) -> int:
    """The number of frames as the header has it; it may be anything."""
    capture = _open(video)
    promised = capture.get(cv2.CAP_PROP_FRAME_COUNT)
    capture.release()
    return int(promised) if 0 < promised < 2**40 else 0


def _open(video: Path) -> cv2.VideoCapture:
    # What is wrong is said once, by us. FFmpeg alone: other backends take clip%03d.mp4 for a series of images.
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    capture = cv2.VideoCapture(str(video), cv2.CAP_FFMPEG)
    if not capture.isOpened():
        capture.release()
        raise InputError(f"{video}: is not a video that can be opened. It may be empty, cut off or of another format.")
    return capture


def read_videos(path: Path, options: Options) -> Found:
    """``options.count`` frames of each video as instances of their own; videos that are broken are left out."""
    if options.sampling not in SAMPLINGS:
        raise InputError(f'sampling "{options.sampling}" is unknown. Known are {", ".join(SAMPLINGS)}.')
    if options.count < 1:
        raise InputError(f"{options.count} frames cannot be taken from a video. Ask for one at least.")
    names = _video_names(path)
    base = path if path.is_dir() else path.parent
    from placl.data.load import default_cache  # which imports the formats

    root = options.frames or default_cache() / "frames"
    images: list[Path] = []
    ids: list[str] = []
    notes: list[str] = []
    for name in names:
        try:
            found = sample_video(base / name, root, options.count, options.sampling)
        except InputError as error:
            if len(names) == 1:
                raise
            notes.append(f"{error} It is left out.")
            continue
        images += found.images
        ids += [f"{name}#{number:06d}" for number in found.numbers]
        notes += found.notes
    if not images:
        raise InputError(f"{path}: none of its {len(names)} videos can be read. {notes[0]}")
    n = len(images)
    whole, area = np.full((n, 4), np.nan), np.full(n, np.nan, np.float32)
    return Found(plain_instances(tuple(images), tuple(ids), np.arange(n, dtype=np.int64), whole, area), tuple(notes))


def _video_names(path: Path) -> list[str]:
    """Sorted, relative to the folder, with forward slashes on every system."""
    if path.is_file():
        return [path.name]
    if not path.is_dir():
        raise InputError(f"{path}: does not exist. Pass a video or a folder of videos.")
    names = sorted(name for name in _visible(path) if name.lower().endswith(VIDEOS))
    if not names:
        raise InputError(f"{path}: holds no videos. Known are {', '.join(VIDEOS)}.")
    return names


def _visible(path: Path) -> Iterator[str]:
    """Files below a folder, hidden ones aside."""
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from ((Path(folder) / name).relative_to(path).as_posix() for name in files if not name.startswith("."))


def _claims(path: Path) -> bool:
    if path.is_file():
        return path.name.lower().endswith(VIDEOS) and not path.name.startswith(".")
    if not path.is_dir():
        return False
    videos = False
    for name in _visible(path):
        if name.lower().endswith(IMAGES):
            return False
        videos = videos or name.lower().endswith(VIDEOS)
    return videos


FORMAT = Format("video", "videos", _claims, read_videos, None)
