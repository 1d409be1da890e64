"""What a source holds, and what may be wrong with it: counts, sizes, keypoints one by one, problems a line each."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.images import image_size
from placl.data.instances import Instances
from placl.data.pool import OCCLUDED, VISIBLE
from placl.data.problems import label_problems, many, name_problems, outside_image, place_problems, size_problems
from placl.errors import InputError

MOST_HEADS = 500  # image files whose heads are read; of more, a sample
SEED = 0
MOST_NAMES = 12  # of classes or splits on a line


@dataclass(frozen=True)
class Range:
    """Smallest, median and largest of a number of values."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class KeypointCount:
    """How often one keypoint is labelled, and how."""

    name: str
    labelled: int
    visible: int
    occluded: int
    outside: int | None  # of the image; None if no image's size is known


@dataclass(frozen=True)
class Info:
    """What ``placl data info`` tells."""

    path: str
    format: str
    images: int
    labelled: int  # instances
    unlabelled: int
    keypoints: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    flip_pairs: tuple[tuple[str, str], ...]
    classes: dict[str, int]  # name -> instances
    splits: dict[str, int]  # name -> images
    sizes_of: int  # images whose size was looked at
    width: Range | None
    height: Range | None
    box_side: Range | None  # longest side of the boxes
    whole_images: int  # instances whose box is the image
    per_keypoint: tuple[KeypointCount, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # the reader's

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(path: Path, format_name: str, instances: Instances, notes: tuple[str, ...] = ()) -> Info:
    """Look at everything but the pixels."""
    skeleton = instances.skeleton
    names = skeleton.keypoints if skeleton is not None else ()
    pairs = skeleton.flip_pairs if skeleton is not None else ()
    edges = skeleton.edges if skeleton is not None else ()
    sizes, looked_at, image_problems = _image_sizes(instances.images)
    known = ~np.isnan(sizes[:, 0])
    outside = outside_image(instances, sizes)
    boxed = ~np.isnan(instances.boxes[:, 0])
    labelled = int(instances.labelled.sum())
    return Info(
        path=str(path),
        format=format_name,
        images=len(instances.images),
        labelled=labelled,
        unlabelled=len(instances) - labelled,
        keypoints=names,
        edges=tuple((names[a], names[b]) for a, b in edges),
        flip_pairs=tuple((names[a], names[b]) for a, b in pairs),
        classes=_counted(instances.classes),
        splits=_counted(instances.splits),
        sizes_of=looked_at,
        width=_range(sizes[known, 0]),
        height=_range(sizes[known, 1]),
        box_side=_range(instances.boxes[boxed, 2:].max(axis=1)),
        whole_images=int((~boxed).sum()),
        per_keypoint=_per_keypoint(instances, names, outside if known.any() else None),
        problems=(
            *image_problems,
            *size_problems(instances, sizes),
            *place_problems(instances, sizes, outside),
            *label_problems(instances),
            *name_problems(instances),
        ),
        notes=notes,
    )


def _image_sizes(images: tuple[Path, ...]) -> tuple[np.ndarray, int, list[str]]:
    """(M, 2) width and height, NaN where unknown; how many heads were read; what is wrong with the files."""
    sizes = np.full((len(images), 2), np.nan)
    there = np.array([os.path.isfile(image) for image in images], bool)
    rows = np.flatnonzero(there)
    if len(rows) > MOST_HEADS:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MOST_HEADS, replace=False))
    unreadable: list[Path] = []
    for i in rows:
        try:
            sizes[i] = image_size(images[i])
        except InputError:
            unreadable.append(images[i])
    problems = []
    if not there.all():
        first = images[int(np.argmin(there))]
        problems.append(f"{many(int((~there).sum()), 'image')} missing, e.g. {first}")
    if unreadable:
        part = f" of the {len(rows)} looked at" if len(rows) < there.sum() else ""
        problems.append(f"{many(len(unreadable), 'image')}{part} unreadable, e.g. {unreadable[0]}")
    return sizes, len(rows), problems


