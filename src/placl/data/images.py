"""Images from files: RGB, turned the right way, and whole or refused."""

from __future__ import annotations

import errno
import io
import os
import struct
import warnings
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageOps, TiffImagePlugin, UnidentifiedImageError

from placl.errors import InputError, MachineError

ORIENTATION = 0x0112  # the EXIF tag; from 5 on, width and height are exchanged
JPEG = b"\xff\xd8"
EXIF = b"Exif\0\0"
# Of a path that leads to no image. Other errors are those of a disk or a network, and may pass.
NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG)
AT_ONCE = 1 << 16  # bytes
MOST_PIXELS = 2 * (Image.MAX_IMAGE_PIXELS or 1 << 27)  # 179 million, where Pillow stops too: half a gigabyte of RGB
SMALL_JPEG = 1 << 17  # bytes, in which no more pixels fit, were each block of 64 a single bit
SILENT = 0  # OpenCV's LOG_LEVEL_SILENT
PNG = b"\x89PNG\r\n\x1a\n"
WEBP = b"RIFF"
ENDINGS = {JPEG: b"\xff\xd9", b"\x89P": b"IEND"}  # how a whole file of those first two bytes ends


RGB = cv2.IMREAD_COLOR_RGB
REDUCED = {
    1: RGB,
    2: RGB | cv2.IMREAD_REDUCED_GRAYSCALE_2,  # the bit that shrinks; with RGB, colours stay
    4: RGB | cv2.IMREAD_REDUCED_GRAYSCALE_4,
    8: RGB | cv2.IMREAD_REDUCED_GRAYSCALE_8,
}


class UnreadableImageError(Exception):
    """The message is the reason, in a few words."""


def quieten_opencv() -> None:
    """By one of two names: it changed between OpenCV 4 and 5."""
    set_level = cv2.setLogLevel if hasattr(cv2, "setLogLevel") else cv2.utils.logging.setLogLevel
    set_level(SILENT)


def quieten() -> None:
    """For good, and once: filters that come and go would do so for all threads. What is wrong is said by us."""
    quieten_opencv()
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    warnings.simplefilter("ignore", Image.DecompressionBombWarning)


quieten()


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as :func:`decode` would have them, from the file's head."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            if isinstance(image, TiffImagePlugin.TiffImageFile):  # whose size Pillow may have exchanged by itself
                width, height = image.tag_v2[TiffImagePlugin.IMAGEWIDTH], image.tag_v2[TiffImagePlugin.IMAGELENGTH]
                orientation = image.tag_v2.get(ORIENTATION)
            else:  # not getexif(): it decodes a PNG to look behind its pixels, and believes XMP, which OpenCV does not
                orientation = _orientation(image.info.get("exif", b""))
    except (OSError, ValueError, KeyError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: cannot be read as an image ({error}). Replace the file.") from error
    return (height, width) if orientation in (5, 6, 7, 8) else (width, height)


def _orientation(data: bytes) -> object:
    """What EXIF data tell, 1 where they say nothing, None where they cannot be read."""
    exif = Image.Exif()
    try:
        exif.load(data)
        return exif.get(ORIENTATION, 1)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SyntaxError, struct.error):
        return None


