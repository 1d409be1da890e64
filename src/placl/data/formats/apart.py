"""Parsers in C that a damaged file can crash, or keep busy for ever, run in a process of their own.

The system stops it after more work than a sane file takes.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def apart(function: Callable[..., Any], file: Path, *arguments: object, seconds: int) -> tuple[Any, str | None]:
    """``function(file, *arguments)`` in a Python of its own, or None and why there is nothing.

    The function is one of a module, and has ``seconds`` of work.
    """
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import _answer; _answer()"
    question = pickle.dumps((function, file, arguments, seconds))
    done = subprocess.run([sys.executable, "-c", code], input=question, capture_output=True, check=False)
    if done.returncode:
        return None, (done.stderr.decode(errors="replace").splitlines() or ["the parser gave up"])[-1]
    answer: tuple[Any, str | None] = pickle.loads(done.stdout)
    return answer


def _answer() -> None:
    """In the other process: the question comes by stdin, the answer goes to stdout."""
    function, file, arguments, seconds = pickle.load(sys.stdin.buffer)
    if sys.platform != "win32":
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = round(used.ru_utime + used.ru_stime) + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    answer: tuple[Any, str | None]
    try:
        answer = function(file, *arguments), None
    except OSError as error:
        answer = None, error.strerror or str(error)
    except Exception as error:  # noqa: BLE001 - a damaged file can fail anywhere in the parser
        answer = None, next(iter(str(error).splitlines()), "") or type(error).__name__
    sys.stdout.buffer.write(pickle.dumps(answer))
