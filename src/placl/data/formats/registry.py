"""All formats, and reading whatever a path holds."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from placl.data.formats import (
    animalpose,
    coco,
    corrected,
    cub,
    cvat,
    deeplabcut,
    folder,
    label_studio,
    leeds,
    lightning_pose,
    mpii,
    sleap,
    table,
    video,
    yolo,
)
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.suspects import LABEL_SUFFIXES, suspect, suspect_named
from placl.data.garbage import collecting_later
from placl.data.instances import Instances, join
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

# In the order in which they are asked whether a path is theirs: the particular before the general.
FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        deeplabcut.FORMAT,
        lightning_pose.FORMAT,
        sleap.FORMAT,
        yolo.FORMAT,
        label_studio.FORMAT,
        cvat.FORMAT,
        leeds.LSP,
        leeds.LSPET,
        cub.FORMAT,
        animalpose.FORMAT,
        mpii.FORMAT,
        coco.FORMAT,
        corrected.FORMAT,
        table.FORMAT,
        folder.LIST,
        video.FORMAT,
        folder.FORMAT,
    )
}


SHORT = {"dlc": "deeplabcut", "lp": "lightning_pose", "slp": "sleap", "folder": "images"}
# What a folder is only where no file in it has labels.
WITHOUT_LABELS = (folder.FORMAT, folder.LIST, video.FORMAT)


def format_named(name: str) -> Format:
    name = SHORT.get(name, name)
    if name not in FORMATS:
        near = get_close_matches(name, FORMATS, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise InputError(f'format "{name}" is unknown.{hint} Known are {", ".join(FORMATS)}.')
    return FORMATS[name]


def recognise(path: Path, besides: tuple[Format, ...] = ()) -> Format | None:
    """The format of a file or folder, or None: then it may still be a folder of annotation files."""
    return next((known for known in FORMATS.values() if known not in besides and known.claims(path)), None)


@collecting_later()
@np.errstate(over="ignore")  # coordinates that float32 cannot hold are refused as such
def read_source(path: Path, name: str | None = None, options: Options | None = None) -> tuple[Format, Found]:
    """Read a file or folder of any known format. Where nothing names keypoints, plain images, the options may."""
    options = options or Options()
    known, found = _read(path, name, options)
    if found.instances.skeleton is None and options.keypoints is not None:
        found = replace(found, instances=found.instances.with_skeleton(_skeleton(options.keypoints)))
    return known, found


def _skeleton(names: tuple[str, ...]) -> Skeleton:
    try:
        return Skeleton(names, (), flip_pairs_by_name(names))
    except ValueError as error:
        raise InputError(f"--keypoints: {error}. Name each once.") from error


def _read(path: Path, name: str | None, options: Options) -> tuple[Format, Found]:
    if name is not None:
        known = format_named(name)
        return known, known.read(path, options)
    if not path.exists():
        raise InputError(f"{path}: does not exist. Pass a file or folder of a known format.")
    found = recognise(path, besides=WITHOUT_LABELS)  # those would look through ten thousand images first
    if found is None and path.is_dir():
        files = annotation_files(path)
        if files:
            return _read_files(path, files, options)
    found = found or recognise(path)
    if path.is_dir():
        if found is None:
            raise InputError(f"{path}: holds neither images or videos nor annotations of a known format.")
        read = found.read(path, options)
        return found, replace(read, notes=(*_unknown_files(path, found), *read.notes))
    found = found or suspect_named(path)  # a broken one: its reader can say what is wrong
    if found is None:
        raise InputError(f"{path}: is of no known format. Known are {', '.join(FORMATS)}.")
    return found, found.read(path, options)


def annotation_files(path: Path) -> list[tuple[Path, Format]]:
    """Files in a folder, or in annotations/ below it, that a format claims, or that were meant to be of one."""
    claimed = [(file, recognise(file) or suspect(file)) for file in _files_of(path)]
    return [(file, known) for file, known in claimed if known is not None and known not in WITHOUT_LABELS]


def _files_of(path: Path) -> list[Path]:
    places = [path, path / "annotations"]
    files = [file for place in places if place.is_dir() for file in sorted(place.iterdir()) if file.is_file()]
    return [file for file in files if not file.name.startswith(".")]


def _unknown_files(path: Path, chosen: Format) -> list[str]:
    """Notes on files of an unlabelled folder that might be labels."""
    files = _files_of(path) if chosen in WITHOUT_LABELS else []
    unknown = [file.name for file in files if file.suffix.lower() in LABEL_SUFFIXES]
    return [f"{name}: left out, it is of no known format." for name in unknown]


def _read_files(path: Path, files: list[tuple[Path, Format]], options: Options) -> tuple[Format, Found]:
    """The first file with labels, and those that say more of the same: other instances, one skeleton."""
    options = options if options.images is not None else replace(options, images=path)
    read: list[tuple[Path, Format, Found]] = []
    notes: list[str] = []
    failure: InputError | None = None
    for file, known in files:
        try:
            read.append((file, known, known.read(file, options)))
        except InputError as error:
            failure = failure or error
            notes.append(f"{file.name}: left out, it cannot be read. {error}")
    if not read:
        assert failure is not None
        images = " To read the images alone, pass --format images, or name it --unlabeled in a training."
        hint = images if folder.FORMAT.claims(path) else ""
        raise InputError(f"{failure}{hint}")
    read.sort(key=lambda one: not one[2].instances.labelled.any())  # stable: by name among those with labels
    chosen = read[0][1]
    parts: list[Instances] = []
    for file, known, found in read:
        reason = _why_not(parts, found.instances, chosen, known)
        if reason:
            notes.append(f"{file.name}: left out, {reason}. Name the file to read it.")
            continue
        parts.append(found.instances)
        notes += found.notes
    return chosen, Found(join(parts) if len(parts) > 1 else parts[0], tuple(notes))


def _why_not(parts: list[Instances], instances: Instances, chosen: Format, known: Format) -> str:
    if not parts:
        return ""
    if known is not chosen:
        return f"it is of another format ({known.title})"
    skeletons = [part.skeleton.keypoints for part in (parts[0], instances) if part.skeleton is not None]
    if len(set(skeletons)) > 1:
        return f"it names {len(skeletons[1])} other keypoints"
    if set(_marks(parts)) & set(_marks([instances])):
        return "it has instances of the files before"
    return ""


def _marks(parts: list[Instances]) -> list[tuple[str, bytes]]:
    """What an instance is known by, also in a copy of its image: the file's name, its box and its labels."""
    return [
        (part.images[image].name if labelled else str(part.images[image].resolve()), box.tobytes() + points.tobytes())
        for part in parts
        for image, labelled, box, points in zip(
            part.image_index, part.labelled, np.nan_to_num(part.boxes), part.keypoints, strict=True
        )
    ]
