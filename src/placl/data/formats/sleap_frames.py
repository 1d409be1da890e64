"""The frames of a SLEAP file as image files.

Those of an image sequence are there already. Frames of videos and frames inside a package are written as PNG, once, and
used again as long as the file they come from has not changed.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from placl.data.formats.common import find_image
from placl.data.formats.format import Options
from placl.errors import InputError, PlaclError
from placl.files import disk_errors


def frame_files(path: Path, frames: list[Any], options: Options) -> list[Path]:
    """The image file of each of sleap-io's labelled frames of the file ``path``."""
    from placl.data.load import default_cache  # which imports the formats

    roots = [root for root in (options.images, path.parent) if root is not None]
    target = options.frames or default_cache() / "frames"
    videos = {id(frame.video): frame.video for frame in frames}
    numbers: dict[int, set[int]] = {key: set() for key in videos}
    for frame in frames:
        numbers[id(frame.video)].add(int(frame.frame_idx))
    files: dict[int, dict[int, Path]] = {}
    for key, video in videos.items():
        if isinstance(video.filename, list):
            files[key] = _listed(path, video, sorted(numbers[key]), roots)
        else:
            files[key] = _written(path, video, sorted(numbers[key]), roots, target)
    return [files[id(frame.video)][int(frame.frame_idx)] for frame in frames]


def is_package(video: Any) -> bool:
    """Whether the frames are in the SLEAP file itself."""
    return bool(video.backend_metadata.get("filename") == ".")


def _listed(path: Path, video: Any, numbers: list[int], roots: list[Path]) -> dict[int, Path]:
    files = {}
    for number in numbers:
        if number >= len(video.filename):
            raise InputError(f"{path}: frame {number} is beyond the {len(video.filename)} images of its video.")
        name = str(video.filename[number])
        found = find_image(roots, name)
        if found is None:
            raise InputError(f'{path}: frame {number}: image "{name}" does not exist. Pass --images DIR.')
        files[number] = found
    return files


def _written(path: Path, video: Any, numbers: list[int], roots: list[Path], target: Path) -> dict[int, Path]:
    inside = is_package(video)
    name = str(video.filename)
    source = path if inside else find_image(roots, name)
    if source is None:
        raise InputError(f'{path}: video "{name}" does not exist under {roots[0]}. Pass --images DIR.')
    origin = getattr(video.source_video, "filename", None) if inside else name
    stem = Path(origin.replace("\\", "/")).stem if isinstance(origin, str) else path.name.split(".")[0]
    status = source.stat()
    key = f"{source.resolve()}|{status.st_size}|{status.st_mtime_ns}|{video.backend_metadata.get('dataset')}"
    folder = target / f"{stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    files = {number: folder / f"{stem}_{number:06d}.png" for number in numbers}
    missing = {number: file for number, file in files.items() if not file.is_file()}
    if missing:
        _write(path, video, source, missing)
    return files


def _write(path: Path, video: Any, source: Path, files: dict[int, Path]) -> None:
    """Frames as SLEAP itself would show them; in order, because going back and forth in a video is slow."""
    number = min(files)
    try:
        video.replace_filename(source.as_posix(), open=False)
        video.open()
        for number in sorted(files):
            image = np.asarray(video[number])  # (H, W, 1 or 3) RGB
            if image.dtype != np.uint8 or image.ndim != 3:
                raise ValueError(f"{image.dtype} of shape {image.shape} is no image of 8 bits")
            _write_png(files[number], image[..., 0] if image.shape[2] == 1 else image[..., 2::-1])
    except PlaclError:
        raise
    except Exception as error:  # readers of videos raise whatever they meet
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: frame {number} of {source} cannot be read ({reason}).") from error
    finally:
        video.close()


def _write_png(file: Path, image: np.ndarray) -> None:
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    content = cv2.imencode(".png", np.ascontiguousarray(image), [cv2.IMWRITE_PNG_COMPRESSION, 1])[1]
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.tobytes())
        os.replace(temporary, file)
