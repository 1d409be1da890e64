"""From any source to a folder of one's own: images/ beside one COCO json, or the layout of another tool."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placl.data.formats.coco_writing import relative_name
from placl.data.formats.common import common_folder, way_from
from placl.data.formats.format import Options
from placl.data.formats.registry import format_named, read_source
from placl.data.images import image_size
from placl.data.instances import Instances, Roles, join
from placl.data.protocols import protocol_named, read_protocol
from placl.errors import InputError
from placl.files import disk_errors, link_or_copy, write_atomic

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
    replaces = refuse_target(source, out, overwrite)
    options = options or Options()
    if options.frames is None and not target.places_images:
        options = replace(options, frames=out / target.images_in)
    with _gone_if_refused(out, replaces):
        name, instances, notes = read_any(source, format_name, protocol, options)
        if replaces:
            _refuse_own_labels(instances, out)
        instances, left_out = _existing(instances)
        if replaces and target.clear is not None:
            target.clear(out, instances.images)
        placed = instances if target.places_images else place_images(instances, out / target.images_in, on_progress)
        files = target.write(placed, out)
        if protocol is not None and to == "coco":
            files.append(_dataset_file(out, files[0], placed, protocol))
    return Imported(name, placed, tuple(files), left_out + notes)


@contextmanager
def _gone_if_refused(out: Path, had_content: bool) -> Iterator[None]:
    """An import that is refused leaves no folder that would stand in the way of the next."""
    existed = out.exists()
    try:
        yield
    except InputError:
        if not had_content and out.is_dir():
            shutil.rmtree(out)
            if existed:
                out.mkdir()
        raise


def read_any(
    source: Path, format_name: str | None, protocol: str | None, options: Options
) -> tuple[str, Instances, tuple[str, ...]]:
    """What a source holds, by a protocol of the paper or as it is: the name of either, its instances and notes."""
    if protocol is not None:
        roles, found_notes = read_protocol(protocol, source)
        scored = f"{protocol} is scored by {_scored_by(protocol)}: add it to placl train."
        name, instances, notes = protocol, joined_roles(roles), (*found_notes, scored)
    else:
        known, found = read_source(source, format_name, options)
        name, instances, notes = known.name, found.instances, found.notes
    if not len(instances):
        raise InputError(f"{source}: holds no instances.")
    return name, instances, notes


def _scored_by(protocol: str) -> str:
    """The settings of a training that a data section cannot carry."""
    chosen = protocol_named(protocol)
    return f"reward.metric={chosen.metric}" + (f" reward.alpha={chosen.alpha:g}" if chosen.alpha is not None else "")


def refuse_target(source: Path, out: Path, overwrite: bool) -> bool:
    """Refuse to write to ``out`` where something would be lost that was not meant to; whether it has content."""
    if out.is_file():
        raise InputError(f"{out}: is a file. Name a folder with --out.")
    has_content = out.is_dir() and any(out.iterdir())
    given, target = source.resolve(), out.resolve()
    if has_content and (given.is_relative_to(target) or target.is_relative_to(given)):
        raise InputError(f"{out}: is the source, or lies in it or around it. Name another folder with --out.")
    if has_content and not overwrite:
        raise InputError(f"{out}: is there already. Name another folder with --out, or pass --overwrite.")
    return has_content


def _refuse_own_labels(instances: Instances, out: Path) -> None:
    target = out.resolve()
    for source in dict.fromkeys(instances.sources):
        if source and Path(source).exists() and Path(source).resolve().is_relative_to(target):
            raise InputError(f"{source}: lies in {out}, which would be overwritten. Name another folder with --out.")


def default_folder(source: Path) -> Path:
    """./NAME, or ./NAME_placl where that is the source itself."""
    name = source.resolve().stem if source.is_file() else source.resolve().name
    out = Path(name)
    return Path(f"{name}_placl") if out.exists() and out.resolve() == source.resolve() else out


def joined_roles(roles: Roles) -> Instances:
    """One set of instances whose images carry their role as a split."""
    parts = [replace(part, splits=(SPLIT_OF[role],) * len(part.images)) for role, part in roles]
    return join(parts)


def _existing(instances: Instances) -> tuple[Instances, tuple[str, ...]]:
    """Without unlabelled instances of images that are not there or cannot be read; labelled ones are refused."""
    wrong: dict[int, str] = {}
    for number, image in enumerate(instances.images):
        try:
            image_size(image)
        except InputError as error:
            wrong[number] = str(error)
    if not wrong:
        return instances, ()
    bad = np.isin(instances.image_index, list(wrong))
    for row in np.flatnonzero(bad & instances.labelled):
        raise InputError(wrong[int(instances.image_index[row])])
    first = next(iter(wrong.values()))
    if bad.all():
        raise InputError(f"none of the {len(wrong)} images can be read, first {first}")
    return instances.take(np.flatnonzero(~bad)), (
        f"{len(wrong)} images cannot be read and are left out, first {first}",
    )


def place_images(instances: Instances, folder: Path, on_progress: Progress | None = None) -> Instances:
    """The images below ``folder``, in the folders that they come from: one level of them, unless it is images/."""
    resolved = [Path(os.path.abspath(image)) for image in instances.images]
    root = common_folder(resolved)
    if root is not None and folder.exists() and root.is_relative_to(folder.resolve()):
        return instances  # they are there: frames of a video
    places = [way_from(root, image) for image in resolved]
    if folder.name != "images":  # DeepLabCut's labeled-data/VIDEO/img.png
        places = _one_level(places, "images" if root is None else root.name)
    targets = [folder / place for place in places]
    with disk_errors(folder):
        for done, (image, target) in enumerate(zip(resolved, targets, strict=True), start=1):
            link_or_copy(image, target)
            if on_progress is not None:
                on_progress(done, len(targets))
    return replace(instances, images=tuple(targets))


def _one_level(places: list[Path], top: str) -> list[Path]:
    """Folders as one name each; a/b and a_b stay apart, by a number behind the second."""
    names: dict[Path, str] = {}
    taken: set[str] = set()
    for folder in dict.fromkeys(place.parent for place in places):
        plain = name = "_".join(folder.parts) or top
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}_{number}"
        names[folder] = name
        taken.add(name.lower())
    return [Path(names[place.parent]) / place.name for place in places]


def _dataset_file(out: Path, annotations: Path, instances: Instances, protocol: str) -> Path:
    """A placl.yaml that gives every split its role."""
    name = relative_name(annotations, out)
    keys = {"train": "labeled", "unlabelled": "unlabeled", "val": "val", "test": "test"}
    present = [split for split in keys if split in instances.splits]
    lines = [f"# the paper's splits of {protocol_named(protocol).title}, scored by: {_scored_by(protocol)}"]
    lines += [f"{keys[split]}: [{{path: {name}, split: {split}}}]" for split in present]
    if instances.drawn is not None and instances.drawn.any():
        lines.append("trust_drawn_boxes: true  # this dataset has no other boxes")
    write_atomic(out / "placl.yaml", "\n".join(lines) + "\n")
    return out / "placl.yaml"
