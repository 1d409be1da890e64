"""The frames of a SLEAP file as image files.

Those of an image sequence are there already. Frames of videos are those that the video itself has as a source, and
frames inside a package are named by the video that they come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.common import Leads, find_image, shown
from placl.data.formats.format import Options
from placl.data.formats.frames import VIDEOS, frame_file, frame_folder, frames_of, frames_root, is_whole, write_frame
from placl.errors import InputError, PlaclError


def frame_files(path: Path, frames: list[Any], options: Options) -> list[Path]:
    """The image file of each of sleap-io's labelled frames of the file ``path``."""
    roots = [root for root in (options.images, path.parent) if root is not None]
    videos = {id(frame.video): frame.video for frame in frames}
    numbers: dict[int, set[int]] = {key: set() for key in videos}
    for frame in frames:
        numbers[id(frame.video)].add(int(frame.frame_idx))
    leads = Leads()
    files: dict[int, dict[int, Path]] = {}
    for key, video in videos.items():
        wanted = sorted(numbers[key])
        if isinstance(video.filename, list):
            files[key] = _listed(path, video, wanted, roots, leads)
        elif is_package(video):
            files[key] = _by_sleap(path, video, path, wanted, frames_root(options))
        else:
            files[key] = _of_video(path, video, wanted, roots, leads, frames_root(options))
    return [files[id(frame.video)][int(frame.frame_idx)] for frame in frames]


def is_package(video: Any) -> bool:
    """Whether the frames are in the SLEAP file itself."""
    return bool(video.backend_metadata.get("filename") == ".")


def _listed(path: Path, video: Any, numbers: list[int], roots: list[Path], leads: Leads) -> dict[int, Path]:
    files = {}
    for number in numbers:
        if number >= len(video.filename):
            raise InputError(f"{path}: frame {number} is beyond the {len(video.filename)} images of its video.")
        name = str(video.filename[number])
        found = find_image(roots, name)
        if found is None:
            raise InputError(f'{path}: frame {number}: image "{name}" does not exist. Pass --images DIR.')
        leads.add(found, name, f"{path}: frame {number}")
        files[number] = found
    return files


def _of_video(
    path: Path, video: Any, numbers: list[int], roots: list[Path], leads: Leads, target: Path
) -> dict[int, Path]:
    name = str(video.filename)
    source = find_image(roots, name)
    if source is None:
        raise InputError(f'{path}: video "{name}" does not exist under {shown(roots[0])}. Pass --images DIR.')
    leads.add(source, name, str(path))
    if source.suffix.lower() not in VIDEOS or video.backend_metadata.get("crop") is not None:
        return _by_sleap(path, video, source, numbers, target)
    try:
        files = frames_of(source, numbers, target)
    except InputError as error:
        raise InputError(f"{path}: its video cannot be read. {error}") from error
    for number in numbers:
        if number not in files:
            raise InputError(f"{path}: frame {number} of {source} cannot be read. Is it beyond the video's end?")
    return files


def _by_sleap(path: Path, video: Any, source: Path, numbers: list[int], target: Path) -> dict[int, Path]:
    """Frames of a package, of a part of the picture, or of a kind of video that only sleap-io reads."""
    origin = getattr(video.source_video, "filename", None) if source == path else source.name
    stem = Path(origin.replace("\\", "/")).stem if isinstance(origin, str) else path.name.split(".")[0]
    part = f"{video.backend_metadata.get('dataset')}|{video.backend_metadata.get('crop')}"
    folder = frame_folder(source, target, stem, part)
    files = {number: frame_file(folder, number) for number in numbers}
    missing = {number: file for number, file in files.items() if not is_whole(file)}
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
            write_frame(files[number], image[..., 0] if image.shape[2] == 1 else image[..., 2::-1])
    except PlaclError:
        raise
    except Exception as error:  # readers of videos raise whatever they meet
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: frame {number} of {source} cannot be read ({reason}).") from error
    finally:
        video.close()
