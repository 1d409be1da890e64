"""MATLAB files, in which LSP and MPII are distributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placl.errors import InputError


def load_mat(file: Path, name: str) -> Any:
    """A variable of a MATLAB file: arrays, strings, numbers, and structures with their fields as attributes."""
    import scipy.io

    try:
        found = scipy.io.loadmat(file, variable_names=[name], struct_as_record=False, squeeze_me=True)
    except Exception as error:  # a damaged file can fail anywhere in the parser
        raise _unreadable(file, error) from error
    if name not in found:
        raise InputError(f'{file}: has no variable "{name}". Is this the official file?')
    return found[name]


def mat_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The variables of a MATLAB file and their shapes, without reading them; none if it is no such file."""
    if file.suffix.lower() != ".mat" or not file.is_file():
        return {}
    import scipy.io

    try:
        return {name: tuple(shape) for name, shape, _ in scipy.io.whosmat(file)}
    except Exception:  # noqa: BLE001 - a damaged file can fail anywhere in the parser
        return {}


def _unreadable(file: Path, error: Exception) -> InputError:
    reason = (
        error.strerror if isinstance(error, OSError) and error.strerror else next(iter(str(error).splitlines()), "")
    )
    return InputError(f"{file}: is not a MATLAB file that can be read ({reason or type(error).__name__}).")
