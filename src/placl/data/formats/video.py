"""Videos: a file, or a folder of them. Frames are sampled into image files, each one unlabelled instance.

Which frames were chosen is kept beside them, so that the next start need not decode a video that has not changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from placl.data.formats.folder import SUFFIXES as IMAGES
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.frame_sampling import diverse, evenly, moving
from placl.data.formats.frames import (
    VIDEOS,
    decoded,
    frame_file,
    frame_folder,
    frames_of,
    frames_root,
    is_whole,
    promised_length,
    write_frame,
)
from placl.data.instances import plain_instances
from placl.errors import InputError
from placl.files import disk_errors, write_atomic

SAMPLINGS = ("even", "motion", "diverse")
THUMBNAIL = 32  # side, pixels
MOST_THUMBNAILS = 8192  # kept to choose from; a longer video is thinned out, so memory does not grow with it
CUT_OFF = 0.95  # a video with less than this share of the frames that its header promises is worth a note


@dataclass(frozen=True)
class FrameSet:
    """The frames of one video on the disk."""

    images: tuple[Path, ...]
    numbers: tuple[int, ...]  # of the frames, counted from 0
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Choice:
    numbers: list[int]
    length: int  # frames that can be decoded
    promised: int  # by the header


def sample_video(video: Path, root: Path, count: int, sampling: str) -> FrameSet:
    """Frames of a video in its folder below ``root``; those of the last time if they are still right."""
    record = frame_folder(video, root) / f".{sampling}-{count}.json"
    choice = _kept(record)
    files = frames_of(video, choice.numbers, root) if choice is not None else {}
    if choice is None or len(files) < len(choice.numbers):
        choice = _choose(video, root, count, sampling)
        files = frames_of(video, choice.numbers, root)
        if not files:
            raise InputError(f"{video}: no frame can be decoded. It may be empty, cut off, or of a codec unknown here.")
        write_atomic(record, json.dumps(asdict(replace(choice, numbers=list(files)))))
    return FrameSet(tuple(files.values()), tuple(files), tuple(_notes(video, choice, len(files), count)))


def _kept(record: Path) -> _Choice | None:
    """What was chosen the last time, if the file is there and right."""
    try:
        choice = _Choice(**json.loads(record.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    right = isinstance(choice.numbers, list) and {type(number) for number in choice.numbers} == {int}
    return choice if right and type(choice.length) is type(choice.promised) is int else None


def _choose(video: Path, root: Path, count: int, sampling: str) -> _Choice:
    promised = promised_length(video)
    if sampling == "even":
        chosen, length = _even(video, frame_folder(video, root), count, promised)
    else:
        chosen, length = _most_moving(video, count) if sampling == "motion" else _most_diverse(video, count)
    return _Choice(chosen.tolist(), length, promised)


def _even(video: Path, folder: Path, count: int, promised: int) -> tuple[np.ndarray, int]:
    """The header is believed at first: if it was right, one pass is enough, and its frames are put into their places.

    If it was wrong, they are frames that nobody has asked for, and must not stay.
    """
    chosen, length = evenly(promised, count), 0
    files = {number: frame_file(folder, number) for number in chosen.tolist()}
    missing = {number for number, file in files.items() if not is_whole(file)}
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", suffix=".part", dir=folder) as part:
            for number, frame in enumerate(decoded(video, missing)):
                length += 1
                if frame is not None:
                    write_frame(Path(part) / files[number].name, frame)
            if length == promised:
                for file in Path(part).iterdir():
                    os.replace(file, folder / file.name)
    return evenly(length, count), length


def _notes(video: Path, choice: _Choice, taken: int, count: int) -> list[str]:
    length, notes = choice.length, []
    if length < CUT_OFF * choice.promised:
        notes.append(
            f"{video.name}: its header promises {choice.promised} frames, {length} can be decoded; is it cut off?"
        )
    if taken < min(count, length):
        notes.append(f"{video.name}: {count} frames were asked for, but only {taken} of its {length} differ.")
    elif taken < count:
        notes.append(f"{video.name}: {count} frames were asked for, it has {length}; all are taken.")
    return notes


def _most_moving(video: Path, count: int) -> tuple[np.ndarray, int]:
    change: list[float] = []  # how much each frame differs from the one before
    before: np.ndarray | None = None
    for frame in decoded(video):
        now = before if frame is None else _thumbnail(frame).astype(np.float32)
        change.append(0.0 if before is None or now is None else float(np.abs(now - before).mean()))
        before = now
    return moving(np.array(change), count), len(change)


def _most_diverse(video: Path, count: int) -> tuple[np.ndarray, int]:
    most, step, length = max(MOST_THUMBNAILS, 4 * count), 1, 0
    numbers: list[int] = []
    thumbnails: list[np.ndarray] = []
    for number, frame in enumerate(decoded(video)):
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


def read_videos(path: Path, options: Options) -> Found:
    """``options.count`` frames of each video as instances of their own; videos that are broken are left out."""
    if options.sampling not in SAMPLINGS:
        raise InputError(f'sampling "{options.sampling}" is unknown. Known are {", ".join(SAMPLINGS)}.')
    if options.count < 1:
        raise InputError(f"{options.count} frames cannot be taken from a video. Ask for one at least.")
    names = _video_names(path)
    base = path if path.is_dir() else path.parent
    root = frames_root(options)
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
