"""From any source to a folder of one's own: images/ beside one COCO json, or the layout of another tool."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placl.data.formats.coco_writing import relative_name
from placl.data.formats.format import Options
from placl.data.formats.registry import format_named, read_source
from placl.data.instances import Instances, join
from placl.data.protocols import read_protocol
from placl.errors import InputError
from placl.files import disk_errors, write_atomic

SPLIT_OF = {"labelled": "train", "unlabelled": "unlabelled", "val": "val", "test": "test"}
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Imported:
    format: str
    instances: Instances
    files: tuple[Path, ...]  # what was written, images aside
    notes: tuple[str, ...]


def import_source(
    source: Path,
    out: Path | None = None,
    *,
    format_name: str | None = None,
    protocol: str | None = None,
    options: Options | None = None,
    to: str = "coco",
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> Imported:
    """Read ``source``, put its images below ``out`` (linked where the disk allows, else copied) and write its labels.

    With a ``protocol`` of the paper, images carry its splits and a placl.yaml names them for `placl train`.
    """
    target = format_named(to)
    if target.write is None:
        raise InputError(f"format {to} can be read and not written. Write coco, deeplabcut, sleap, yolo or csv.")
    out = out or default_folder(source)
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]) and not overwrite:
        raise InputError(f"{out}: is there already. Name another folder with --out, or pass --overwrite.")
    options = options or Options()
    options = options if options.frames is not None else replace(options, frames=out / "images")
    if protocol is not None:
        roles, found_notes = read_protocol(protocol, source)
        name, instances, notes = protocol, joined_roles(roles), tuple(found_notes)
    else:
        known, found = read_source(source, format_name, options)
        name, instances, notes = known.name, found.instances, found.notes
    if not len(instances):
        raise InputError(f"{source}: holds no instances.")
    instances, left_out = _existing(instances)
    placed = instances if target.places_images else place_images(instances, out / "images", on_progress)
    files = target.write(placed, out)
    if protocol is not None and to == "coco":
        files.append(_dataset_file(out, files[0], placed))
    return Imported(name, placed, tuple(files), notes + left_out)


def default_folder(source: Path) -> Path:
    """./NAME, or ./NAME_placl where that is the source itself."""
    name = source.resolve().stem if source.is_file() else source.resolve().name
    out = Path(name)
    return Path(f"{name}_placl") if out.exists() and out.resolve() == source.resolve() else out


def joined_roles(roles: list[tuple[str, Instances]]) -> Instances:
    """One set of instances whose images carry their role as a split."""
    parts = [replace(part, splits=(SPLIT_OF[role],) * len(part.images)) for role, part in roles]
    return join(parts)


def _existing(instances: Instances) -> tuple[Instances, tuple[str, ...]]:
    """Without instances of images that are not there (none of which has a label, or its reader had refused)."""
    there = np.array([image.is_file() for image in instances.images], dtype=bool)
    if there.all():
        return instances, ()
    if not there.any():
        raise InputError(f"{instances.images[0]}: does not exist, nor does any other image. Pass --images DIR.")
    note = (
        f"{int((~there).sum())} images do not exist and are left out, first {instances.images[int(np.argmin(there))]}."
    )
    return instances.take(np.flatnonzero(there[instances.image_index])), (note,)


def place_images(instances: Instances, folder: Path, on_progress: Progress | None = None) -> Instances:
    """The images below ``folder``, in the order of folders that they come from."""
    resolved = [Path(os.path.abspath(image)) for image in instances.images]
    root = Path(os.path.commonpath([image.parent for image in resolved]))
    if folder.exists() and root.is_relative_to(folder.resolve()):
        return instances  # they are there: frames of a video
    targets = [folder / image.relative_to(root) for image in resolved]
    with disk_errors(folder):
        for done, (image, target) in enumerate(zip(resolved, targets, strict=True), start=1):
            _link(image, target)
            if on_progress is not None:
                on_progress(done, len(targets))
    return replace(instances, images=tuple(targets))


def _link(image: Path, target: Path) -> None:
    if target.exists() and target.samefile(image):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(image.resolve(), target)
    except OSError:  # another disk, or one without links
        temporary = target.with_name(f".{target.name}.part")
        shutil.copyfile(image, temporary)
        os.replace(temporary, target)


def _dataset_file(out: Path, annotations: Path, instances: Instances) -> Path:
    """A placl.yaml that gives every split its role."""
    name = relative_name(annotations, out)
    keys = {"train": "labeled", "unlabelled": "unlabeled", "val": "val", "test": "test"}
    present = [split for split in keys if split in instances.splits]
    lines = [f"{keys[split]}: [{{path: {name}, split: {split}}}]" for split in present]
    if instances.drawn is not None and instances.drawn.any():
        lines.append("trust_drawn_boxes: true  # this dataset has no other boxes")
    write_atomic(out / "placl.yaml", "\n".join(lines) + "\n")
    return out / "placl.yaml"
