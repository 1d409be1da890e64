"""Corrections that ``placl ui --review`` wrote, as labels: those that were accepted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placl.data.corrections import KIND, Corrections
from placl.data.formats.common import renamed, require_image
from placl.data.formats.format import Format, Found, Options
from placl.data.instances import Instances
from placl.errors import InputError


def read_corrected(path: Path, options: Options) -> Found:
    corrections = Corrections(path)
    accepted = [one for one in corrections.latest.values() if one.is_label]
    if not accepted:
        raise InputError(f"{path}: no instance is accepted ({corrections.summary}). Review some first.")
    roots = [options.images or path.parent, path.parent]
    images = {name: _image(name, roots, path) for name in dict.fromkeys(one.image for one in accepted)}
    files = list(dict.fromkeys(images.values()))
    boxes = np.array([one.box or (np.nan,) * 4 for one in accepted], np.float64)
    instances = Instances(
        skeleton=renamed(corrections.skeleton, options.keypoints),
        images=tuple(files),
        image_index=np.array([files.index(images[one.image]) for one in accepted], np.int64),
        boxes=boxes,
        keypoints=np.array([one.keypoints for one in accepted], np.float32),
        visibility=np.array([one.visibility for one in accepted], np.uint8),
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        ids=tuple(one.id for one in accepted),
        sources=(str(path),) * len(files),
    )
    return Found(instances, (f"{path}: {corrections.summary}.",))


def _image(name: str, roots: list[Path], path: Path) -> Path:
    """Where it was when it was corrected, or of that name below the folder that was given."""
    return Path(name) if Path(name).is_file() else require_image(roots, name, str(path))


def _claims(path: Path) -> bool:
    if path.suffix.lower() != ".jsonl" or not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            return KIND.encode() in file.readline(1 << 16)
    except OSError:
        return False


FORMAT = Format("corrections", "corrections of placl ui --review", _claims, read_corrected)
