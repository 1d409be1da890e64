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
def labels_into(folder: Path, count: int, keypoints: int) -> Iterator[Callable[[np.ndarray, np.ndarray], None]]:
    """A function that adds the labels of the next instances; they are there once all have come, or not at all."""
    shapes = {"keypoints": (count, keypoints, 2), "confidence": (count, keypoints)}
    parts = {name: folder / f".{name}.npy.part" for name in ARRAYS}
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with ExitStack() as stack:
                files = [stack.enter_context(open(part, "wb")) for part in parts.values()]
                for file, shape in zip(files, shapes.values(), strict=True):
                    head = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(file, head)

                def add(*arrays: np.ndarray) -> None:
                    for file, values in zip(files, arrays, strict=True):
                        file.write(np.ascontiguousarray(values, "<f4").tobytes())

                yield add
                for file in files:
                    file.flush()
                    os.fsync(file.fileno())
            for name, part in parts.items():
                os.replace(part, folder / f"{name}.npy")
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)


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
