"""Import against bare decoding: what reading a dataset and building its pool costs beyond cv2's JPEG decoder.

    python benchmarks/importing.py ../shared/data/lspet.tar

Both use the same number of processes, started anew each time; runs alternate and the median ratio is reported. Then
the start from the cache. Writes `benchmarks/results/importing.csv`.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np

from placl.data.crop_cache import IMAGES_PER_TASK, build_pool
from placl.data.formats.registry import read_source
from placl.files import write_csv

RESULTS = Path(__file__).parent / "results"


def decode_some(paths: list[str]) -> int:
    return sum(cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR).size for path in paths)


def bare(paths: list[str], workers: int) -> float:
    """Seconds to decode all images and do nothing with them."""
    start = time.perf_counter()
    groups = [paths[i : i + IMAGES_PER_TASK] for i in range(0, len(paths), IMAGES_PER_TASK)]
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=cv2.setNumThreads, initargs=(0,)) as pool:
        assert sum(pool.map(decode_some, groups)) > 0
    return time.perf_counter() - start


def ours(folder: Path, cache: Path, workers: int, size: int) -> tuple[float, int]:
    """Seconds from the files to a pool, with a progress bar's callback, and the number of instances."""
    start = time.perf_counter()
    instances = read_source(folder)[1].instances
    shown = []
    pool, _ = build_pool(
        instances, view=size, cache=cache, workers=workers, progress=lambda done, total: shown.append(done)
    )
    return time.perf_counter() - start, len(pool)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tar", type=Path, help="lspet.tar: annotations.json and images/")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--size", type=int, default=64)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(arguments.tar) as tar:
            tar.extractall(place, filter="data")
        folder = next(Path(place).rglob("annotations.json")).parent
        paths = [str(path) for path in sorted((folder / "images").iterdir())]
        for repeat in range(arguments.repeats):
            cache = Path(place) / "cache"
            shutil.rmtree(cache, ignore_errors=True)
            decoding = bare(paths, arguments.workers)
            importing, count = ours(folder, cache, arguments.workers, arguments.size)
            again, _ = ours(folder, cache, arguments.workers, arguments.size)
            rows.append(
                {
                    "repeat": repeat + 1,
                    "images": count,
                    "workers": arguments.workers,
                    "bare_images_per_second": round(len(paths) / decoding),
                    "import_images_per_second": round(count / importing),
                    "ratio": round(decoding / importing, 3),
                    "second_start_seconds": round(again, 3),
                }
            )
            print(rows[-1], file=sys.stderr)
    median = {key: statistics.median(float(str(row[key])) for row in rows) for key in list(rows[0])[1:]}
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    write_csv(RESULTS / "importing.csv", [*rows, {"repeat": "median", **median, "machine": machine}])
    print((RESULTS / "importing.csv").read_text())


if __name__ == "__main__":
    main()
