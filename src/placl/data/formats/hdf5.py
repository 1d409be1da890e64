"""HDF5 files, in which SLEAP and DeepLabCut keep labels.

The HDF5 library does not come to an end on some damaged files, so another process goes through a file first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from placl.data.formats.apart import apart

SECONDS, BYTES_A_SECOND = 3, 20_000_000  # of work: packages of SLEAP have images in them
PIECE = 1 << 24  # bytes of a dataset at a time


def comes_to_an_end(path: Path) -> bool:
    """Whether the library can go through all of a file. What it finds there, if anything, is for others to say."""
    if not path.is_file():
        return True
    stat = path.stat()
    return _once(path.absolute(), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _once(path: Path, changed: int, size: int) -> bool:
    """Telling the format of a file and reading it ask in turn."""
    return apart(_go_through, path, seconds=SECONDS + size // BYTES_A_SECOND)[1] is None


def _go_through(path: Path) -> None:
    """Read all that can be read: what the library refuses ends nothing, and the readers meet it again."""
    import h5py

    with suppress(Exception), h5py.File(path) as file:
        nodes, seen = [file], set()  # not visititems(), which ends at the first damaged one
        while nodes:
            node = nodes.pop()
            with suppress(Exception):
                address = h5py.h5o.get_info(node.id).addr
                if address in seen:
                    continue
                seen.add(address)
            for _ in _each(node.attrs):
                pass
            if isinstance(node, h5py.Group):
                nodes += _each(node)
            else:
                for _ in _each(node, _pieces(node)):
                    pass


def _each(node: Any, keys: Iterable[Any] | None = None) -> Iterator[Any]:
    """What is under each key, of a node or of its attributes, as far as it can be read."""
    with suppress(Exception):
        for key in node if keys is None else keys:
            with suppress(Exception):
                yield node[key]


def _pieces(dataset: Any) -> Iterator[Any]:
    """Keys that together read all of a dataset."""
    if not dataset.shape:
        yield ()
        return
    rows = max(1, PIECE // max(1, dataset.dtype.itemsize * math.prod(dataset.shape[1:])))
    for start in range(0, dataset.shape[0], rows):
        yield slice(start, start + rows)
