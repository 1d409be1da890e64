"""A video with the keypoints drawn in: as many frames as the source, at its rate and of its size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

from placl.data.formats.frames import promised_length
from placl.data.skeleton import Skeleton
from placl.errors import InputError, MachineError
from placl.files import replacing
from placl.overlay import draw

CODECS = {".mp4": "mp4v", ".mov": "mp4v", ".avi": "MJPG"}  # those that every build of OpenCV can write
FPS = 25.0  # where the source does not tell
FASTEST = 60_000.0  # the codecs know no finer time

# A frame as RGB (None: it cannot be decoded), (n, K, 2) keypoints, (n, K) confidence and (n, 4) boxes in it.
OnFrame = Callable[[np.ndarray | None, np.ndarray, np.ndarray, np.ndarray], None]


def check_video_name(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path}: is a folder. Name a video, such as .mp4, with --overlay.")
    if path.suffix.lower() not in CODECS:
        raise InputError(f"{path}: the overlay of a video is a video. Name one of {', '.join(CODECS)} with --overlay.")


@contextmanager
def overlay_video(path: Path, fps: float, skeleton: Skeleton, threshold: float = 0.0) -> Iterator[OnFrame]:
    """Takes frames in order. The file is there when all have come and can be counted in it, else not at all."""
    check_video_name(path)
    with replacing(path, path.suffix) as part:
        writer = _Writer(part, fps if 0 < fps <= FASTEST else FPS, skeleton, threshold)
        try:
            yield writer.add
        finally:
            writer.close()
        # OpenCV says nothing of a full disk. The index, which is written last, tells.
        written = promised_length(part) if part.is_file() and part.stat().st_size else 0
        if written != writer.count:
            raise MachineError(
                f"{path}: only {written} of {writer.count} frames could be written. Is there room on the disk?"
            )


class _Writer:
    """Opened by the first frame, whose size all have. One that cannot be decoded is the last one again, or black."""

    def __init__(self, path: Path, fps: float, skeleton: Skeleton, threshold: float) -> None:
        self.path, self.fps, self.skeleton, self.threshold = path, fps, skeleton, threshold
        self.count = 0
        self._last: np.ndarray | None = None  # (H, W, 3) BGR of even sides
        self._video: cv2.VideoWriter | None = None

    def add(self, frame: np.ndarray | None, keypoints: np.ndarray, confidence: np.ndarray, boxes: np.ndarray) -> None:
        self.count += 1
        if frame is not None:
            picture = draw(frame, keypoints, confidence, self.skeleton, boxes=boxes, threshold=self.threshold)
            self._show(_even(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)))
        if self._video is not None and self._last is not None:
            self._video.write(self._last)

    def _show(self, picture: np.ndarray) -> None:
        height, width = picture.shape[:2]
        if self._last is not None and self._last.shape != picture.shape:  # OpenCV would drop it
            height, width = self._last.shape[:2]
            picture = np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA))
        self._last = picture
        if self._video is None:
            codec = cv2.VideoWriter.fourcc(*CODECS[self.path.suffix.lower()])
            place = os.path.abspath(self.path)
            self._video = cv2.VideoWriter(place, cv2.CAP_FFMPEG, codec, self.fps, (width, height))
            if not self._video.isOpened():
                raise MachineError(f"{self.path.parent}: no video of {width} x {height} pixels can be written there.")
            for _ in range(self.count - 1):  # those before could not be decoded
                self._video.write(np.zeros_like(picture))

    def close(self) -> None:
        if self._video is not None:
            self._video.release()


def _even(picture: np.ndarray) -> np.ndarray:
    """The codecs know even sides only, and OpenCV would cut: an odd one gets its last row or column twice."""
    height, width = picture.shape[:2]
    if height % 2 or width % 2:
        picture = cv2.copyMakeBorder(picture, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE)
    return picture
