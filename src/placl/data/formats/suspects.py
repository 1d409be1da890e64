"""Files that no format claims, though they were meant to hold labels: whose reader can say what is wrong with them.

A label file with a mistake in it must not make a dataset look unlabelled.
"""

from __future__ import annotations

from pathlib import Path

from placl.data.formats import coco, deeplabcut, leeds, mpii, table, yolo
from placl.data.formats.common import load_json
from placl.data.formats.deeplabcut_config import CONFIG
from placl.data.formats.format import Format
from placl.data.formats.yolo_yaml import config_of
from placl.errors import InputError

TABLES = ("labels.csv", "annotations.csv", "keypoints.csv")
BY_SUFFIX = {".json": coco.FORMAT, ".csv": table.FORMAT, ".mat": leeds.LSP}
LABEL_SUFFIXES = {*BY_SUFFIX, ".h5", ".xml", ".slp"}


def suspect(file: Path) -> Format | None:
    """The format of a file that is damaged or wrong, by its name; None where it need not be labels at all."""
    name, suffix = file.name.lower(), file.suffix.lower()
    if suffix == ".json":
        return coco.FORMAT if _is_cut_or_annotations(file) else None
    if suffix == ".mat":
        return leeds.LSP if name == "joints.mat" else mpii.FORMAT if name.startswith("mpii") else None
    if suffix == ".csv":
        return deeplabcut.FORMAT if name.startswith("collecteddata") else table.FORMAT if name in TABLES else None
    if name in ("data.yaml", "data.yml", CONFIG) and not _is_yaml(file):
        return deeplabcut.FORMAT if name == CONFIG else yolo.FORMAT
    return None


def suspect_named(file: Path) -> Format | None:
    """As :func:`suspect`, for a file that somebody named as a source: then its ending is enough."""
    return suspect(file) or BY_SUFFIX.get(file.suffix.lower())


def _is_cut_or_annotations(file: Path) -> bool:
    try:
        content = load_json(file)
    except InputError:
        return True
    return isinstance(content, dict) and "annotations" in content


def _is_yaml(file: Path) -> bool:
    try:
        config_of(file)
    except InputError:
        return False
    return True
