"""MATLAB files, in which LSP and MPII are distributed.

SciPy's parser ends the process (a segmentation fault) on some damaged files, so it runs in one of its own.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from placl.data.formats.apart import apart
from placl.errors import InputError

SECONDS, BYTES_A_SECOND = 4, 200_000  # of work: a minute for MPII's 12 MB
Shapes = dict[str, tuple[int, ...]]


def load_mat(file: Path, name: str) -> Any:
    """A variable of a MATLAB file: arrays, strings, numbers, and structures with their fields as attributes."""
    found, reason = apart(_variable, file, name, seconds=_enough(file))
    if reason is not None:
        raise InputError(f"{file}: is not a MATLAB file that can be read ({reason}).")
    if not found:
        raise InputError(f'{file}: has no variable "{name}". Is this the official file?')
    return found[0]


def mat_shapes(file: Path) -> Shapes:
    """The variables of a MATLAB file and their shapes, without reading them; none if it is no such file."""
    if file.suffix.lower() != ".mat" or not file.is_file():
        return {}
    stat = file.stat()
    return _shapes_once(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _shapes_once(file: Path, changed: int, size: int) -> Shapes:
    """Several formats ask in turn."""
    shapes: Shapes | None = apart(_shapes, file, seconds=_enough(file))[0]
    return shapes or {}


def _enough(file: Path) -> int:
    return SECONDS + (file.stat().st_size // BYTES_A_SECOND if file.is_file() else 0)


def _variable(file: Path, name: str) -> tuple[Any, ...]:
    import scipy.io

    found = scipy.io.loadmat(file, variable_names=[name], struct_as_record=False, squeeze_me=True)
    return (found[name],) if name in found else ()


def _shapes(file: Path) -> Shapes:
    import scipy.io

    return {name: tuple(shape) for name, shape, _ in scipy.io.whosmat(file)}
