"""What every unit of a run shares, and how much of the run is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from placl.config import Config
from placl.data.splits import Problem
from placl.execute.executor import Executor
from placl.run.folder import RunFolder
from placl.watch import Watch

CORE_SPEEDUP = 0.36  # what a second thread adds to one training: `tiny`, 64 px, batch 16, median of 5 on 2 idle cores


@dataclass(frozen=True)
class Lab:
    problem: Problem
    config: Config
    run: RunFolder
    key: str  # a hash of the problem and the configuration: part of every unit's key
    executor: Executor
    watch: Watch
    meter: Meter
    library: Path | None = None  # folder of trainings that other runs may have in common with this one


class Meter:
    """The run's progress in units of work: pixels through the network, corrected for what runs side by side."""

    def __init__(
        self, problem: Problem, config: Config, workers: int, watch: Watch, trainings: Sequence[Config]
    ) -> None:
        self.labelled, self.pseudo = len(problem.labelled), len(problem.halves[0])
        proxy = config.proxied()
        folds = config.reward.folds if config.reward.source == "folds" else 1
        asked_of = min(self.pseudo, config.proxy.images or self.pseudo)
        self.candidate = folds * _work(proxy, self.labelled + asked_of) / workers
        self.total = sum(map(self.cost, trainings)) + candidates(config) * self.candidate
        self.done = 0.0
        self._spent: set[str] = set()
        self.watch = watch

    def cost(self, config: Config) -> float:
        """Of a full training."""
        return _work(config, self.labelled + self.pseudo) / (1 + CORE_SPEEDUP * (config.execute.final_threads - 1))

    def reach(self, units: float) -> None:
        """So much of the unit at hand is done; it is spent when it is finished."""
        self.watch.progress("run", min(self.done + units, self.total), self.total)

    def spend(self, units: float, key: str) -> None:
        """A unit is done; one that was met before counts once."""
        if key not in self._spent:
            self._spent.add(key)
            self.done += units
        self.watch.progress("run", min(self.done, self.total), self.total)


def candidates(config: Config) -> int:
    """How many the searches of a run try."""
    if config.method != "placl":
        return 0
    asked = {"manual": 5, "constant": 0}.get(config.search.searcher, config.search.steps * config.search.samples)
    return config.searches * asked


def _work(config: Config, instances: int) -> float:
    settings = config.train
    per_epoch = settings.steps_per_epoch * settings.batch if settings.epoch == "steps" else instances
    return float(settings.epochs * per_epoch * config.model.input_size**2)
