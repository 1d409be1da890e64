"""The search of one round: a searcher proposes curricula, an executor trains them, rewards come back.

Finished candidates are in the run's journal, so a search that was interrupted goes through the same steps again and
trains only what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.curriculum.searcher import Searcher
from placl.data.pool import Pool
from placl.lab import Lab
from placl.learn.candidate import Job, Outcome, Task
from placl.learn.course import TrainingSet
from placl.run.journal import key_of


def derive(seed: int, *path: object) -> int:
    """A seed of its own for each place in a run."""
    text = "/".join(str(part) for part in (seed, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def proxy_task(config: Config, data: TrainingSet, val: Pool) -> Task:
    """What the search trains and measures on: a part of the unlabelled and of the validation images, drawn by seed."""
    random = np.random.default_rng([config.seed, 6])
    if data.unlabelled is not None and data.pseudo is not None and config.proxy.images:
        some = np.sort(random.permutation(len(data.unlabelled))[: config.proxy.images])
        data = replace(data, unlabelled=data.unlabelled.take(some), pseudo=data.pseudo.take(some))
    if config.proxy.val_images:
        val = val.take(np.sort(random.permutation(len(val))[: config.proxy.val_images]))
    return Task(config.proxied(), data, val, keep=config.winner_is_trained)


@dataclass(frozen=True)
class Tried:
    """The candidate that a network already is: the same training, from the same seed."""

    key: str
    seed: int


def tried(lab: Lab, task: Task, best: Curriculum, seed: int) -> Tried | None:
    """The search's winner, where training it again would give the same bits."""
    return Tried(_key(lab, task, best, seed), seed) if task.keep else None


def search(lab: Lab, task: Task, searcher: Searcher, name: str, seed: int) -> Curriculum:
    """(Gamma^r)*: T steps of M candidates each."""
    rows: list[dict[str, Any]] = []
    for t in range(searcher.steps):
        curricula = searcher.ask(task.config.search.samples)
        lab.watch.progress("step", t, searcher.steps, name)
        # One seed for the round: candidates share initial weights, batch order and augmentation draws, so that rewards
        # differ by curricula alone. With a seed a step, the best mean would be the step with the luckiest seed.
        outcomes = evaluate(lab, task, curricula, seed, name)
        diagnostics = searcher.tell(rewards_of(outcomes))
        rows += [_row(t, j, c, o, diagnostics) for j, (c, o) in enumerate(zip(curricula, outcomes, strict=True))]
        last = t + 1 == searcher.steps
        if last or len(rows) >= len(lab.run.rows(f"{name}/search.csv")):  # finished steps again write nothing
            lab.run.write_rows(f"{name}/search.csv", rows)
            lab.run.write_report()
        lab.run.log({f"{name}/{key}": value for key, value in diagnostics.items()}, t + 1)
        lab.watch.progress("step", t + 1, searcher.steps, f"{name}: reward {diagnostics['reward_mean']:.2f}")
    return searcher.best()


def rewards_of(outcomes: Sequence[Outcome]) -> np.ndarray:
    """One that is no number would make numbers of the policy none: it counts as the worst."""
    return np.nan_to_num([outcome.reward for outcome in outcomes], nan=0.0, posinf=0.0, neginf=0.0)


def _key(lab: Lab, task: Task, curriculum: Curriculum, seed: int) -> str:
    assert task.data.pseudo is not None
    labels = task.data.pseudo.model  # with the run's key, this says what the task is
    return key_of(unit="candidate", run=lab.key, labels=labels, thresholds=curriculum.thresholds, seed=seed)


def evaluate(lab: Lab, task: Task, curricula: list[Curriculum], seed: int, name: str) -> list[Outcome]:
    """The outcomes of one step's candidates, from the journal or by training."""
    keys = [_key(lab, task, curriculum, seed) for curriculum in curricula]
    outcomes: dict[int, Outcome] = {}
    jobs: dict[int, Job] = {}
    for number, (key, curriculum) in enumerate(zip(keys, curricula, strict=True)):
        done = lab.run.journal.get(key)
        if done:
            outcomes[number] = Outcome.from_dict(done["outcome"])
            lab.meter.spend(lab.meter.candidate, key)
        else:
            jobs[number] = Job(curriculum, seed)

    def on_done(number: int, outcome: Outcome) -> None:
        outcomes[number] = outcome
        lab.run.keep_candidate(name, keys[number], outcome)
        lab.run.journal.add(keys[number], "candidate", outcome=outcome.to_dict())
        lab.watch.progress("candidate", len(outcomes), len(curricula), f"reward {outcome.reward:.2f}")
        lab.meter.spend(lab.meter.candidate, keys[number])

    def on_progress(number: int, done: int, total: int) -> None:
        lab.watch.progress("epoch", done, total, f"candidate {number + 1}")

    lab.watch.progress("candidate", len(outcomes), len(curricula))
    if jobs:
        lab.executor.run(task, jobs, on_done, on_progress)
    return [outcomes[number] for number in range(len(curricula))]


def _row(t: int, j: int, curriculum: Curriculum, outcome: Outcome, diagnostics: dict[str, float]) -> dict[str, Any]:
    return {
        "step": t + 1,
        "candidate": j + 1,
        "reward": outcome.reward,
        "images": outcome.images,
        "selected": float(np.mean(outcome.selected)),
        **{f"gamma_{g + 1}": threshold for g, threshold in enumerate(curriculum.thresholds)},
        **diagnostics,
    }
