"""Files that are either whole or not there: written beside their place, synced, renamed into it."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from placl.errors import MachineError

LONGEST_NAME = 255  # bytes, on all common disks
REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR),
    errno.ENAMETOOLONG,
)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Say in one line when the disk is full or closed to us."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MachineError(
                f"{path}: no space left on the disk. Free some and run the same command again."
            ) from None
        if error.errno in REFUSED:
            raise MachineError(f"{path}: cannot be written ({error.strerror}).") from None
        raise


def write_atomic(path: Path, content: bytes | str) -> None:
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes | str]) -> None:
    """As :func:`write_atomic`, of a content that need not be in memory as a whole."""
    with disk_errors(path), replacing(path) as part, open(part, "wb") as file:
        for piece in pieces:
            file.write(piece.encode() if isinstance(piece, str) else piece)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path, suffix: str = "") -> Iterator[Path]:
    """A name beside ``path`` to write under; what is there in the end becomes ``path``, unless something fails.

    ``suffix`` is for libraries that tell the format by it.
    """
    end = f".{os.getpid()}.part{suffix}"
    name = path.name
    while len(os.fsencode(f".{name}{end}")) > LONGEST_NAME:
        name = name[:-1]
    part = path.with_name(f".{name}{end}")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield part
        with disk_errors(path):
            os.replace(part, path)
            sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """What was written to a file is on the disk."""
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """So that a new name in it outlives a power cut."""
    if os.name == "posix":
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def sha256_of(path: Path) -> str | None:
    """Of a file's content; None where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()


def link_or_copy(file: Path, target: Path) -> None:
    """``target`` becomes another name of ``file`` where the disk allows it, else a copy."""
    if target.exists() and target.samefile(file):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(file.resolve(), target)
    except OSError:  # another disk, or one without links
        with replacing(target) as part:
            shutil.copyfile(file, part)
            sync(part)


def write_csv(path: Path, rows: list[dict[str, Any]], first: Sequence[str] = ()) -> None:
    """Rows of one or several kinds; the columns are those named and the union of theirs, in order of appearance."""
    columns = list(dict.fromkeys((*first, *(key for row in rows for key in row))))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue())


def plain(value: Any) -> Any:
    """Values that JSON knows: no NaN, no paths, no dates."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none, or the file is missing or damaged."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
