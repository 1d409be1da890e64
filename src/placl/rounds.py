"""Algorithm 2: rounds of pseudo-labelling, curriculum search and retraining.

The networks come out one by one as they are finished. What happens here sees labelled instances, images without
labels and the validation set (:class:`~placl.data.splits.Problem`); the test set is not within reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.curriculum.searcher import make_searcher
from placl.data.pool import Pool, concatenate
from placl.data.splits import Problem, fingerprint
from placl.errors import InputError, MachineError
from placl.execute.serial import SerialExecutor
from placl.lab import Lab
from placl.labelling import label_with
from placl.learn.course import TrainingSet
from placl.learn.device import pick_device, thread_count
from placl.learn.distributed import devices_for
from placl.learn.label import label
from placl.learn.network import network_with
from placl.learn.pseudo_labels import PseudoLabels, labels_into, read_labels
from placl.learn.score import Score, score
from placl.learn.training import Learned, Training, Trainings
from placl.models.zoo import KeypointNet
from placl.run.journal import key_of
from placl.search import derive, proxy_task, search

FINAL = "final"
AT_ONCE = 1 << 16  # instances whose labels are in memory


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
    stage = train_stage(lab, Unit("round_0", configs["round_0"], TrainingSet(problem.labelled)))  # Theta^0
    yield stage
    for r in range(1, rounds + 1):
        lab.watch.progress("round", r - 1, rounds, "searching")
        half = problem.unlabelled_half(r, config.rounds.cross_training)  # D_u^(1) or D_u^(2), 3.3
        pseudo = pseudo_label(lab, stage, half, f"round_{r}")  # by Theta^{r-1}
        lab.run.keep_pseudo_labels(f"round_{r}", half, pseudo)
        data = TrainingSet(problem.labelled, half, pseudo)
        seed = derive(config.seed, "search", r)
        searcher = make_searcher(config.search, base, seed)
        best = search(lab, proxy_task(config, data, problem.val), searcher, f"round_{r}", seed)  # (Gamma^r)*
        lab.watch.progress("round", r - 1, rounds, "training")
        stage = train_stage(lab, Unit(f"round_{r}", configs[f"round_{r}"], data, best))  # Theta^r under (Gamma^r)*
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
    return dict.fromkeys(names[:-1], teacher) | {names[-1]: config}


def finish(lab: Lab, stage: Stage, data: TrainingSet, best: Curriculum) -> Stage:
    """Both halves at once. Theta^R labels the half that it was not trained on; the other keeps its labels."""
    assert data.unlabelled is not None
    assert data.pseudo is not None
    other = lab.problem.unlabelled_half(lab.config.rounds.count + 1)
    fresh = pseudo_label(lab, stage, other, FINAL)
    both = concatenate([data.unlabelled, other])
    pseudo = _joined([data.pseudo, fresh], lab.run.path / FINAL / "pseudo_labels" / "both")
    lab.run.keep_pseudo_labels(FINAL, both, pseudo)
    everything = TrainingSet(data.labelled, both, pseudo)
    return train_stage(lab, Unit(FINAL, lab.config, everything, best))


def _joined(several: list[PseudoLabels], folder: Path) -> PseudoLabels:
    """Labels of several pools in one folder, copied piece by piece."""
    count, keypoints = sum(len(labels.confidence) for labels in several), several[0].confidence.shape[1]
    done = 0
    with labels_into(folder, count, keypoints) as put:
        for labels in several:
            for start in range(0, len(labels.confidence), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                put(done + start, labels.keypoints[some], labels.confidence[some])
            done += len(labels.confidence)
    joined = read_labels(folder, "+".join(labels.model for labels in several), (count, keypoints))
    assert joined is not None
    return joined


def pseudo_label(lab: Lab, stage: Stage, pool: Pool, name: str) -> PseudoLabels:
    """What a stage's network says of a pool, or said before; in files, which are mapped."""
    folder = lab.run.path / name / "pseudo_labels"
    key = key_of(unit="labels", run=lab.key, name=name, labels=stage.sha256)
    shape = len(pool), len(pool.skeleton)
    known = read_labels(folder, stage.sha256, shape) if lab.run.journal.get(key) else None
    if known is not None:
        return known
    pseudo = label_with(
        lab.executor,
        stage.net,
        pool,
        stage.config,
        model=stage.sha256,
        folder=folder,
        on_progress=lambda done, total: lab.watch.progress("label", done, total, "pseudo-labels"),
    )
    lab.run.journal.add(key, "labels", name=name)
    return pseudo


