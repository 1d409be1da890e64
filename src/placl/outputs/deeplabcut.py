"""Predictions as DeepLabCut's analyze_videos writes them: x, y and likelihood of every bodypart, in csv or h5.

Rows are all frames of a video, by number, or the images, by name. With several instances to an image there are
individuals, in the order that the image has them: nothing tells who is who from frame to frame.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placl.data.formats.deeplabcut_h5 import KEY
from placl.data.formats.deeplabcut_table import LEVELS, table_text
from placl.data.formats.deeplabcut_writing import SCORER
from placl.files import disk_errors, replacing, write_atomic
from placl.outputs.predictions import Predictions

COORDS = ("x", "y", "likelihood")


def write_deeplabcut(found: Predictions, path: Path) -> None:
    index, individuals, values = deeplabcut_table(found)
    parts = found.skeleton.keypoints
    if path.suffix.lower() == ".csv":
        write_atomic(path, table_text([str(name) for name in index], individuals, parts, values, SCORER, COORDS))
        return
    import pandas

    with_names = individuals != ("",)
    levels = [[SCORER], *([list(individuals)] if with_names else []), list(parts), list(COORDS)]
    columns = pandas.MultiIndex.from_product(levels, names=LEVELS[len(levels)])
    frame = pandas.DataFrame(values.reshape(len(index), -1), columns=columns, index=index)
    with disk_errors(path), replacing(path) as part:
        frame.to_hdf(part, key=KEY, mode="w", format="table")


def deeplabcut_table(found: Predictions) -> tuple[list[int] | list[str], tuple[str, ...], np.ndarray]:
    """Names of the R rows, names of individuals ("" for a single animal), and (R, I, K, 3) values with NaN for none."""
    index: list[int] | list[str]
    if found.clip is not None:
        index, rows = list(range(found.clip.length)), found.clip.frames
    else:
        names = dict(zip(found.files, found.names, strict=True))
        number = {file: row for row, file in enumerate(names)}
        index, rows = list(names.values()), np.array([number[file] for file in found.files], np.int64)
    place, count = np.zeros(len(found), np.int64), np.zeros(len(index), np.int64)
    for i, row in enumerate(rows):
        place[i] = count[row]
        count[row] += 1
    most = int(count.max(initial=1))
    individuals = ("",) if most == 1 else tuple(f"individual{i}" for i in range(1, most + 1))
    values = np.full((len(index), most, len(found.skeleton), 3), np.nan)
    values[rows, place, :, :2] = found.keypoints
    values[rows, place, :, 2] = found.confidence
    return index, individuals, values