def head_size(path: Path | str) -> tuple[int, int] | None:
    """Width and height of a JPEG before it is turned, far faster than :func:`image_size`; None where that fails."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read(4096)
            if not data.startswith(JPEG):
                return None
            _, frame = _landmarks(data)
            if not frame:
                data += file.read(1 << 18)
                _, frame = _landmarks(data)
    except (OSError, ValueError):
        return None
    height, width = struct.unpack_from(">HH", data, frame + 5) if frame else (0, 0)
    return (width, height) if width and height else None


def _landmarks(data: bytes) -> tuple[int, int]:
    """Where the EXIF data and the frame of a JPEG begin; 0 for what it lacks, -1 for EXIF data if that is uncertain."""
    exif = frame = 0
    at, end = 2, len(data) - 9
    while at < end and data[at] == 0xFF:
        kind = data[at + 1]
        if kind == 0xDA:  # pixels
            return exif, frame
        if kind == 0xE1:
            if data.startswith(EXIF, at + 4):
                exif = exif or at + 4
        elif 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            frame = at
        at += 2 + (data[at + 2] << 8) + data[at + 3]
    return -1, frame


def decode(path: Path) -> np.ndarray:
    """(H, W, 3) uint8 RGB, turned as its EXIF data says."""
    return decode_shrunk(path, 1)[0]


def decode_shrunk(path: Path | str, shrink: int) -> tuple[np.ndarray, int]:
    """As :func:`decode`, but a JPEG may come shrunk by 2, 4 or 8, which saves most of its decoding; by how much it is.

    A pixel of the shrunk image is about the mean of ``shrink`` x ``shrink`` pixels; at the right and at the bottom it
    may reach beyond the image. OpenCV would shrink before it turns, and leave what reaches beyond at the left or top:
    images that are turned come whole.
    """
    try:
        data = _content(path)
    except OSError as error:
        if error.errno not in NO_FILE:
            raise MachineError(f"{path}: cannot be read ({error.strerror}). Run again once it can.") from error
        raise UnreadableImageError(error.strerror or "cannot be opened") from error
    except ValueError as error:
        raise UnreadableImageError("not a file name") from error
    if not data:
        raise UnreadableImageError("the file is empty")
    _refuse_giant(data)
    if shrink > 1 and not (data.startswith(JPEG) and _upright(data)):
        shrink = 1  # other formats would be decoded whole, and then lose pixels
    # OpenCV fills up a truncated file with grey, and before 4.12 does not turn WebP. Pillow is right, but slower.
    whole = ENDINGS.get(data[:2], b"") in data[-64:] and (not data.startswith(PNG) or _has_all_chunks(data))
    turned = data.startswith(WEBP) and b"EXIF" in data
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), REDUCED[shrink]) if whole and not turned else None
    except cv2.error:
        image = None
    if image is None:
        return _decode_with_pillow(data), 1
    return image, shrink


def _has_all_chunks(data: bytes) -> bool:
    """Whether a PNG's chunks are as long as they say. OpenCV makes room for what one says, up to four gigabytes."""
    at = len(PNG)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IEND":
            return True
        at += 12 + length
    return False


def _refuse_giant(data: bytes) -> None:
    """A file of a megabyte may hold an image of a gigabyte: what it claims to be is looked at before it is decoded."""
    width, height = 0, 0
    if data.startswith(PNG):
        width, height = struct.unpack_from(">II", data, 16) if len(data) >= 24 else (0, 0)
    elif data.startswith(JPEG):
        _, frame = _landmarks(data) if len(data) > SMALL_JPEG else (0, 0)
        height, width = struct.unpack_from(">HH", data, frame + 5) if frame else (0, 0)
    else:
        width, height = _claimed(data)
    if width * height > MOST_PIXELS:
        raise UnreadableImageError(f"{width} x {height} are too many pixels, make it smaller")


def _claimed(data: bytes) -> tuple[int, int]:
    """Width and height by Pillow; 0 where it cannot tell, which decoding will find out, too."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.size
    except Image.DecompressionBombError as error:
        raise UnreadableImageError("it has too many pixels, make it smaller") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SyntaxError, struct.error):
        return 0, 0


def _upright(data: bytes) -> bool:
    """Whether a JPEG is shown as it is stored, as far as its head can tell."""
    if EXIF not in data:  # found far faster than a place in the head
        return True
    start, _ = _landmarks(data)
    return start == 0 or (start > 0 and _orientation(data[start : start + (1 << 16)]) == 1)


def _content(path: Path | str) -> bytes:
    """As ``path.read_bytes()``, with few calls to the system: at each, a thread loses its turn."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        data = os.read(file, AT_ONCE)
        if len(data) < AT_ONCE and os.name == "posix":  # then a file is at its end
            return data
        while more := os.read(file, AT_ONCE):
            data += more
        return data
    finally:
        os.close(file)


def _decode_with_pillow(data: bytes) -> np.ndarray:
    try:
        file = Image.open(io.BytesIO(data))
        file.info.pop("xmp", None)  # an orientation in there is none for OpenCV
        image = ImageOps.exif_transpose(file)
        if image.mode.startswith("I"):  # 16 bits, which convert() would clip
            image = Image.fromarray((np.clip(np.asarray(image), 0, 65535) >> 8).astype(np.uint8))
        elif image.mode == "F":
            image = Image.fromarray(_of_floats(np.asarray(image)))
        return np.asarray(image.convert("RGB"))
    except UnreadableImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnreadableImageError("not a known image format") from error
    except Exception as error:  # Pillow's decoders raise whatever they meet in a broken file
        raise UnreadableImageError(" ".join(str(error).split()) or type(error).__name__) from error


def _of_floats(image: np.ndarray) -> np.ndarray:
    """(H, W) uint8. Floats go from 0 to 1, or to 255 where one is larger; what others mean, nobody can tell."""
    if not (np.isfinite(image).all() and image.min() >= 0 and image.max() <= 255):
        raise UnreadableImageError("its numbers are not from 0 to 1 or to 255, save it with 8 or 16 bits")
    return np.asarray(np.rint(image * (255 if image.max() <= 1 else 1)).astype(np.uint8))
