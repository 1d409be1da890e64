"""The file of an array of crops: its room on the disk, writing to it from several processes, and what is safe there."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORTH_SYNCING = 1 << 25  # bytes: less is on the disk in no time
SYNCED_AT = (0.5, 0.75, 0.875)  # shares of the work


@dataclass(frozen=True)
class Target:
    """The array of crops in its file."""

    file: Path
    start: int  # bytes before the first
    size: int

    def write(self, rows: np.ndarray, crops: np.ndarray) -> None:
        """Neighbouring rows at once: at every call to the system a thread loses its turn."""
        ends = [*(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        with self.file.open("r+b", buffering=0) as target:  # cheaper than a map, whose every page would fault
            for first, end in zip([0, *ends[:-1]], ends, strict=True):
                run = crops[first:end]
                if not len(run):
                    continue
                target.seek(self.start + int(rows[first]) * crops[0].nbytes)
                if target.write(run.data) != run.nbytes:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def reserve(crops: Path, shape: tuple[int, ...]) -> Target:
    """An array file with its room on the disk: writing to a map on a full disk would kill the process."""
    start = np.lib.format.open_memmap(crops, mode="w+", dtype=np.uint8, shape=shape).offset
    size = crops.stat().st_size
    if hasattr(os, "posix_fallocate"):
        with crops.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    elif shutil.disk_usage(crops.parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return Target(crops, start, shape[1])


class Syncing:
    """Brings a file to the disk while it is still written to, so that little is left to wait for at the end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._shares = list(SYNCED_AT) if file.stat().st_size >= WORTH_SYNCING else []
        self._thread = ThreadPoolExecutor(1)
        self._begun: list[Future[None]] = []

    def __enter__(self) -> Syncing:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def tell(self, share: float) -> None:
        """So much is written."""
        if self._shares and share >= self._shares[0]:
            self._shares.pop(0)
            self._begun.append(self._thread.submit(_sync, self._file))

    def finish(self) -> None:
        """All is written; afterwards it is on the disk."""
        for one in self._begun:
            one.result()  # the system tells of a failure once: the last call need not hear of it
        _sync(self._file)


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())
