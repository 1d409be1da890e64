"""What every unit of a run shares, and how much of the run is done."""

from __future__ import annotations

from dataclasses import dataclass

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


class Meter:
    """The run's progress in units of work: images through the network, corrected for what runs side by side."""

    def __init__(self, problem: Problem, config: Config, workers: int, watch: Watch, extra_trainings: int = 0) -> None:
        proxy = config.proxied()
        pixels = (proxy.model.input_size / config.model.input_size) ** 2
        folds = config.reward.folds if config.reward.source == "folds" else 1
        pseudo = len(problem.halves[0])
        self.training = _images(config, len(problem.labelled) + pseudo) / (
            1 + CORE_SPEEDUP * (config.execute.final_threads - 1)
        )
        asked_of = min(pseudo, config.proxy.images or pseudo)
        self.candidate = pixels * folds * _images(proxy, len(problem.labelled) + asked_of) / workers
        rounds = config.rounds.count
        asked = {"manual": 5}.get(config.search.searcher, config.search.steps * config.search.samples)
        finishing = config.rounds.finish == "both" and config.rounds.cross_training and rounds > 0
        trainings = 1 + rounds + finishing + extra_trainings
        self.total = trainings * self.training + rounds * asked * self.candidate
        self.done = 0.0
        self.watch = watch

    def reach(self, units: float) -> None:
        """So much of the unit at hand is done; it is spent when it is finished."""
        self.watch.progress("run", min(self.done + units, self.total), self.total)

    def spend(self, units: float) -> None:
        self.done += units
        self.watch.progress("run", min(self.done, self.total), self.total)


def _images(config: Config, instances: int) -> float:
    settings = config.train
    per_epoch = settings.steps_per_epoch * settings.batch if settings.epoch == "steps" else instances
    return float(settings.epochs * per_epoch)