def _per_keypoint(
    instances: Instances, names: tuple[str, ...], outside: np.ndarray | None
) -> tuple[KeypointCount, ...]:
    visible = (instances.visibility == VISIBLE).sum(axis=0)
    occluded = (instances.visibility == OCCLUDED).sum(axis=0)
    beyond = [None] * len(names) if outside is None else outside.sum(axis=0).tolist()
    counts = zip(names, visible.tolist(), occluded.tolist(), beyond, strict=True)
    return tuple(KeypointCount(name, v + o, v, o, b) for name, v, o, b in counts)


def _counted(values: tuple[str, ...]) -> dict[str, int]:
    """Most frequent first; the nameless are not counted."""
    names, counts = np.unique([value for value in values if value], return_counts=True)
    return {str(names[i]): int(counts[i]) for i in np.lexsort((names, -counts))}


def _range(values: np.ndarray) -> Range | None:
    if not len(values):
        return None
    return Range(*(float(round(value, 1)) for value in (values.min(), np.median(values), values.max())))


def lines(info: Info) -> list[str]:
    """For people: a sentence, what there is, a table of the keypoints, and what may be wrong."""
    text = [
        f"{info.format}: {many(info.images, 'image')}, {info.labelled:,} labelled and {info.unlabelled:,} unlabelled "
        f"instances, {many(len(info.keypoints), 'keypoint')}"
    ]
    facts = {
        "images": _image_words(info),
        "boxes": _box_words(info),
        "classes": _count_words(info.classes),
        "splits": _count_words(info.splits),
        "skeleton": f"{many(len(info.edges), 'edge')}, {many(len(info.flip_pairs), 'left/right pair')}",
    }
    if not info.keypoints:
        del facts["skeleton"]
    text += [f"  {name:<9} {words}" for name, words in facts.items() if words]
    if info.labelled:
        text += ["", *_table(info.per_keypoint)]
    text += ["", *(_bullets("problem", info.problems) or ["no problems found"])]
    return text + (["", *_bullets("note", info.notes)] if info.notes else [])


def _bullets(title: str, items: tuple[str, ...]) -> list[str]:
    return [f"{many(len(items), title)}:", *(f"  - {item}" for item in items)] if items else []


def _image_words(info: Info) -> str:
    if info.width is None or info.height is None:
        return "sizes unknown"
    low, median, high = (
        f"{getattr(info.width, k):.0f}x{getattr(info.height, k):.0f}" for k in ("low", "median", "high")
    )
    words = f"{low} px" if low == high else f"{low} to {high} px, median {median}"
    return words + (f" ({many(info.sizes_of, 'image')} looked at)" if info.sizes_of < info.images else "")


def _box_words(info: Info) -> str:
    side, words = info.box_side, []
    if side is not None:
        words.append(f"longest side {side.low:.0f} to {side.high:.0f} px, median {side.median:.0f}")
    if info.whole_images:
        words.append("the whole image" if side is None else f"{info.whole_images:,} the whole image")
    return "; ".join(words)


def _count_words(counts: dict[str, int]) -> str:
    words = [f"{name} {count:,}" for name, count in counts.items()]
    return ", ".join(words[:MOST_NAMES]) + (f" and {len(words) - MOST_NAMES} more" if len(words) > MOST_NAMES else "")


def _table(counts: tuple[KeypointCount, ...]) -> list[str]:
    """Aligned columns: names to the left, numbers to the right, nothing where there is nothing."""
    head = ("keypoint", "labelled", "visible", "occluded", "outside")
    rows = [(c.name, *(f"{n:,}" if n else "-" for n in (c.labelled, c.visible, c.occluded, c.outside))) for c in counts]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  "
        + row[0].ljust(widths[0])
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in (head, *rows)
    ]
