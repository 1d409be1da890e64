"""Import against bare decoding: what reading a dataset and building its pool costs beyond cv2's JPEG decoder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from placl.bench.measure import machine, side_by_side
from placl.data.crop_cache import build_pool, crew_for
from placl.data.formats.common import forget_json
from placl.data.formats.registry import read_source
from placl.data.synthetic import write_animals
from placl.execute.executor import available_cores


def bench_import(
    repeats: int = 5, source: Path | None = None, workers: int | None = None, size: int = 64
) -> dict[str, Any]:
    """``ratio``: images per second from the files of ``source`` (default: drawn animals) to a pool, over bare decoding.

    Bare decoding runs in as many processes as the import. Both start from nothing each time.
    """
    workers = workers or available_cores()
    with _source(source) as folder, tempfile.TemporaryDirectory() as place:
        cache = Path(place) / "cache"
        paths = [str(path) for path in read_source(folder)[1].instances.images]

        def importing() -> None:
            forget_json()  # a new process has read nothing yet
            shown: list[int] = []  # as a progress bar would
            with crew_for([folder], workers) as crew:
                instances = read_source(folder)[1].instances
                build_pool(instances, view=size, cache=cache, crew=crew, progress=lambda done, _: shown.append(done))

        things = {
            "bare": lambda: bare(paths, workers),
            "clear": lambda: shutil.rmtree(cache, ignore_errors=True),
            "import": importing,
            "again": importing,
        }
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


BARE = """
import sys
import cv2
import numpy as np
cv2.setNumThreads(0)
for path in sys.stdin.read().splitlines():
    assert cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR) is not None
"""


def bare(paths: list[str], workers: int) -> None:
    """Decode all images and do nothing with them, in processes that know nothing but OpenCV and numpy."""
    crew = [
        subprocess.Popen([sys.executable, "-c", BARE], stdin=subprocess.PIPE, encoding="utf-8") for _ in range(workers)
    ]
    for number, process in enumerate(crew):
        assert process.stdin is not None
        process.stdin.write("\n".join(paths[number::workers]))
        process.stdin.close()
    assert not any(process.wait() for process in crew)


@contextmanager
def _source(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        write_animals(Path(place), 2000, seed=0)
        yield Path(place)
