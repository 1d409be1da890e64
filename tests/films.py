"""Videos whose keypoints are a red, a green and a blue dot (see dots.py), kept without loss."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np

WIDTH, HEIGHT = 240, 180
SHAPE = np.array([[-16.0, -12.0], [0.0, 14.0], [16.0, -12.0]])  # of the three dots around their centre
SOFT = 5.0  # pixels, standard deviation of a dot
LOSSLESS = "FFV1"


def film_frame(centre: tuple[float, float] | None, size: tuple[int, int] = (WIDTH, HEIGHT)) -> np.ndarray:
    """(H, W, 3) uint8 RGB with round soft dots; without a centre, nothing is there."""
    frame = np.zeros((size[1], size[0], 3))
    y, x = np.mgrid[: size[1], : size[0]]
    for colour, place in enumerate([] if centre is None else SHAPE + centre):
        frame[..., colour] = np.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / (2 * SOFT**2))
    return np.rint(255 * frame).astype(np.uint8)


def write_film(path: Path, frames: Iterable[np.ndarray], fps: float = 25.0, codec: str = LOSSLESS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = None
    for frame in frames:
        if writer is None:
            size = frame.shape[1], frame.shape[0]
            writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*codec), fps, size)
            assert writer.isOpened()
        writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    if writer is not None:
        writer.release()
    return path


def read_film(path: Path) -> list[np.ndarray]:
    """All frames as RGB, decoded one by one."""
    capture, frames = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG), []
    while True:
        good, frame = capture.read()
        if not good:
            return frames
        frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
