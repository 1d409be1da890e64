"""DeepLabCut: a project, one folder of its labeled-data, or one file of labels (csv, or h5 where there is no csv).

Single-animal and multi-animal tables. Frames in a folder that its table does not list are unlabelled instances.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placl.data.formats import lightning_pose
from placl.data.formats.common import real_file
from placl.data.formats.deeplabcut_config import CONFIG, Project, is_config, read_config, write_config
from placl.data.formats.deeplabcut_h5 import is_pandas_h5, read_h5_table
from placl.data.formats.deeplabcut_instances import FRAMES, Naming, Part, images_in, instances_of
from placl.data.formats.deeplabcut_table import Table, header_levels, read_csv_table
from placl.data.formats.deeplabcut_writing import SCORER, individuals_of, write_tables
from placl.data.formats.format import Format, Found, Options
from placl.data.instances import Instances
from placl.errors import InputError

LABELS = "CollectedData_"
PLOTTED = "_labeled"  # DeepLabCut's check_labels draws labels on copies of the frames, in folders of this ending


def read_deeplabcut(path: Path, options: Options) -> Found:
    """A project folder (or its config.yaml or labeled-data), one video's folder in labeled-data, or one file."""
    if path.name == CONFIG or path.name == FRAMES:
        path = path.parent
    if not path.exists():
        raise InputError(f"{path}: does not exist. Pass a DeepLabCut project, a folder of it, or a file of labels.")
    home = next((place for place in _ancestors(path) if is_config(place / CONFIG)), None)
    if home is None and (path / FRAMES).is_dir() and (path / CONFIG).is_file():
        home = path  # a project whose configuration is damaged: reading it says how
    project = read_config(home / CONFIG) if home is not None else Project()
    notes: list[str] = []
    if path.is_file():
        parts = [Part(_read_table(path), _roots(path, options))]
    elif (path / FRAMES).is_dir():
        folders = sorted(folder for folder in (path / FRAMES).iterdir() if folder.is_dir())
        parts = [_video(folder, project, options, notes) for folder in folders if not _is_plotted(folder, notes)]
        notes += lightning_pose.videos_in(path)
    else:
        parts = [_video(path, project, options, notes)]
    found = instances_of(path, parts, Naming(project.bodyparts, project.edges, options.keypoints))
    return Found(found.instances, (*notes, *found.notes))


def _ancestors(path: Path) -> list[Path]:
    """A file or folder and the folders above it, as far up as a project's files lie deep."""
    full = path.absolute()
    return [full, *list(full.parents)[:4]]


def _roots(file: Path, options: Options) -> list[Path]:
    """Where images may be: --images, the project's folder, which names are relative to, or beside the table."""
    given = [] if options.images is None else [options.images]
    above = list(file.parents)[:4]
    return given + [place for place in above if (place / FRAMES).is_dir()] + [file.parent]


def _video(folder: Path, project: Project, options: Options, notes: list[str]) -> Part:
    """The labels of one video's frames, by the project's scorer where there are several, and its other frames."""
    frames = tuple((f"{FRAMES}/{folder.absolute().name}/{name}", folder / name) for name in images_in(folder))
    files = _label_files(folder)
    if not files:
        return Part(None, [], frames)
    chosen = next((file for file in files if file.stem == LABELS + project.scorer), files[0])
    for file in files:
        if file.stem != chosen.stem:
            notes.append(f"{folder.name}/{file.name}: left out, {chosen.name} is read. Name the file to read it.")
    return Part(_read_table(chosen), _roots(chosen, options), frames)


def _label_files(folder: Path) -> list[Path]:
    """CollectedData_SCORER files, each scorer's csv before its h5."""
    files = [file for file in folder.glob(f"{LABELS}*") if file.suffix.lower() in (".csv", ".h5") and file.is_file()]
    return sorted(files, key=lambda file: (file.stem, file.suffix.lower()))


def _is_plotted(folder: Path, notes: list[str]) -> bool:
    plotted = folder.name.endswith(PLOTTED) and folder.with_name(folder.name.removesuffix(PLOTTED)).is_dir()
    if plotted and not _label_files(folder):
        notes.append(f"{FRAMES}/{folder.name}: left out, labels are drawn on its images.")
        return True
    return False


def _read_table(path: Path) -> Table:
    return read_h5_table(path) if path.suffix.lower() == ".h5" else read_csv_table(path)


def _is_table(path: Path) -> bool:
    suffix = path.suffix.lower()
    return path.is_file() and (header_levels(path) > 0 if suffix == ".csv" else suffix == ".h5" and is_pandas_h5(path))


def _claims(path: Path) -> bool:
    try:
        if lightning_pose.claims(path):
            return False
        if path.is_file():
            return _is_table(path) or (path.name == CONFIG and is_config(path))
        if path.name == FRAMES:
            path = path.parent
        if not (path / FRAMES).is_dir():
            return any(_is_table(file) for file in _label_files(path))
        folders = (folder for folder in (path / FRAMES).iterdir() if folder.is_dir())
        return is_config(path / CONFIG) or any(_is_table(file) for folder in folders for file in _label_files(folder))
    except OSError:
        return False


def write_deeplabcut(instances: Instances, path: Path) -> list[Path]:
    """One csv if ``path`` ends in .csv; else a project: labeled-data/FOLDER/CollectedData_placl.csv for each folder of
    images, and a config.yaml (DeepLabCut's convertcsv2h5 makes the h5 files that it trains on).

    Several individuals to an image, or named ones, make a multi-animal table. Boxes, classes and splits cannot be
    carried, nor that a keypoint is occluded: visibility 1 becomes 2. An unlabelled instance in an image that has
    labelled ones leaves nothing.
    """
    if path.suffix.lower() == ".csv":
        return write_tables(instances, path.parent, {path: range(len(instances.images))})
    folders: dict[Path, list[int]] = {}
    for number, image in enumerate(instances.images):
        folders.setdefault(image.parent, []).append(number)
    files: dict[Path, list[int]] = {}
    for folder, numbers in folders.items():
        name, count = folder.absolute().name, 1
        while (file := path / FRAMES / name / f"{LABELS}{SCORER}.csv") in files:
            count += 1
            name = f"{folder.absolute().name}_{count}"
        files[file] = numbers
    written = write_tables(instances, path, files)
    individuals = individuals_of(instances, np.flatnonzero(instances.labelled))[0]
    videos = [file.parent.name for file in files]
    return [write_config(path / CONFIG, instances.skeleton, SCORER, individuals, videos), *written]


def clear_tables(path: Path, spared: tuple[Path, ...]) -> None:
    """Remove the tables that an earlier import wrote to a project, and what DeepLabCut made of them, with their images.

    Images go only where they are links, whose files have another name; copies stay, as unlabelled frames.
    """
    keep = {real_file(image) for image in spared}
    for table in sorted((path / FRAMES).glob(f"*/{LABELS}{SCORER}.csv")):
        images = [path / name for name in read_csv_table(table).names]
        for image in images:
            ours = image.parent == table.parent and image.is_file() and image.stat().st_nlink > 1
            if ours and real_file(image) not in keep:
                image.unlink()
        table.unlink()
        table.with_suffix(".h5").unlink(missing_ok=True)
        if not any(table.parent.iterdir()):
            table.parent.rmdir()


FORMAT = Format(
    "deeplabcut", "DeepLabCut", _claims, read_deeplabcut, write_deeplabcut, images_in=FRAMES, clear=clear_tables
)
