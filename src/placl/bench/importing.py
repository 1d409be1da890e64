"""Import against bare decoding: what reading a dataset and building its pool costs beyond cv2's JPEG decoder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from placl.bench.measure import machine, side_by_side
from placl.data.crop_cache import build_pool
from placl.data.formats.registry import read_source
from placl.data.synthetic import write_animals
from placl.execute.executor import available_cores

IMAGES_PER_TASK = 32


def bench_import(
    repeats: int = 5, source: Path | None = None, workers: int | None = None, size: int = 64
) -> dict[str, Any]:
    """``ratio``: images per second from the files of ``source`` (default: drawn animals) to a pool, over bare decoding.

    Bare decoding runs in as many processes as the import has threads. Both start from nothing each time.
    """
    workers = workers or available_cores()
    with _source(source) as folder, tempfile.TemporaryDirectory() as place:
        cache = Path(place) / "cache"
        paths = [str(path) for path in read_source(folder)[1].instances.images]

        def importing() -> None:
            instances = read_source(folder)[1].instances
            shown: list[int] = []  # as a progress bar would
            build_pool(instances, view=size, cache=cache, workers=workers, progress=lambda done, _: shown.append(done))

        def from_nothing() -> None:
            shutil.rmtree(cache, ignore_errors=True)
            importing()

        things = {"bare": lambda: bare(paths, workers), "import": from_nothing, "again": importing}
        found = side_by_side(things, repeats)
    return {
        "ratio": round(found.ratio("import", "bare"), 3),
        "import_images_per_second": round(len(paths) / found.median("import")),
        "bare_images_per_second": round(len(paths) / found.median("bare")),
        "second_start_seconds": round(found.median("again"), 3),
        "images": len(paths),
        "workers": workers,
        "repeats": repeats,
        "machine": machine(),
    }


def bare(paths: list[str], workers: int) -> None:
    """Decode all images and do nothing with them."""
    groups = [paths[i : i + IMAGES_PER_TASK] for i in range(0, len(paths), IMAGES_PER_TASK)]
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=cv2.setNumThreads, initargs=(0,)) as pool:
        assert sum(pool.map(decode_some, groups)) == len(paths)


def decode_some(paths: list[str]) -> int:
    images = (cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR) for path in paths)
    return sum(image is not None for image in images)


@contextmanager
def _source(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        write_animals(Path(place), 2000, seed=0)
        yield Path(place)
