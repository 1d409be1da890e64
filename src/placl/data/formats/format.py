"""What a format is: how it is recognised, read and, where that makes sense, written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from placl.data.instances import Instances


@dataclass(frozen=True)
class Options:
    """What a person may say beside the path; a reader uses what concerns it."""

    images: Path | None = None  # folder that the names of image files are relative to
    keypoints: tuple[str, ...] | None = None  # names, where a source has none or wrong ones
    frames: Path | None = None  # folder that frames of videos are written to; None: the user's cache
    count: int = 200  # frames taken from a video that is a source by itself
    sampling: str = "even"  # which ones: "even", "motion" or "diverse"


@dataclass(frozen=True)
class Found:
    """What was read, and what a person should know of it."""

    instances: Instances
    notes: tuple[str, ...] = ()  # what was left out, repaired or guessed, a line each


@dataclass(frozen=True)
class Format:
    """An on-disk format.

    ``claims`` looks at a file or folder, cheaply and without complaint, and says whether it is of this format. ``read``
    raises :class:`~placl.errors.InputError` with one line that names the file and the record. ``write`` takes instances
    and the file or folder to make, and returns the files it wrote. ``clear`` takes a folder and images to spare, and
    removes what ``write`` would not replace of an earlier import.
    """

    name: str  # for --format
    title: str  # for people
    claims: Callable[[Path], bool]
    read: Callable[[Path, Options], Found]
    write: Callable[[Instances, Path], list[Path]] | None = None
    places_images: bool = False  # a dataset that is written brings its images along
    images_in: str = "images"  # where they belong otherwise; elsewhere than in images/, in folders one level deep
    clear: Callable[[Path, tuple[Path, ...]], None] | None = None
