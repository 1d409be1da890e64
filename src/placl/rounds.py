"""Algorithm 2: rounds of pseudo-labelling, curriculum search and retraining.

The networks come out one by one as they are finished. What happens here sees labelled instances, images without
labels and the validation set (:class:`~placl.data.splits.Problem`); the test set is not within reach.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.curriculum.searcher import make_searcher
from placl.data.pool import Pool, concatenate
from placl.data.splits import Problem, fingerprint
from placl.errors import InputError, MachineError
from placl.lab import Lab
from placl.learn.inner_loop import TrainingSet, fresh_network, inner_loop, pick_device, thread_count
from placl.learn.label import PseudoLabels, label
from placl.learn.score import Score, score
from placl.models.zoo import KeypointNet
from placl.run.journal import key_of
from placl.search import derive, proxy_task, search


FINAL = "final"


@dataclass(frozen=True)
class Stage:
    """A finished training: Theta^r and how it came about."""

    name: str  # "round_0", "round_1", ..., "final"
    config: Config  # of this training: `teacher` where the network only labels
    net: KeypointNet
    sha256: str  # of the weights
    val: Score
    curriculum: Curriculum | None  # None where no pseudo-label took part
    selected: tuple[float, ...]  # share of the pseudo-labels used, per group
    images: int  # training images through the network, the search not counted
    seconds: float


def placl(lab: Lab) -> Iterator[Stage]:
    """Yield Theta^0, ..., Theta^R (and the finishing network, where one is asked for)."""
    config, problem = lab.config, lab.problem
    check(problem, config)
    rounds = config.rounds.count
    configs = stage_configs(config)
    base = np.zeros(config.groups)  # (Gamma^0)*
    stage = train_stage(lab, "round_0", TrainingSet(problem.labelled), None, configs["round_0"])  # Theta^0
    yield stage
    for r in range(1, rounds + 1):
        lab.watch.progress("round", r - 1, rounds, "searching")
        half = problem.unlabelled_half(r, config.rounds.cross_training)  # D_u^(1) or D_u^(2), 3.3
        pseudo = pseudo_label(lab, stage, half)  # by Theta^{r-1}
        lab.run.keep_pseudo_labels(f"round_{r}", half, pseudo)
        data = TrainingSet(problem.labelled, half, pseudo)
        seed = derive(config.seed, "search", r)
        searcher = make_searcher(config.search, base, seed)
        best = search(lab, proxy_task(config, data, problem.val), searcher, f"round_{r}", seed)  # (Gamma^r)*
        lab.watch.progress("round", r - 1, rounds, "training")
        stage = train_stage(lab, f"round_{r}", data, best, configs[f"round_{r}"])  # Theta^r under (Gamma^r)*
        base = best.array
        yield stage
    if rounds:
        lab.watch.progress("round", rounds, rounds)
    if FINAL in configs:
        yield finish(lab, stage, data, best)


def stage_configs(config: Config) -> dict[str, Config]:
    """The trainings of a run by name, in order. All but the last are there to label."""
    names = [f"round_{r}" for r in range(config.rounds.count + 1)]
    if config.rounds.count and config.rounds.finish == "both" and config.rounds.cross_training:
        names.append(FINAL)
    teacher = config.taught()
    return {name: teacher for name in names[:-1]} | {names[-1]: config}


def finish(lab: Lab, stage: Stage, data: TrainingSet, best: Curriculum) -> Stage:
    """Both halves at once. Theta^R labels the half that it was not trained on; the other keeps its labels."""
    assert data.unlabelled is not None
    assert data.pseudo is not None
    other = lab.problem.unlabelled_half(lab.config.rounds.count + 1)
    fresh = pseudo_label(lab, stage, other)
    everything = TrainingSet(data.labelled, concatenate([data.unlabelled, other]), _joined(data.pseudo, fresh))
    return train_stage(lab, FINAL, everything, best, lab.config)


def _joined(first: PseudoLabels, second: PseudoLabels) -> PseudoLabels:
    return PseudoLabels(
        np.concatenate([first.keypoints, second.keypoints]),
        np.concatenate([first.confidence, second.confidence]),
        f"{first.model}+{second.model}",
    )


def pseudo_label(lab: Lab, stage: Stage, pool: Pool) -> PseudoLabels:
    with thread_count(lab.config.execute.final_threads):
        return label(
            stage.net,
            pool,
            stage.config,
            model=stage.sha256,
            all_views=True,
            on_progress=lambda done, total: lab.watch.progress("label", done, total, "pseudo-labels"),
        )


def train_stage(lab: Lab, name: str, data: TrainingSet, curriculum: Curriculum | None, config: Config) -> Stage:
    """A full training, or the one that the journal says is done."""
    cost = lab.meter.cost(config)
    model = data.pseudo.model if data.pseudo is not None else None
    thresholds = curriculum.thresholds if curriculum is not None else None
    known = fingerprint(data.labelled)  # the yardstick's labels are not the run's
    key = key_of(unit="training", name=name, run=lab.key, known=known, labels=model, curriculum=thresholds)
    done = lab.run.journal.get(key)
    state = lab.run.network_state(name, done["sha256"]) if done else None
    if done and state is not None:
        net = fresh_network(config, len(data.labelled.skeleton), 0, pick_device(config.execute.device))
        net.load_state_dict(state)
        net.eval()
        lab.meter.spend(cost)
        val = Score(**done["val"])
        return Stage(
            name, config, net, done["sha256"], val, curriculum, tuple(done["selected"]), done["images"], done["seconds"]
        )
    start = time.monotonic()

    def on_epoch(done: int, total: int, loss: float) -> None:
        lab.watch.progress("epoch", done, total, f"{name}: loss {loss:.4f}")
        lab.meter.reach(cost * done / total)

    trained = inner_loop(
        config,
        data,
        curriculum or constant(0.0),
        derive(config.seed, "training", name),
        threads=config.execute.final_threads,
        on_epoch=on_epoch,
    )
    if trained.diverged:
        raise MachineError(f"{name}: the loss is no longer a finite number. Lower train.lr and start another run.")
    seconds = time.monotonic() - start
    with thread_count(config.execute.final_threads):
        val = score(label(trained.net, lab.problem.val, config), lab.problem.val, config.reward)
    sha256 = lab.run.keep_network(name, trained.net)
    if curriculum is not None:
        lab.run.write_json(f"{name}/curriculum.json", {"thresholds": list(curriculum.thresholds)})
    lab.run.journal.add(
        key,
        "training",
        name=name,
        sha256=sha256,
        val=val.to_dict(),
        selected=list(trained.selected),
        images=trained.images,
        seconds=round(seconds, 3),
    )
    lab.meter.spend(cost)
    return Stage(name, config, trained.net, sha256, val, curriculum, trained.selected, trained.images, seconds)


def check(problem: Problem, config: Config) -> None:
    """Refuse what cannot work before anything is trained."""
    labelled, batch = len(problem.labelled), config.train.batch
    if labelled < batch:
        raise InputError(
            f"{labelled} labelled instances are fewer than a batch of {batch}. "
            f"Label more or set train.batch={labelled}."
        )
    if config.rounds.count and not len(problem.halves[0]):
        raise InputError("no unlabelled image: name a folder with --unlabeled, or set rounds.count=0 to train without.")
    if config.rounds.count > 1 and config.rounds.cross_training and not len(problem.halves[1]):
        raise InputError("one unlabelled instance makes no two halves: add more or set rounds.cross_training=false.")
    if config.rounds.keep == "best" and not problem.val.labelled.any():
        raise InputError("rounds.keep=best: there is no validation set to tell the best. Use rounds.keep=last.")
    if config.execute.device == "cuda" and not torch.cuda.is_available():
        raise InputError("execute.device=cuda: this machine has no CUDA device. Use execute.device=cpu.")
