"""Pseudo-labels: in memory, or in a folder of two arrays that are written batch by batch and mapped.

A map travels to another process as its path, so a worker gets labels of a million images in no time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from placl.data.pool import Pool
from placl.files import disk_errors

ARRAYS = ("keypoints", "confidence")


@dataclass(frozen=True)
class PseudoLabels:
    """What a network says about N instances."""

    keypoints: np.ndarray  # (N, K, 2) float32, crop pixels
    confidence: np.ndarray  # (N, K) float32 in [0, 1]
    model: str  # sha256 of the weights that made them

    def take(self, index: np.ndarray) -> PseudoLabels:
        return PseudoLabels(self.keypoints[index], self.confidence[index], self.model)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ARRAYS:
            if isinstance(state[name], np.memmap) and state[name].filename is not None:
                state[name] = Path(str(state[name].filename))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        loaded = {name: _mapped(state[name]) for name in ARRAYS if isinstance(state[name], Path)}
        self.__dict__.update({**state, **loaded})


@contextmanager
def labels_into(folder: Path, count: int, keypoints: int) -> Iterator[Callable[[int, np.ndarray, np.ndarray], None]]:
    """A function that puts labels from an instance on, in any order; they are there when all is done, or not at all."""
    shapes = {"keypoints": (count, keypoints, 2), "confidence": (count, keypoints)}
    parts = {name: folder / f".{name}.npy.part" for name in ARRAYS}
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with ExitStack() as stack:
                files = [stack.enter_context(open(part, "wb")) for part in parts.values()]
                starts = []
                for file, shape in zip(files, shapes.values(), strict=True):
                    head = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(file, head)
                    starts.append(file.tell())

                def put(first: int, *arrays: np.ndarray) -> None:
                    for file, start, values in zip(files, starts, arrays, strict=True):
                        values = np.ascontiguousarray(values, "<f4")
                        file.seek(start + first * values[:1].nbytes)
                        file.write(values.data)

                yield put
                for file in files:
                    file.flush()
                    os.fsync(file.fileno())
            for name, part in parts.items():
                os.replace(part, folder / f"{name}.npy")
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)


def label_table(pool: Pool, pseudo: PseudoLabels, some: slice = slice(None)) -> pa.Table:
    """A row per instance and keypoint, in image pixels: how pseudo-labels are kept for people."""
    confidence = np.asarray(pseudo.confidence[some])
    n, k = confidence.shape
    places = pool.in_image(pseudo.keypoints[some], some).astype(np.float32)
    return pa.table(
        {
            "id": np.repeat(np.array(pool.ids[some], dtype=object), k),
            "keypoint": np.tile(np.array(pool.skeleton.keypoints, dtype=object), n),
            "x": places[:, :, 0].ravel(),
            "y": places[:, :, 1].ravel(),
            "confidence": confidence.ravel(),
        },
        schema=label_schema(pseudo.model),
    )


def label_schema(model: str) -> pa.Schema:
    text, number = pa.string(), pa.float32()
    columns = {"id": text, "keypoint": text, "x": number, "y": number, "confidence": number}
    return pa.schema(list(columns.items()), metadata={"model_sha256": model})


def read_labels(folder: Path, model: str, shape: tuple[int, int]) -> PseudoLabels | None:
    """The labels in a folder, if they are there and of (N, K) keypoints."""
    try:
        keypoints, confidence = (_mapped(folder / f"{name}.npy") for name in ARRAYS)
    except (OSError, EOFError, ValueError):
        return None
    whole = keypoints.shape == (*shape, 2) and confidence.shape == shape
    return PseudoLabels(keypoints, confidence, model) if whole else None


def _mapped(path: Path) -> np.ndarray:
    return np.asanyarray(np.load(path, mmap_mode="r"))