@dataclass(frozen=True)
class Unit:
    """A stage to come: what is trained, how and on what."""

    name: str
    config: Config
    data: TrainingSet
    curriculum: Curriculum | None = None

    def key(self, lab: Lab) -> str:
        labels = self.data.pseudo.model if self.data.pseudo is not None else None
        thresholds = self.curriculum.thresholds if self.curriculum is not None else None
        known = fingerprint(self.data.labelled)  # the yardstick's labels are not the run's
        return key_of(unit="training", name=self.name, run=lab.key, known=known, labels=labels, curriculum=thresholds)

    def network(self, weights: dict[str, Tensor]) -> KeypointNet:
        device = pick_device(self.config.execute.device)
        return network_with(self.config, len(self.data.labelled.skeleton), weights, device)


def train_stage(lab: Lab, unit: Unit) -> Stage:
    return train_side_by_side(lab, [unit])[0]


def train_side_by_side(lab: Lab, units: list[Unit]) -> list[Stage]:
    """Full trainings, or those that the journal says are done."""
    keys = [unit.key(lab) for unit in units]
    stages: dict[int, Stage] = {}
    jobs: dict[int, Training] = {}
    for number, (unit, key) in enumerate(zip(units, keys, strict=True)):
        done = lab.run.journal.get(key)
        weights = lab.run.network_state(unit.name, done["sha256"]) if done else None
        if done and weights is not None:
            stages[number] = _stage(unit, unit.network(weights), done)
            lab.meter.spend(lab.meter.cost(unit.config), key)
        else:
            seed = derive(unit.config.seed, "training", unit.name)
            jobs[number] = Training(unit.config, unit.data, unit.curriculum, seed)

    def keep(number: int, learned: Learned) -> None:
        stages[number] = _keep(lab, units[number], keys[number], learned)
        lab.meter.spend(lab.meter.cost(units[number].config), keys[number])

    together = [jobs]
    if lab.config.execute.final_threads > lab.config.execute.threads:  # each wants more cores than a worker has
        together = [{number: job} for number, job in jobs.items()]
    for some in together:
        _train_together(lab, {number: units[number] for number in some}, some, keep)
    return [stages[number] for number in range(len(units))]


def _train_together(
    lab: Lab, units: dict[int, Unit], jobs: dict[int, Training], keep: Callable[[int, Learned], None]
) -> None:
    """Side by side; their epochs are counted together."""
    names = ", ".join(unit.name for unit in units.values())
    epochs = {number: unit.config.train.epochs for number, unit in units.items()}
    reached = dict.fromkeys(units, 0)  # epochs done
    open_ = set(units)  # not entered into the run yet

    def on_done(number: int, learned: Learned) -> None:
        open_.remove(number)
        keep(number, learned)

    def on_progress(number: int, done: int, total: int) -> None:
        reached[number] = done
        lab.watch.progress("epoch", sum(reached.values()), sum(epochs.values()), names)
        lab.meter.reach(sum(lab.meter.cost(units[n].config) * reached[n] / epochs[n] for n in open_))

    executor = lab.executor
    if lab.config.execute.where == "pool" and len(devices_for(lab.config)) > 1:
        # A full training takes every GPU, of which a worker sees one: it starts from this process. Workers, who hold
        # memory of the GPUs while they wait, are hired again for the next search.
        executor.close()
        executor = SerialExecutor()
    executor.run(Trainings(), jobs, on_done, on_progress)


