"""Predictions with known numbers, as if a model had made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from dots import DOTS, dot_picture
from placl.outputs.predictions import Clip, Predictions


def of_video(video: Path, frames: list[int], length: int = 4) -> Predictions:
    """Of a clip of ``length`` frames; the file need not be there."""
    names = tuple(f"{video.name}#{frame:06d}" for frame in frames)
    clip = Clip(video, np.array(frames, np.int64), length, length, 25.0, (160, 64))
    return Predictions(
        **_numbers(len(frames)), files=(video,) * len(frames), names=names, image_ids=tuple(frames), clip=clip
    )


def of_images(folder: Path, names: list[str]) -> Predictions:
    """Of images that are there, one instance each; a name may come again."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), dot_picture(np.zeros((0, 3, 2))))
    files = tuple(folder / name for name in names)
    return Predictions(**_numbers(len(names)), files=files, names=tuple(names), image_ids=tuple(range(len(names))))


def _numbers(n: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "keypoints": random.uniform(0, 60, (n, 3, 2)),
        "confidence": random.uniform(0, 1, (n, 3)).astype(np.float32),
        "boxes": random.uniform(1, 60, (n, 4)),
        "category_ids": (1,) * n,
        "skeleton": DOTS,
    }
