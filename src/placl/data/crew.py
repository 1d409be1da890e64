"""Work on all cores that begins at once: this process starts, and helpers join in as soon as they are there.

Threads would wait for each other (a small image is decoded in less time than Python's lock takes to change hands), and
processes take as long to start as thousands of small images to decode. Where much work is expected, they start while
this process still reads what it is. A helper is a process of its own that knows
nothing of the script that started it, so scripts need no ``if __name__ == "__main__":``. One that dies costs nothing:
its work is taken back.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, BinaryIO, TypeVar

Part = TypeVar("Part")
Answer = TypeVar("Answer")

WORTH_HELP = 0.5  # seconds of work left; a helper takes about 0.3 to start
AHEAD = 2  # parts that a helper has: it need not wait for the next


class Crew:
    """At most ``workers`` processes, this one among them, for one piece of work."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._helpers: list[_Helper] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hire(self, knowing: str = "") -> None:
        """Start the helpers before it is known what there is to do, and let them import a module meanwhile."""
        self._helpers += [_Helper(knowing) for _ in range(self._workers - 1 - len(self._helpers))]

    def close(self) -> None:
        for helper in self._helpers:
            helper.stop()
        self._helpers.clear()

    def share(self, parts: Sequence[Part], work: Callable[[Part], Answer]) -> Generator[Answer]:
        """The answers of ``work``, which travels by pickle, for all parts, in any order. Then the crew is closed."""
        left: deque[Part] = deque(parts)
        started = time.perf_counter()
        try:
            if not self._helpers:
                if left:
                    yield work(left.popleft())
                self._workers = min(self._workers, len(left))
                if (time.perf_counter() - started) * len(left) >= WORTH_HELP:
                    self.hire()
            if self._helpers:
                yield from self._share(left, work)
            yield from map(work, left)
        finally:
            left.clear()
            self.close()

    def _share(self, left: deque[Part], work: Callable[[Part], Answer]) -> Generator[Answer]:
        answers: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()
        expected = len(left)
        with ThreadPoolExecutor(len(self._helpers)) as threads:
            try:
                assisting = [threads.submit(helper.assist, work, left, answers) for helper in self._helpers]
                while expected:
                    try:
                        part = left.popleft()
                    except IndexError:  # what helpers still have comes, or is put back
                        wait(assisting)
                    else:
                        yield work(part)
                        expected -= 1
                    while not answers.empty():
                        yield _sound(answers.get())
                        expected -= 1
            finally:
                left.clear()
                self.close()


def _last(left: deque[Part]) -> Part | None:
    try:
        return left.pop()
    except IndexError:
        return None


def _sound(answer: Answer | Exception) -> Answer:
    if isinstance(answer, Exception):
        raise answer
    return answer


class _Helper:
    """A process that does parts of the work, and the thread's side of talking to it."""

    def __init__(self, knowing: str = "") -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "placl.data.crew", *filter(None, [knowing])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )

    def assist(self, work: Callable[[Any], Any], left: deque[Any], answers: queue.SimpleQueue[Any]) -> None:
        """Take parts from the end of what is left until there is none, or the helper has died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        given: deque[Any] = deque()
        try:
            pickle.dump(work, self._process.stdin)
            while True:
                while len(given) < AHEAD and (part := _last(left)) is not None:
                    given.append(part)
                    pickle.dump(part, self._process.stdin)
                    self._process.stdin.flush()
                if not given:
                    return
                answer = pickle.load(self._process.stdout)
                given.popleft()
                answers.put(answer)
        except Exception:  # noqa: BLE001 - it has died, or said what cannot be understood: its work is done here
            left.extend(given)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # with something unsent
                pipe.close()


def help_out(source: BinaryIO, target: BinaryIO) -> None:
    """The life of a helper: do what comes, until nothing does."""
    try:
        work = pickle.load(source)
        while True:
            part = pickle.load(source)
            try:
                answer = work(part)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where people see it
                answer = error
            pickle.dump(answer, target)
            target.flush()
    except (EOFError, BrokenPipeError):
        return


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other's to handle
    with os.fdopen(os.dup(1), "wb") as link:
        os.dup2(2, 1)  # what a library prints must not come between
        help_out(sys.stdin.buffer, link)