def _keep(lab: Lab, unit: Unit, key: str, learned: Learned) -> Stage:
    """Score a finished training on the validation set and enter it into the run."""
    if learned.diverged:
        raise MachineError(f"{unit.name}: the loss is no longer a finite number. Lower train.lr and start another run.")
    net = unit.network(safetensors.torch.load(learned.weights))
    with thread_count(unit.config.execute.final_threads):
        val = score(label(net, lab.problem.val, unit.config), lab.problem.val, unit.config.reward)
    done: dict[str, Any] = {
        "sha256": lab.run.keep_network(unit.name, net),
        "val": val.to_dict(),
        "selected": list(learned.selected),
        "images": learned.images,
        "seconds": round(learned.seconds, 3),
    }
    if unit.curriculum is not None:
        lab.run.write_json(f"{unit.name}/curriculum.json", {"thresholds": list(unit.curriculum.thresholds)})
    lab.run.journal.add(key, "training", name=unit.name, **done)
    return _stage(unit, net, done)


def _stage(unit: Unit, net: KeypointNet, done: dict[str, Any]) -> Stage:
    return Stage(
        name=unit.name,
        config=unit.config,
        net=net,
        sha256=done["sha256"],
        val=Score(**done["val"]),
        curriculum=unit.curriculum,
        selected=tuple(done["selected"]),
        images=done["images"],
        seconds=done["seconds"],
    )


def check(problem: Problem, config: Config) -> None:
    """Refuse what cannot work before anything is trained."""
    labelled, batch = len(problem.labelled), config.train.batch
    if labelled < batch:
        raise InputError(
            f"{labelled} labelled instances are fewer than a batch of {batch}. "
            f"Label more or set train.batch={labelled}."
        )
    gpus = config.ray.gpus_per_candidate or 1
    if config.execute.where == "ray" and gpus > batch:
        raise InputError(
            f"ray.gpus_per_candidate={gpus:g}: {gpus:g} GPUs cannot share a batch of {batch}. "
            f"Set train.batch={gpus:g} or use fewer."
        )
    images = len(np.unique(problem.labelled.image))
    if config.reward.source == "folds" and images < config.reward.folds:
        raise InputError(
            f"{images} labelled images make no {config.reward.folds} folds. Label more or set reward.folds={images}."
            if images > 1
            else "reward.source=folds needs at least 2 labelled images."
        )
    if config.rounds.count and not len(problem.halves[0]):
        raise InputError("no unlabelled image: name a folder with --unlabeled, or set rounds.count=0 to train without.")
    if config.rounds.count > 1 and config.rounds.cross_training and not len(problem.halves[1]):
        raise InputError("one unlabelled instance makes no two halves: add more or set rounds.cross_training=false.")
    if config.rounds.keep == "best" and not problem.val.labelled.any():
        raise InputError("rounds.keep=best: there is no validation set to tell the best. Use rounds.keep=last.")
    check_heads(problem.val, "validation", config)
    if config.reward.source == "folds":
        check_heads(problem.labelled, "labelled", config)
    if config.execute.device == "cuda" and not torch.cuda.is_available():
        raise InputError("execute.device=cuda: this machine has no CUDA device. Use execute.device=cpu.")


def check_heads(pool: Pool, part: str, config: Config) -> None:
    """PCKh divides by head sizes: refuse a part that lacks some."""
    if config.reward.metric != "pckh":
        return
    labelled = pool.labelled
    unknown = int(labelled.sum()) if pool.head is None else int((~np.isfinite(pool.head[labelled])).sum())
    if unknown:
        raise InputError(
            f"reward.metric=pckh: {unknown} of the {int(labelled.sum())} {part} instances have no head size. "
            "Use reward.metric=pck."
        )
