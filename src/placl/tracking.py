"""``track=mlflow`` and ``track=wandb``: a run's settings, numbers and results go to a tracker, too.

A tracker may be slow, out of reach or broken. So it is spoken to by a thread of its own, the first thing that goes
wrong is said once, and the training goes on without it.
"""

from __future__ import annotations

import importlib.util
import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from placl.config import Config, flat
from placl.errors import InputError
from placl.files import read_object, write_atomic
from placl.trackers import TRACKERS, Tracker
from placl.watch import Watch

KEPT = "tracking.json"  # in the run folder: the tracker's id of the run, and how far numbers were sent
RESULTS = ("report.html", "results.csv", "config.yaml", "best")  # what a finished run leaves with the tracker
PATIENCE = {True: 60.0, False: 5.0}  # seconds that a training waits for its tracker: when finished, when it failed


class Tracking:
    """Hands on what a run logs. One that is carried on goes on as the same run of the tracker, and repeats nothing."""

    def __init__(self, name: str, watch: Watch) -> None:
        self._name, self._watch = name, watch
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._sent: dict[str, int] = {}  # group of numbers, such as round_1 -> its last step

    def begin(self, run: Path, config: Config) -> None:
        """From here on things happen, in the order in which they were asked for."""
        if self._name in TRACKERS:
            self._run = run
            self._tracker: Tracker = TRACKERS[self._name]()
            self._thread = threading.Thread(target=self._work, name=f"placl-{self._name}", daemon=True)
            self._calls.put(lambda: self._open(config))
            self._thread.start()

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Numbers of one group, ``{"round_1/reward_mean": 61.2}``, whose steps rise."""
        if self._thread is not None and scalars:
            self._calls.put(lambda: self._send(dict(scalars), step))

    def end(self, finished: bool) -> None:
        if self._thread is None:
            return
        files = [self._run / name for name in RESULTS if finished and (self._run / name).exists()]
        self._calls.put(lambda: self._tracker.end(files, finished))
        self._calls.put(None)
        self._thread.join(PATIENCE[finished])
        if self._thread.is_alive():
            self._watch.say(f"track={self._name}: does not answer; it may lack the last numbers and the results")

    def _work(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                call()
        except Exception as error:  # noqa: BLE001 - whatever a tracker comes up with, the training goes on
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            self._watch.say(f"track={self._name}: {reason} (the training goes on without it)")

    def _open(self, config: Config) -> None:
        kept = read_object(self._run / KEPT).get(self._name, {})
        self._id, where = self._tracker.begin(self._run, flat(config), kept.get("id"))
        self._sent = dict(kept.get("sent", {}))
        self._keep()
        self._watch.say(f"track={self._name}: {where}")

    def _send(self, scalars: dict[str, float], step: int) -> None:
        group = next(iter(scalars)).partition("/")[0]
        if step > self._sent.get(group, -1):  # what a run that is carried on reads from its journal was sent before
            self._tracker.log(scalars, step)
            self._sent[group] = step
            self._keep()

    def _keep(self) -> None:
        content = read_object(self._run / KEPT) | {self._name: {"id": self._id, "sent": self._sent}}
        write_atomic(self._run / KEPT, json.dumps(content, indent=2) + "\n")


@contextmanager
def tracked(name: str, watch: Watch) -> Iterator[Tracking]:
    """A tracking that is told how the training ended. What cannot work is refused before anything begins."""
    if name in TRACKERS and not installed(name):
        raise InputError(f"track={name} needs a package: pip install 'placl[{name}]'.")
    tracking = Tracking(name, watch)
    finished = False
    try:
        yield tracking
        finished = True
    finally:
        tracking.end(finished)


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
