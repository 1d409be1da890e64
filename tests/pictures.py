"""Picture files, whole and broken, for tests of what reads them."""

import io
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image


def picture(width: int = 64, height: int = 48, seed: int = 0) -> np.ndarray:
    """(H, W, 3) uint8, smooth enough for JPEG."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC))


def save(path: Path, image: np.ndarray | None = None, **options: Any) -> Path:
    Image.fromarray(picture() if image is None else image).save(path, **options)
    return path


def truncated(kind: str, share: float = 0.7) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(400, 300)).save(buffer, kind)
    return buffer.getvalue()[: int(share * len(buffer.getvalue()))]
