"""One process at a time in a run folder. The system holds the lock for a process, and lets go when it ends, however."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from placl.errors import MachineError
from placl.files import disk_errors

LOCK, OWNER = ".lock", ".owner"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder is made where it is not, and taken away again where nothing has come into it."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        with disk_errors(folder):
            lock.acquire(timeout=0)
    except Timeout:
        raise MachineError(
            f"{folder}: {_owner(folder)} is at work in it. Wait for it, stop it, or name another folder with --out."
        ) from None
    except NotImplementedError:  # some network disks; files stay whole, but two would repeat each other's work
        logging.getLogger("placl").warning("%s: the disk has no locks. Start no second process on this folder.", folder)
    try:
        _remove_leftovers(folder)
        with suppress(OSError):  # a courtesy, for which a full disk has no room
            (folder / OWNER).write_text(f"process {os.getpid()} on {platform.node()}")
        yield
    finally:
        (folder / OWNER).unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):  # the folder is gone, or somebody else has come
            if {entry.name for entry in folder.iterdir()} <= {LOCK}:
                (folder / LOCK).unlink(missing_ok=True)
                for place in missing or [folder]:
                    place.rmdir()  # which only an empty one can be


def _owner(folder: Path) -> str:
    try:
        return (folder / OWNER).read_text() or "another process"
    except (OSError, ValueError):
        return "another process"


def _remove_leftovers(folder: Path) -> None:
    """What processes that were killed had begun to write."""
    for part in folder.rglob(".*.part"):
        if part.is_file():
            part.unlink()
