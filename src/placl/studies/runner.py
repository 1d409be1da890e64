"""What is missing of a study is run, side by side; what is there is read.

A study has no state of its own: it is the folders of its runs, each of which can be carried on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from placl.api import train_with
from placl.errors import PlaclError
from placl.execute.executor import Executor, available_cores, make_executor
from placl.execute.pool import PoolExecutor
from placl.execute.serial import SerialExecutor
from placl.studies.results import Results
from placl.studies.study import RunSpec
from placl.watch import Level, Watch

PARTS = 1000  # in which the progress of a run is counted
LIBRARY = "trainings"  # folder of those that several runs have in common


@dataclass(frozen=True)
class Runs:
    """The task of a study's workers: a run each, in one process."""

    library: Path

    def run(self, job: RunSpec, on_progress: Callable[[int, int], None]) -> str:
        """What went wrong, or nothing."""
        return carry_out(job, SerialExecutor(), _Reporter(on_progress), self.library)


def carry_out(spec: RunSpec, executor: Executor, watch: Watch, library: Path) -> str:
    try:
        train_with(spec.config, spec.out, watch, executor=executor, library=library, tested=spec.tested)
    except PlaclError as error:
        return str(error)
    return ""


class _Reporter:
    def __init__(self, on_progress: Callable[[int, int], None]) -> None:
        self._on_progress = on_progress

    def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
        if level == "run" and total:
            self._on_progress(round(PARTS * done / total), PARTS)

    def say(self, line: str) -> None:
        pass


def run_missing(
    results: Results,
    runs: Sequence[RunSpec],
    out: Path,
    watch: Watch,
    *,
    workers: int | None,
    on_result: Callable[[], None],
) -> dict[str, str]:
    """Run what is missing, telling of every result; returns what failed, by name, and why.

    With one worker, a run takes the machine (or cluster) as its `execute` settings have it.
    """
    missing = dict(enumerate(runs))
    if not missing:
        return {}
    workers = min(workers or available_cores(), len(missing))
    failed: dict[str, str] = {}
    reached = dict.fromkeys(missing, 0.0)

    def on_done(number: int, problem: str) -> None:
        spec = missing[number]
        reached[number] = 1.0
        found = results.of(spec)
        if found is None:
            failed[spec.name] = problem or "it has no result."
            watch.say(f"{spec.name}: {failed[spec.name]}")
        else:
            scores = f"test {_shown(found['test'])}, " if spec.tested else ""
            scores += f"val {_shown(found['val'])}"
            watch.say(f"{spec.name}: {scores}, {found['seconds']:.0f} s")
        on_result()
        show()

    def on_progress(number: int, parts: int, total: int) -> None:
        reached[number] = parts / total
        show()

    def show() -> None:
        done = sum(reached.values())
        watch.progress("run", done, len(missing), f"{done:.0f} of {len(missing)} runs")

    show()
    library = out / LIBRARY
    if workers == 1:
        for number, spec in missing.items():
            with closing(make_executor(spec.config.execute, spec.config.ray)) as executor:
                report = _Reporter(partial(on_progress, number))
                on_done(number, carry_out(spec, executor, report, library))
    else:
        with closing(PoolExecutor(workers)) as pool:
            pool.run(Runs(library), missing, on_done, on_progress)
    return failed


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
