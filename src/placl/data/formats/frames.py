"""Frames of videos as image files. A frame is one file, whoever asks for it and why: so that it is one image.

Headers lie about the number of frames and seeking is not exact, so a video is decoded from its first frame on. Files
lie in a folder for each video as it is now, appear whole or not at all, and are used again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from placl.data.formats.format import Options
from placl.data.images import quieten_opencv
from placl.errors import InputError
from placl.files import disk_errors

VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")
PNG_END = b"IEND\xaeB`\x82"  # of a file that nothing is missing from


@dataclass(frozen=True)
class VideoHead:
    """What a video's header says; it may be anything."""

    promised: int  # number of frames; 0 if it does not tell
    fps: float  # 0 if it does not tell


def frames_root(options: Options) -> Path:
    """Where the folders of frames are, unless told: beside the other things that can be made again."""
    from placl.data.load import default_cache  # which imports the formats

    return options.frames or default_cache() / "frames"


def frame_folder(source: Path, root: Path, stem: str | None = None, part: str = "") -> Path:
    """The folder for the frames of a video, or of a ``part`` of a file that holds several, as the file is now."""
    real = source.resolve()
    try:
        status = real.stat()
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror}).") from error
    key = f"{real}|{status.st_size}|{status.st_mtime_ns}|{part}"
    return root / f"{stem or real.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def frame_file(folder: Path, number: int) -> Path:
    return folder / f"{folder.name.rsplit('-', 1)[0]}_{number:06d}.png"


def frames_of(video: Path, numbers: Iterable[int], root: Path) -> dict[int, Path]:
    """The files of the frames with the given numbers, counted from 0, without those that cannot be decoded."""
    folder = frame_folder(video, root)
    files = {number: frame_file(folder, number) for number in numbers}
    missing = {number: file for number, file in files.items() if not is_whole(file)}
    if not missing:
        return files
    last, failed = max(missing), set(missing)
    for number, frame in enumerate(decoded(video, set(missing))):
        if frame is not None and number in missing:
            write_frame(missing[number], frame)
            failed.remove(number)
        if number == last:
            break
    return {number: file for number, file in files.items() if number not in failed}


def write_frame(file: Path, image: np.ndarray) -> None:
    """(H, W) or (H, W, 3) uint8 BGR. Not synced: a file that a crash has cut off is told by its end."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    if image.ndim == 3 and (image == image[..., :1]).all():  # of a grey camera, as most are: a third of the work
        image = image[..., 0]
    content = cv2.imencode(".png", np.ascontiguousarray(image), [cv2.IMWRITE_PNG_COMPRESSION, 1])[1]
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content.tobytes())
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)


def is_whole(file: Path) -> bool:
    try:
        with open(file, "rb") as content:
            content.seek(-len(PNG_END), os.SEEK_END)
            return content.read() == PNG_END
    except OSError:  # also if the file is shorter than that
        return False


def decoded(video: Path, wanted: Container[int] | None = None) -> Iterator[np.ndarray | None]:
    """(H, W, 3) uint8 BGR of every frame, None for those that are not wanted or cannot be decoded."""
    capture = open_video(video)
    try:
        number = 0
        while capture.grab():
            good, frame = capture.retrieve() if wanted is None or number in wanted else (False, None)
            yield np.asarray(frame) if good else None
            number += 1
    finally:
        capture.release()


def promised_length(video: Path) -> int:
    """The number of frames as the header has it; it may be anything."""
    return video_head(video).promised


def video_head(video: Path) -> VideoHead:
    capture = open_video(video)
    promised, fps = capture.get(cv2.CAP_PROP_FRAME_COUNT), capture.get(cv2.CAP_PROP_FPS)
    capture.release()
    return VideoHead(int(promised) if 0 < promised < 2**40 else 0, fps if 0 < fps < 2**40 else 0.0)


def open_video(video: Path) -> cv2.VideoCapture:
    # What is wrong is said once, by us. FFmpeg alone: other backends take clip%03d.mp4 for a series of images.
    quieten_opencv()
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    # And the full path: in 12:30.mp4, it would take 12 for a protocol.
    capture = cv2.VideoCapture(os.path.abspath(video), cv2.CAP_FFMPEG)
    if not capture.isOpened():
        capture.release()
        raise InputError(f"{video}: is not a video that can be opened. It may be empty, cut off or of another format.")
    return capture
