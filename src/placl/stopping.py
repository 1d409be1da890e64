"""Ending in good order: at SIGINT or SIGTERM, units that are running are finished or saved, and then it is over.

A first signal waits for them, a second one does not. Where no unit runs there is nothing to wait for.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = b"\nplacl: stopping as soon as what is running is finished or saved. Once more stops at once.\n"


class Stopped(KeyboardInterrupt):
    """It was asked for, and what was running is safe."""


@dataclass
class _State:
    units: int = 0  # that are running, one inside the other
    asked: bool = False
    signal: int = signal.SIGINT  # the last one
    quiet: bool = False


_state = _State()


def asked() -> bool:
    """Whether what is running shall come to an end."""
    return _state.asked


def ask() -> None:
    _state.asked = True


def check() -> None:
    """Between two units: the place to stop."""
    if _state.asked:
        _state.asked = False
        raise Stopped


def exit_code() -> int:
    """As shells have it."""
    return 128 + _state.signal


@contextmanager
def finishing() -> Iterator[None]:
    """Units run in here, which a first signal waits for."""
    _state.units += 1
    try:
        yield
    finally:
        _state.units -= 1


@contextmanager
def heeding() -> Iterator[None]:
    """Signals are heard as this module has it; for a command. Only main threads can hear any."""
    here = threading.current_thread() is threading.main_thread()
    _state.signal = signal.SIGINT
    before = {number: signal.signal(number, _hear) for number in SIGNALS if here}
    try:
        yield
    finally:
        _state.asked = False
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def unheard() -> Iterator[None]:
    """Processes that are started in here do not hear Ctrl-C, which is this one's to handle."""
    here = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGINT, before)


def heed_in_worker() -> None:
    """A process that works for another hears SIGTERM from it. Ctrl-C reaches both, and is the other's to handle."""
    _state.quiet = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _hear)


def _hear(number: int, frame: FrameType | None) -> None:
    _state.signal = number
    if _state.asked or not _state.units:
        raise KeyboardInterrupt
    _state.asked = True
    if not _state.quiet:
        os.write(2, NOTICE)  # print may be what was interrupted
