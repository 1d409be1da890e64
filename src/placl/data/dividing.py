"""Divide a dataset by image into files for labelled, unlabelled, validation and test, and name them in a placl.yaml."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placl.data.formats.coco_writing import write_coco
from placl.data.formats.format import Options
from placl.data.formats.registry import read_source
from placl.data.instances import Instances, own_roles
from placl.data.splits import Split, draw_split
from placl.errors import InputError
from placl.files import write_atomic

KEYS = {"labelled": "labeled", "unlabelled": "unlabeled", "val": "val", "test": "test"}


@dataclass(frozen=True)
class Divided:
    dataset: Path  # placl.yaml
    files: tuple[Path, ...]
    counts: dict[str, int]  # instances by part
    notes: tuple[str, ...]


def divide(
    source: Path,
    out: Path,
    *,
    label_fraction: float = 1.0,
    val_fraction: float = 0.2,
    test_fraction: float = 0.0,
    seed: int = 0,
    format_name: str | None = None,
    options: Options | None = None,
    overwrite: bool = False,
) -> Divided:
    """The division that a training with these settings would draw. Unlabelled instances lose their labels.

    Where the source itself says which images validate or test, that holds, and no others are drawn for it. An image is
    in one file only: unlabelled instances beside labelled, validation or test instances are left out.
    """
    if out.is_file():
        raise InputError(f"{out}: is a file. Name a folder with --out.")
    if not 0 < label_fraction <= 1:
        raise InputError(f"--labels {label_fraction:g}: at least one instance has to stay labelled.")
    known, found = read_source(source, format_name, options)
    instances = found.instances
    _refuse_targets([source, *map(Path, dict.fromkeys(instances.sources))], out, overwrite)
    if not instances.labelled.any():
        raise InputError(f"{source}: no labelled instance: there is nothing to divide.")
    notes = list(found.notes)
    split = draw_split(
        _Members(instances.image_index, instances.ids),
        _roles(source, instances, notes),
        label_fraction=label_fraction,
        val_fraction=val_fraction,
        test_fraction=test_fraction,
        seed=seed,
    )
    parts, left_out = _parts(instances, split)
    if left_out:
        notes.append(
            f"{left_out} unlabelled instances are left out: they are on images of labelled, validation or test "
            "instances."
        )
    if label_fraction < 1 and instances.drawn is not None and instances.drawn.any():
        notes.append("boxes were drawn around keypoints; unlabelled instances are whole images, so that none shows.")
    files = [write_coco(part, out / f"{KEYS[name]}.json")[0] for name, part in parts.items()]
    content = "".join(f"{KEYS[name]}: [{KEYS[name]}.json]\n" for name in parts)
    write_atomic(out / "placl.yaml", f"# {known.title}, divided by seed {seed}\n{content}")
    counts = {name: len(part) for name, part in parts.items()}
    return Divided(out / "placl.yaml", tuple(files), counts, tuple(notes))


def _roles(source: Path, instances: Instances, notes: list[str]) -> np.ndarray:
    """(N,) what each instance is before anything is drawn: by the source's own splits, where it has some."""
    plain = np.where(instances.labelled, "labelled", "unlabelled")
    own = own_roles(instances)
    if own is None:
        return plain
    roles = np.where(own == "labelled", plain, own)
    if not (roles == "labelled").any():
        raise InputError(f"{source}: all its labelled images are for validation or test: there is nothing to divide.")
    counts = {role: int((roles == role).sum()) for role in ("val", "test")}
    told = ", ".join(f"{count} {role}" for role, count in counts.items() if count)
    notes.append(f"{source}: has splits of its own, which hold here: {told} instances; the others are divided.")
    return roles


@dataclass(frozen=True)
class _Members:
    """What a division goes by."""

    image: np.ndarray  # (N,)
    ids: tuple[str, ...]


def _refuse_targets(sources: list[Path], out: Path, overwrite: bool) -> None:
    for target in (out / name for name in (*(f"{key}.json" for key in KEYS.values()), "placl.yaml")):
        if not target.exists():
            continue
        if any(source.exists() and target.samefile(source) for source in sources):
            raise InputError(f"{target}: is what is divided. Name another folder with --out.")
        if not overwrite:
            raise InputError(f"{target}: is there already. Name another folder with --out, or pass --overwrite.")


def _parts(instances: Instances, split: Split) -> tuple[dict[str, Instances], int]:
    """Instances by part, and how many are in none."""
    place = {name: i for i, name in enumerate(instances.ids)}
    ids = {"labelled": split.labelled, "unlabelled": split.half_1 + split.half_2, "val": split.val, "test": split.test}
    rows = {name: np.array([place[i] for i in who], np.int64) for name, who in ids.items()}
    taken = instances.image_index[np.concatenate([rows[name] for name in ("labelled", "val", "test")])]
    rows["unlabelled"] = rows["unlabelled"][~np.isin(instances.image_index[rows["unlabelled"]], taken)]
    parts = {name: instances.take(who) for name, who in rows.items() if len(who)}
    left_out = len(instances) - sum(map(len, parts.values()))
    if "unlabelled" in parts:
        parts["unlabelled"] = without_labels(parts["unlabelled"])
    return parts, left_out


def without_labels(instances: Instances) -> Instances:
    """Nothing but where the instances are; whole images where a box would show where the keypoints are."""
    boxes, area = instances.boxes.copy(), instances.area.copy()
    index = np.arange(len(instances))
    if instances.drawn is not None and instances.drawn.any():
        boxes[instances.drawn], area[instances.drawn] = np.nan, np.nan
        # Several animals of an image without boxes are one whole image.
        first = np.unique(instances.image_index, return_index=True)[1]
        index = np.flatnonzero(~np.isnan(boxes[:, 0]) | np.isin(index, first))
    plain = replace(
        instances,
        skeleton=None,
        boxes=boxes,
        area=area,
        keypoints=np.zeros((len(instances), 0, 2), np.float32),
        visibility=np.zeros((len(instances), 0), np.uint8),
        head_length=None,
        drawn=None,
    )
    return plain.take(index)
