"""Instances -> tables of labels in csv, for DeepLabCut and Lightning Pose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from placl.data.formats.coco_writing import relative_name
from placl.data.formats.deeplabcut_table import table_text
from placl.data.formats.individuals import individuals_in
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED
from placl.errors import InputError
from placl.files import write_atomic

SCORER = "placl"
MOST_INDIVIDUALS = 64  # more names than that are hardly individuals
INDIVIDUAL = "individual"  # and a number, as DeepLabCut calls those that nobody has named
FIRST = f"{INDIVIDUAL}1"


def write_tables(
    instances: Instances, root: Path, files: Mapping[Path, Iterable[int]], *, named: bool = True
) -> list[Path]:
    """Write csv files, each with the images of the given numbers, named relative to ``root``.

    Without ``named``, there is one instance to an image, and no individuals.
    """
    if instances.skeleton is None:
        raise InputError(f"{root}: cannot be written, no source names keypoints. Pass --keypoints.")
    labelled = np.flatnonzero(instances.labelled)
    individuals, column = individuals_of(instances, labelled) if named else (("",), np.zeros(len(labelled), np.int64))
    k = len(instances.skeleton)
    points = np.full((len(instances.images), len(individuals), k, 2), np.nan, np.float32)
    known = np.where(instances.visibility[..., None] > UNLABELLED, instances.keypoints, np.nan)
    points[instances.image_index[labelled], column] = known[labelled]
    for file, images in files.items():
        chosen = list(images)
        names = [relative_name(instances.images[i], root) for i in chosen]
        write_atomic(file, table_text(names, individuals, instances.skeleton.keypoints, points[chosen], SCORER))
    return list(files)


def individuals_of(instances: Instances, labelled: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of individuals, and (L,) whose column each labelled instance goes to; ("",) with one to an image.

    Who has no name is counted in each image; all are where no names tell them apart.
    """
    images = instances.image_index[labelled].tolist()
    given = individuals_in(instances)
    names = _counted(images, [given[i] for i in labelled])
    if len(set(names)) > MOST_INDIVIDUALS or len(set(zip(images, names, strict=True))) < len(names):
        names = _counted(images, [""] * len(names))
    if set(names) <= {FIRST} and FIRST not in given:
        return ("",), np.zeros(len(names), np.int64)
    ordered = _in_order(images, names)
    return ordered, np.array([ordered.index(name) for name in names], np.int64)


def _counted(images: list[int], names: list[str]) -> list[str]:
    """Those without a name as individual1, individual2, ... of their image."""
    seen: dict[int, int] = {}
    counted = []
    for image, name in zip(images, names, strict=True):
        seen[image] = seen.get(image, 0) + (not name)
        counted.append(name or f"{INDIVIDUAL}{seen[image]}")
    return counted


def _in_order(images: list[int], names: list[str]) -> tuple[str, ...]:
    """The individuals so that those of every image come in the order they have there, where that can be."""
    graph: TopologicalSorter[str] = TopologicalSorter()
    last: dict[int, str] = {}
    for image, name in zip(images, names, strict=True):
        graph.add(name, *([last[image]] if image in last else []))
        last[image] = name
    try:
        return tuple(graph.static_order())
    except CycleError:
        return tuple(dict.fromkeys(names))
