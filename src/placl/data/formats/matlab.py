"""MATLAB files, in which LSP and MPII are distributed.

SciPy's parser ends the process (a segmentation fault) on some damaged files, so it runs in one of its own, which the
system stops after more work than a sane file takes.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from placl.errors import InputError

SECONDS, BYTES_A_SECOND = 10, 200_000  # of work: 70 s for MPII's 12 MB
Shapes = dict[str, tuple[int, ...]]


def load_mat(file: Path, name: str) -> Any:
    """A variable of a MATLAB file: arrays, strings, numbers, and structures with their fields as attributes."""
    found, reason = _apart("_variable", file, name)
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
    shapes: Shapes | None = _apart("_shapes", file)[0]
    return shapes or {}


def _apart(function: str, *arguments: object) -> tuple[Any, str | None]:
    """What a function of this file returns in a Python of its own, or None and why there is nothing."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import _answer; _answer({function!r})"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(arguments), capture_output=True, check=False)
    if done.returncode:
        return None, (done.stderr.decode(errors="replace").splitlines() or ["the parser gave up"])[-1]
    answer: tuple[Any, str | None] = pickle.loads(done.stdout)
    return answer


def _answer(function: str) -> None:
    """In the other process: arguments come by stdin, what they lead to goes to stdout."""
    arguments = pickle.load(sys.stdin.buffer)
    if sys.platform != "win32":
        import resource

        seconds = SECONDS + arguments[0].stat().st_size // BYTES_A_SECOND
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    answer: tuple[Any, str | None]
    try:
        answer = globals()[function](*arguments), None
    except OSError as error:
        answer = None, error.strerror or str(error)
    except Exception as error:  # noqa: BLE001 - a damaged file can fail anywhere in the parser
        answer = None, next(iter(str(error).splitlines()), "") or type(error).__name__
    sys.stdout.buffer.write(pickle.dumps(answer))


def _variable(file: Path, name: str) -> tuple[Any, ...]:
    import scipy.io

    found = scipy.io.loadmat(file, variable_names=[name], struct_as_record=False, squeeze_me=True)
    return (found[name],) if name in found else ()


def _shapes(file: Path) -> Shapes:
    import scipy.io

    return {name: tuple(shape) for name, shape, _ in scipy.io.whosmat(file)}
