"""Lightning Pose: CollectedData.csv beside labeled-data/ and videos/, one animal to an image.

The table is DeepLabCut's with 3 header rows. Images in labeled-data that no table lists are unlabelled instances.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from placl.data.formats.deeplabcut_config import CONFIG, is_config
from placl.data.formats.deeplabcut_instances import FRAMES, Naming, Part, images_in, instances_of
from placl.data.formats.deeplabcut_table import header_levels, read_csv_table
from placl.data.formats.deeplabcut_writing import write_tables
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.frames import VIDEOS
from placl.data.instances import Instances
from placl.errors import InputError

TABLE = "CollectedData.csv"
NEW = "_new"  # CollectedData_new.csv: labels of videos that no training may see
MOST_VIDEOS = 3  # named one by one


def read_lightning_pose(path: Path, options: Options) -> Found:
    """A folder, or one csv of it."""
    if not path.exists():
        raise InputError(f"{path}: does not exist. Pass a Lightning Pose folder or its CollectedData.csv.")
    folder = path if path.is_dir() else path.parent
    files = _tables(path) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: holds no {TABLE}. Pass a Lightning Pose folder.")
    roots = [folder] if options.images is None else [options.images, folder]
    has_new = any(file.stem.endswith(NEW) for file in files) and len(files) > 1
    parts = []
    for file in files:
        table = read_csv_table(file)
        if table.individuals != ("",):
            raise InputError(f"{file}: names individuals. Read it with --format deeplabcut.")
        split = ("test" if file.stem.endswith(NEW) else "train") if has_new else ""
        parts.append(Part(table, roots, split=split))
    notes: list[str] = []
    if has_new:
        notes.append(f"CollectedData{NEW}.csv: its images are the test split, those of the other tables train.")
    if path.is_dir():
        parts.append(Part(None, [], _frames(folder, parts), "train" if has_new else ""))
        notes += videos_in(folder)
    found = instances_of(path, parts, Naming(keypoints=options.keypoints))
    return Found(found.instances, (*notes, *found.notes))


def videos_in(folder: Path) -> list[str]:
    """Notes on the videos of a project, whose frames are not read with it."""
    videos = folder / "videos"
    names = sorted(file.name for file in videos.iterdir() if file.suffix.lower() in VIDEOS) if videos.is_dir() else []
    if len(names) > MOST_VIDEOS:
        return [f"videos: {len(names)} videos; name the folder as an unlabelled source to use their frames."]
    return [f"videos/{name}: a video; name it as an unlabelled source to use its frames." for name in names]


def _tables(folder: Path) -> list[Path]:
    """CollectedData.csv, and one for each view or for new videos."""
    files = sorted(file for file in folder.glob("CollectedData*.csv") if file.is_file())
    return sorted((file for file in files if header_levels(file) == 3), key=lambda file: file.name != TABLE)


def _frames(root: Path, parts: list[Part]) -> tuple[tuple[str, Path], ...]:
    """Every image below labeled-data, by its name from the root, but for those in folders of test images alone."""
    used = [(os.path.dirname(name), part.split) for part in parts if part.table for name in part.table.names]
    test = {folder for folder, split in used if split == "test"} - {folder for folder, split in used if split != "test"}
    found = []
    for folder, folders, _ in os.walk(root / FRAMES):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(folder) / name for name in images_in(Path(folder))]
    named = ((file.relative_to(root).as_posix(), file) for file in found)
    return tuple((name, file) for name, file in named if os.path.dirname(name) not in test)


def claims(path: Path) -> bool:
    """A table by its own name, or any beside labeled-data that is not in a DeepLabCut project."""
    folder = path if path.is_dir() else path.parent
    if is_config(folder / CONFIG):
        return False
    try:
        if path.is_dir():
            tables = _tables(path)
            return bool(tables) and ((path / FRAMES).is_dir() or tables[0].name == TABLE)
        if path.suffix.lower() != ".csv" or not path.is_file() or header_levels(path) != 3:
            return False
        return path.name == TABLE or (folder / FRAMES).is_dir()
    except OSError:
        return False


def write_lightning_pose(instances: Instances, path: Path) -> list[Path]:
    """One csv: ``path``, or CollectedData.csv in it. One animal to an image; visibility 1 becomes 2, boxes are lost."""
    file = path if path.suffix.lower() == ".csv" else path / TABLE
    counts = np.bincount(instances.image_index[instances.labelled], minlength=len(instances.images))
    for image in np.flatnonzero(counts > 1):
        raise InputError(
            f"{file}: cannot be written, {instances.images[image]} has {counts[image]} labelled instances and "
            "Lightning Pose knows one to an image. Write deeplabcut instead."
        )
    return write_tables(instances, file.parent, {file: range(len(instances.images))}, named=False)


FORMAT = Format("lightning_pose", "Lightning Pose", claims, read_lightning_pose, write_lightning_pose)
