"""What a person sees of a running command: live bars on a terminal, plain lines elsewhere, or nothing.

All of it goes to stderr. Each is a :class:`placl.watch.Watch` and a context manager that tidies the screen up.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from placl.cli.tally import Pass, Tally
from placl.watch import Level, Silent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Clock = Callable[[], float]
UNDER_WAY = ("round", "step", "candidate")  # counted by the one that is being worked at, the others by what is done
SECONDS_BETWEEN_LINES = 10.0
BAR_WIDTH = 28


class QuietWatch(Silent):
    """Nothing but the result, which is not the watch's to print."""

    def __enter__(self) -> QuietWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class LineWatch(QuietWatch):
    """A line for everything that is said, and one on the progress at all levels every now and then."""

    def __init__(
        self, stream: TextIO | None = None, clock: Clock = time.monotonic, every: float = SECONDS_BETWEEN_LINES
    ) -> None:
        self._stream, self._clock, self._every = stream or sys.stderr, clock, every
        self._tally = Tally(clock)
        self._last = clock()

    def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
        self._tally.update(level, done, total, note)
        if self._clock() - self._last >= self._every:
            self.say(progress_line(self._tally))
            self._last = self._clock()

    def say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class LiveWatch(QuietWatch):
    """A bar per level with elapsed and remaining time, which is gone in the end; what is said stays above it."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        from rich.live import Live

        self._tally = Tally(clock)
        self._lock = threading.Lock()  # the screen is drawn by a thread of its own
        # stdout is left alone: a --json document must not end up on stderr
        self._live = Live(
            console=console,
            get_renderable=self.table,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> LiveWatch:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
        with self._lock:
            self._tally.update(level, done, total, note)

    def say(self, line: str) -> None:
        self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def table(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            grid = Table.grid(padding=(0, 1))
            for level, current in self._tally.active():
                total = max(current.total, 1e-9)
                grid.add_row(
                    Text(_title(level, current)),
                    ProgressBar(total=total, completed=min(self._tally.reached(level), total), width=BAR_WIDTH),
                    Text(clock_time(self._tally.elapsed(level))),
                    Text(f"{_left(self._tally.remaining(level))} left", style="cyan"),
                    Text(current.note, style="dim", overflow="ellipsis", no_wrap=True),
                )
            return grid


def open_watch(quiet: bool = False) -> QuietWatch:
    """What suits the place that stderr goes to."""
    if quiet:
        return QuietWatch()
    from rich.console import Console

    console = Console(stderr=True)
    return LiveWatch(console) if console.is_terminal and not console.is_dumb_terminal else LineWatch()


def progress_line(tally: Tally) -> str:
    """``[00:03:12, 00:11:40 left] round 1/3 searching, step 4/8 (00:01:10 left), candidate 5/8 (00:00:20 left): ...``

    Every level tells what is left of it, as soon as there is a measure.
    """
    parts, news = [], ""
    for level, current in tally.active():
        if level == "run":  # its time stands in front
            parts += [current.note] if current.note else []
            continue
        part = _title(level, current)
        if level == "epoch":  # a candidate's number is its level's
            part = part if current.note.startswith("candidate") else f"{current.note} {part}".strip()
        elif level == "candidate":
            news = current.note
        elif level != "step":
            part = f"{part} {current.note}".strip()
        left = tally.remaining(level)
        parts.append(part if left is None else f"{part} ({clock_time(left)} left)")
    left = tally.remaining("run")
    times = clock_time(tally.running()) + (f", {clock_time(left)} left" if left is not None else "")
    return f"[{times}] {', '.join(parts)}" + (f": {news}" if news else "")


def _title(level: Level, current: Pass) -> str:
    if level == "run":
        return f"run {100 * current.done / max(current.total, 1e-9):.0f} %"
    done = min(current.done + (level in UNDER_WAY), current.total)
    return f"{level} {done:.0f}/{current.total:.0f}"


def _left(seconds: float | None) -> str:
    return "--:--:--" if seconds is None else clock_time(seconds)


def clock_time(seconds: float) -> str:
    """3723 -> 01:02:03"""
    whole = round(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
