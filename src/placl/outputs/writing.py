"""Predictions -> a file of the kind that was asked for, or that its suffix tells. Also COCO results and placl's csv."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from placl.errors import InputError
from placl.files import write_pieces
from placl.outputs.deeplabcut import write_deeplabcut
from placl.outputs.predictions import Predictions
from placl.outputs.sleap import write_sleap

NAME = "predictions"  # of a file that nobody has named
H5 = (".h5", ".hdf5")


@dataclass(frozen=True)
class Kind:
    suffixes: tuple[str, ...]  # that it may have; the first if nobody names the file
    write: Callable[[Predictions, Path], None]


def write_results(found: Predictions, path: Path) -> None:
    """COCO results, a record a line."""
    write_pieces(path, _results(found))


def _results(found: Predictions) -> Iterator[str]:
    yield "["
    for number, record in enumerate(found.records()):
        yield (",\n" if number else "") + json.dumps(record)
    yield "]\n"


def write_table(found: Predictions, path: Path) -> None:
    """A row an instance: image, frame (of a video), score, box, then NAME_x, NAME_y, NAME_confidence of keypoints."""
    write_pieces(path, _rows(found))


def _rows(found: Predictions) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    parts = [f"{name}_{part}" for name in found.skeleton.keypoints for part in ("x", "y", "confidence")]
    frame = [] if found.clip is None else ["frame"]
    writer.writerow(["image", *frame, "score", "x", "y", "width", "height", *parts])
    for i, record in enumerate(found.records()):
        place = [found.names[i]] if found.clip is None else [found.clip.path.name, record["frame_index"]]
        writer.writerow([*place, record["score"], *record["bbox"], *record["keypoints"]])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


KINDS = {
    "coco": Kind((".json",), write_results),
    "csv": Kind((".csv",), write_table),
    "deeplabcut": Kind((".csv", *H5), write_deeplabcut),
    "sleap": Kind((".slp",), write_sleap),
}
BY_SUFFIX = {".json": "coco", ".csv": "csv", ".h5": "deeplabcut", ".hdf5": "deeplabcut", ".slp": "sleap"}


def settle(path: Path | None, kind: str | None) -> tuple[Path, str]:
    """The file and the kind, where one may tell the other; refuses what could not be written."""
    if kind is not None and kind not in KINDS:
        raise InputError(f'format "{kind}" is unknown. Known are {", ".join(KINDS)}.')
    if path is None:
        kind = kind or "coco"
        return Path(NAME + KINDS[kind].suffixes[0]), kind
    if path.is_dir():
        raise InputError(f"{path}: is a folder. Name a file for the predictions with --out.")
    suffix = path.suffix.lower()
    if kind is None:
        if suffix not in BY_SUFFIX:
            raise InputError(f"{path}: its suffix tells no format. Known are {', '.join(BY_SUFFIX)}.")
        kind = BY_SUFFIX[suffix]
    elif suffix not in KINDS[kind].suffixes:
        raise InputError(f"{path}: a file of format {kind} is called {' or '.join(KINDS[kind].suffixes)}. Rename it.")
    if suffix in H5 and not (find_spec("pandas") and find_spec("tables")):
        raise InputError(
            f"{path}: needs pandas and tables: pip install 'placl[h5]'. Or name a .csv with --format deeplabcut."
        )
    return path, kind


def write_predictions(found: Predictions, path: Path, kind: str | None = None) -> None:
    path, kind = settle(path, kind)
    KINDS[kind].write(found, path)
