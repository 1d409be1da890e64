"""Full trainings of a run: what is trained becomes a stage, scored on the validation set and entered into the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import safetensors.torch
from torch import Tensor

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.pool import Pool
from placl.data.splits import fingerprint
from placl.errors import MachineError
from placl.execute.executor import Task
from placl.execute.serial import SerialExecutor
from placl.files import disk_errors
from placl.lab import Lab
from placl.labelling import label_with
from placl.learn.checkpoint import Checkpoint
from placl.learn.course import TrainingSet
from placl.learn.device import pick_device, thread_count
from placl.learn.distributed import devices_for
from placl.learn.label import label
from placl.learn.network import network_with
from placl.learn.pseudo_labels import ARRAYS, PseudoLabels, read_labels
from placl.learn.remembering import Remembering
from placl.learn.score import Score, score
from placl.learn.training import Learned, Training, Trainings
from placl.models.zoo import KeypointNet
from placl.report.observing import confidence_summary, reliability
from placl.run.journal import key_of
from placl.search import Tried, derive

DESCRIPTION = ("reliability.json", "curriculum.json")  # of every stage, and of those with a curriculum
FIRST, FINAL = "round_0", "final"  # names of stages: labels only, and the last where it is no round


def alike(one: Config, other: Config) -> bool:
    """Whether trainings make the same kind of network, of which the better may be kept; others only label."""
    return (one.model, one.train, one.augment) == (other.model, other.train, other.augment)


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


def pseudo_label(lab: Lab, stage: Stage, pool: Pool, name: str) -> PseudoLabels:
    """What a stage's network says of a pool, or said before; in files, which are mapped."""
    folder = lab.run.path / name / "pseudo_labels"
    key = key_of(unit="labels", run=lab.key, name=name, labels=stage.sha256)
    shape = len(pool), len(pool.skeleton)
    done = lab.run.journal.get(key)
    known = read_labels(folder, stage.sha256, shape) if done else None
    if done and known is not None and lab.run.holds(done.get("files", {})):
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
    lab.run.write_json(f"{name}/confidence.json", confidence_summary(pseudo, pool, lab.config.select))
    files = [f"{name}/confidence.json", *(f"{name}/pseudo_labels/{array}.npy" for array in ARRAYS)]
    lab.run.journal.add(key, "labels", name=name, files=lab.run.hashes(files))
    return pseudo


@dataclass(frozen=True)
class Unit:
    """A stage to come: what is trained, how and on what."""

    name: str
    config: Config
    data: TrainingSet
    curriculum: Curriculum | None = None
    tried: Tried | None = None  # the candidate that this is

    def key(self, lab: Lab) -> str:
        labels = self.data.pseudo.model if self.data.pseudo is not None else None
        thresholds = self.curriculum.thresholds if self.curriculum is not None else None
        known = fingerprint(self.data.labelled)  # the yardstick's labels are not the run's
        return key_of(unit="training", name=self.name, run=lab.key, known=known, labels=labels, curriculum=thresholds)

    def network(self, weights: dict[str, Tensor]) -> KeypointNet:
        device = pick_device(self.config.execute.device)
        return network_with(self.config, len(self.data.labelled.skeleton), weights, device)


def train_stage(lab: Lab, unit: Unit, task: Task[Training, Learned] | None = None) -> Stage:
    return train_side_by_side(lab, [unit], task)[0]


def train_side_by_side(lab: Lab, units: list[Unit], task: Task[Training, Learned] | None = None) -> list[Stage]:
    """Full trainings, or those that the journal says are done; by Algorithm 1, or as the ``task`` has it."""
    task = task or Trainings()
    if lab.library is not None:
        task = Remembering(task, lab.library)
    keys = [unit.key(lab) for unit in units]
    stages: dict[int, Stage] = {}
    jobs: dict[int, Training] = {}
    for number, (unit, key) in enumerate(zip(units, keys, strict=True)):
        done = lab.run.journal.get(key)
        weights = lab.run.network_state(unit.name, done["sha256"]) if done else None
        if done and weights is not None:
            stages[number] = _stage(unit, unit.network(weights), done)
            _checkpoint(lab, unit, key).remove()  # of a process that was killed before it could
            if not lab.run.holds(done.get("files", {})):
                _describe(lab, unit, stages[number].net, stages[number].selected)
            lab.meter.spend(lab.meter.cost(unit.config), key)
        else:
            seed = unit.tried.seed if unit.tried else derive(unit.config.seed, "training", unit.name)
            place = _checkpoint(lab, unit, key)
            jobs[number] = Training(unit.config, unit.data, unit.curriculum, seed, place)

    def keep(number: int, learned: Learned) -> None:
        stages[number] = _keep(lab, units[number], keys[number], learned)
        _checkpoint(lab, units[number], keys[number]).remove()
        lab.meter.spend(lab.meter.cost(units[number].config), keys[number])

    for number, unit in enumerate(units):
        learned = lab.run.candidate(unit.name, unit.tried.key) if unit.tried and number in jobs else None
        if learned is not None:
            del jobs[number]
            keep(number, learned)
    together = [jobs]
    if lab.config.execute.final_threads > lab.config.execute.threads:  # each wants more cores than a worker has
        together = [{number: job} for number, job in jobs.items()]
    for some in together:
        _train_together(lab, task, {number: units[number] for number in some}, some, keep)
    return [stages[number] for number in range(len(units))]


def _checkpoint(lab: Lab, unit: Unit, key: str) -> Checkpoint:
    folder = (lab.run.path / unit.name).resolve()  # workers may live elsewhere
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return Checkpoint(folder / "checkpoint.safetensors", key)


def _train_together(
    lab: Lab,
    task: Task[Training, Learned],
    units: dict[int, Unit],
    jobs: dict[int, Training],
    keep: Callable[[int, Learned], None],
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
    executor.run(task, jobs, on_done, on_progress)


def _keep(lab: Lab, unit: Unit, key: str, learned: Learned) -> Stage:
    """Score a finished training on the validation set and enter it into the run."""
    if learned.diverged:
        raise MachineError(f"{unit.name}: the loss is no longer a finite number. Lower train.lr and start another run.")
    net = unit.network(safetensors.torch.load(learned.weights))
    done: dict[str, Any] = {
        "sha256": lab.run.keep_network(unit.name, net),
        "val": _describe(lab, unit, net, learned.selected).to_dict(),
        "selected": list(learned.selected),
        "images": learned.images,
        "seconds": round(learned.seconds, 3),
        "files": lab.run.hashes(f"{unit.name}/{file}" for file in DESCRIPTION[: 1 + (unit.curriculum is not None)]),
    }
    if unit.tried is not None:
        done["candidate"] = unit.tried.key  # whose images and seconds these are
    lab.run.journal.add(key, "training", name=unit.name, **done)
    lab.run.forget_candidate(unit.name)
    return _stage(unit, net, done)


def _describe(lab: Lab, unit: Unit, net: KeypointNet, selected: tuple[float, ...]) -> Score:
    """What a network is worth on the validation set, with the files that tell of it."""
    with thread_count(unit.config.execute.final_threads):
        predicted = label(net, lab.problem.val, unit.config)
    trust = reliability(predicted, lab.problem.val, unit.config.reward.alpha)
    lab.run.write_json(f"{unit.name}/{DESCRIPTION[0]}", trust)
    if unit.curriculum is not None:
        used = {"thresholds": list(unit.curriculum.thresholds), "selected": list(selected)}
        lab.run.write_json(f"{unit.name}/{DESCRIPTION[1]}", used)
    return score(predicted, lab.problem.val, unit.config.reward)


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
