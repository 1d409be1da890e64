"""How far each level of a run is, and how long it will take: the arithmetic behind what a watch shows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from placl.watch import Level

LEVELS: tuple[Level, ...] = get_args(Level)  # outermost first
# A run that carries on goes through these without working, until it meets the first unit that is not in its journal.
FROM_JOURNAL = ("run", "round", "step", "candidate")
# What begins anew when a level moves. A candidate leaves the epochs alone: others may be running beside it.
INSIDE: dict[Level, tuple[Level, ...]] = {
    "round": ("step", "candidate", "epoch", "label"),
    "step": ("candidate", "epoch"),
    "epoch": ("label", "images"),
}
GONE_WHEN_DONE = ("round", "label", "images", "frames")


@dataclass
class Pass:
    """One pass through a level, as far as this process has seen it."""

    done: float
    total: float
    note: str
    opened: float  # when it began
    counted_from: float  # `done` and time from which the speed is measured
    counted_since: float
    moved: float  # when it was last heard of

    @property
    def over(self) -> bool:
        return self.done >= self.total

    @property
    def share(self) -> float:
        return min(self.done / self.total, 1.0) if self.total > 0 else 1.0


class Tally:
    """Takes progress in any order of levels, and tells elapsed and remaining time of each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._passes: dict[Level, Pass] = {}  # the one that is shown, per level
        self._lanes: dict[str, Pass] = {}  # epochs of trainings that run side by side, by the training's name
        self._may_change_lane = True
        self._worked: float | None = None  # when the first training moved in this process

    def update(self, level: Level, done: float, total: float, note: str = "") -> None:
        now = self._clock()
        if level == "epoch" and self._worked is None:
            self._worked = now
        for inner in INSIDE.get(level, ()):
            self._passes.pop(inner, None)
            if inner == "epoch":
                self._lanes.clear()
        lane = note.partition(":")[0]
        known = self._lanes.get(lane) if level == "epoch" else self._passes.get(level)
        current = self._moved(level, known, done, total, note, now)
        if level == "epoch":
            self._lanes[lane] = current
            self._show_lane(current, known)
        elif level in GONE_WHEN_DONE and current.over:
            self._passes.pop(level, None)
        else:
            self._passes[level] = current
        self._may_change_lane |= level == "candidate"

    def _moved(self, level: Level, known: Pass | None, done: float, total: float, note: str, now: float) -> Pass:
        if known is None or done < known.done or total != known.total:
            current = Pass(done, total, note, now, done, now, now)
            if level == "run" and self._worked is not None:  # it is first heard of when its first training is done
                current.opened, current.counted_from, current.counted_since = self._start, 0.0, self._worked
        else:
            current = known
            current.done, current.note, current.moved = done, note or current.note, now
        if level in FROM_JOURNAL and self._worked is None:  # what the journal has is no measure of speed
            current.counted_from, current.counted_since = done, now
        return current

    def _show_lane(self, current: Pass, known: Pass | None) -> None:
        """Stay with one training until it is over: bars that hop between two are no use."""
        shown = self._passes.get("epoch")
        if shown is None or shown is known or shown.over or self._may_change_lane:
            self._passes["epoch"] = current
            self._may_change_lane = False

    def active(self) -> list[tuple[Level, Pass]]:
        """What there is to show, outermost first."""
        return [(level, self._passes[level]) for level in LEVELS if level in self._passes]

    def reached(self, level: Level) -> float:
        """``done``, and what the levels inside have done of the next unit."""
        current = self._passes[level]
        inside = 0.0
        if level == "step" and "candidate" in self._passes:
            candidates = self._passes["candidate"]
            inside = self.reached("candidate") / candidates.total if candidates.total > 0 else 0.0
        elif level == "candidate":
            inside = sum(lane.share for lane in self._lanes.values() if not lane.over)
        return min(current.done + inside, current.total)

    def _last_moved(self, level: Level) -> float:
        moved = [self._passes[level].moved]
        if level in ("step", "candidate"):
            moved += [lane.moved for lane in self._lanes.values()]
            moved += [self._passes["candidate"].moved] if "candidate" in self._passes else []
        return max(moved)

    def running(self) -> float:
        """Seconds since the command began."""
        return self._clock() - self._start

    def elapsed(self, level: Level) -> float:
        return self._clock() - self._passes[level].opened if level in self._passes else 0.0

    def remaining(self, level: Level) -> float | None:
        """Seconds to go at the speed measured in this process; None while there is none."""
        current = self._passes.get(level)
        if current is None:
            return None
        if current.over:
            return 0.0
        reached, last = self.reached(level), self._last_moved(level)
        gone, took = reached - current.counted_from, last - current.counted_since
        if gone <= 0 or took <= 0:
            # A round is long: before the first has ended, the run's own estimate stands in.
            return self.remaining("run") if level == "round" else None
        return max(0.0, (current.total - reached) * took / gone - (self._clock() - last))
