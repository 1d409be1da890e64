"""Images from files: RGB, turned the right way, and whole or refused."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from placl.errors import InputError

ORIENTATION = 0x0112  # the EXIF tag; from 5 on, width and height are exchanged
ENDINGS = {b"\xff\xd8": b"\xff\xd9", b"\x89PNG": b"IEND"}  # how a whole file of that beginning ends


class UnreadableImageError(Exception):
    """The message is the reason, in a few words."""


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as :func:`decode` would have them, from the file's head."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            # Pillow would decode a whole PNG to look for EXIF data behind its pixels.
            exif = image.getexif() if image.format != "PNG" or "exif" in image.info else {}
            turned = exif.get(ORIENTATION, 1) in (5, 6, 7, 8)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: cannot be read as an image ({error}). Replace the file.") from error
    return (height, width) if turned else (width, height)


def decode(path: Path) -> np.ndarray:
    """(H, W, 3) uint8 RGB, turned as its EXIF data says."""
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # what is wrong is said once, by us
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableImageError(error.strerror or "cannot be opened") from error
    except ValueError as error:
        raise UnreadableImageError("not a file name") from error
    if not data:
        raise UnreadableImageError("the file is empty")
    # OpenCV fills up a truncated file with grey. Pillow refuses it, but is slower.
    whole = all(end in data[-64:] for start, end in ENDINGS.items() if data.startswith(start))
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if whole else None
    except cv2.error:
        image = None
    return _decode_with_pillow(data) if image is None else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))


def _decode_with_pillow(data: bytes) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
            if image.mode.startswith("I"):  # 16 bits, which convert() would clip
                image = Image.fromarray((np.clip(np.asarray(image), 0, 65535) >> 8).astype(np.uint8))
            return np.asarray(image.convert("RGB"))
    except UnidentifiedImageError as error:
        raise UnreadableImageError("not a known image format") from error
    except Exception as error:  # Pillow's decoders raise whatever they meet in a broken file
        raise UnreadableImageError(" ".join(str(error).split()) or type(error).__name__) from error
