"""Peak memory of labelling, selection and a training step for few and for many instances: it must not grow with them.

Each count is measured in a process of its own. What counts is all resident memory but that of the mapped crops, which
the system takes back whenever it needs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from placl import config as configuration
from placl.bench.measure import machine
from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.data.pool import Pool
from placl.data.synthetic import animals
from placl.errors import InputError
from placl.execute.serial import SerialExecutor
from placl.labelling import label_with
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import inner_loop
from placl.learn.network import fresh_network

LABELLED = 64
SIZE = 64


def bench_memory(repeats: int = 1, counts: tuple[int, int] = (10_000, 200_000)) -> dict[str, Any]:
    """``ratio``: peak memory beyond the mapped crops for the larger count, over that for the smaller one."""
    if not Path("/proc/self/smaps").exists():
        raise InputError("placl bench memory reads /proc/self/smaps, which only Linux has.")
    found: list[tuple[int, int]] = []
    for _ in range(repeats):
        few, many = (_in_a_process_of_its_own(count) for count in counts)
        found.append((few, many))
    few, many = sorted(found, key=lambda pair: pair[1] / pair[0])[len(found) // 2]
    return {
        "ratio": round(many / few, 3),
        "peak_megabytes": {str(counts[0]): round(few / 1e6, 1), str(counts[1]): round(many / 1e6, 1)},
        "mapped_megabytes": {str(count): round((count + LABELLED) * SIZE * SIZE * 3 / 1e6) for count in counts},
        "repeats": repeats,
        "machine": machine(),
    }


def _in_a_process_of_its_own(count: int) -> int:
    command = [sys.executable, "-m", "placl.bench.memory", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return int(json.loads(done.stdout)["peak"])


def peak_of(count: int) -> int:
    """Bytes that labelling, selection and a training step of ``count`` instances take at most."""
    config = configuration.load(
        None,
        {
            "model.width": 0.25,  # what grows with instances does not depend on the network
            "teacher.input_size": None,
            **{"label.flip": False, "label.rotations": (), "label.scales": ()},  # nor on the number of views
            "train.epochs": 1,
            "train.batch": 16,
            "train.optimizer": "adamw",
            "train.steps_per_epoch": 1,
            "search.group_size": 1,
            "proxy.epochs": None,
            "execute.device": "cpu",
        },
    )
    with tempfile.TemporaryDirectory() as place:
        crops = _write_crops(Path(place) / "crops.npy", count + LABELLED)
        with _Watched(crops) as watched:
            _label_select_train(crops, count, config, Path(place) / "labels")
    return watched.peak


def _write_crops(file: Path, count: int) -> Path:
    """Drawn animals, again and again."""
    some = animals(256, seed=0, size=SIZE)
    edge = (some.crop_size - SIZE) // 2
    images = np.ascontiguousarray(some.images(np.arange(256))[:, edge : edge + SIZE, edge : edge + SIZE])
    with open(file, "wb") as target:
        shape = (count, SIZE, SIZE, 3)
        np.lib.format.write_array_header_1_0(target, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for start in range(0, count, 256):
            target.write(images[: count - start].tobytes())
    return file


def _label_select_train(crops: Path, count: int, config: Config, folder: Path) -> None:
    everyone = _pool(crops, count + LABELLED)
    labelled = everyone.take(np.arange(LABELLED))
    labelled = replace(labelled, visibility=np.full_like(labelled.visibility, 2))
    hidden = everyone.take(np.arange(LABELLED, LABELLED + count)).without_labels()
    del everyone
    net = fresh_network(config, len(labelled.skeleton), 0, torch.device("cpu"))
    pseudo = label_with(
        SerialExecutor(), net, hidden, config, model="", folder=folder, on_progress=lambda done, total: None
    )
    inner_loop(config, TrainingSet(labelled, hidden, pseudo), constant(0.0), 0)


def _pool(crops: Path, count: int) -> Pool:
    one = animals(1, seed=0, size=SIZE)
    some = one.take(np.zeros(count, np.int64))
    ids = tuple(f"images/{number:08d}.jpg#{number}" for number in range(count))
    mapped = np.asanyarray(np.load(crops, mmap_mode="r"))
    return replace(
        some.without_labels(), crops=mapped, rows=np.arange(count), image=np.arange(count), ids=ids, view=float(SIZE)
    )


class _Watched:
    """The peak of this process's resident memory but for one file's map, looked at ten times a second."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = 0

    def __enter__(self) -> _Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.peak = max(self.peak, resident_but(self._file))

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.peak = max(self.peak, resident_but(self._file))


def resident_but(file: str) -> int:
    """Bytes of this process in memory, without the pages of a mapped file."""
    total, counted = 0, True
    with open("/proc/self/smaps") as lines:
        for line in lines:
            head = line.split(maxsplit=5)
            if "-" in head[0] and not head[0].endswith(":"):
                counted = len(head) < 6 or head[5].strip() != file
            elif line.startswith("Rss:") and counted:
                total += 1024 * int(head[1])
    return total


if __name__ == "__main__":
    print(json.dumps({"peak": peak_of(int(sys.argv[1]))}))
