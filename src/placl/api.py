"""``placl.train``: read the data, draw the split, run the rounds, score what comes out, and keep it all in a folder."""

from __future__ import annotations

import hashlib
import multiprocessing
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import yaml

from placl.checks import check, check_heads, doubts
from placl.config import Config
from placl.data.correcting import check_corrections, correct, corrected_split
from placl.data.load import Dataset, load_dataset
from placl.data.pool import Pool
from placl.data.splits import Problem, Split, draw_split, fingerprint, make_problem, take_ids
from placl.errors import InputError
from placl.execute.executor import Executor, available_cores, make_executor
from placl.files import write_atomic
from placl.lab import Lab, Meter
from placl.learn.course import TrainingSet
from placl.learn.device import pick_device, precision_on, thread_count
from placl.learn.label import label
from placl.learn.network import fresh_network
from placl.learn.score import Score, score
from placl.methods.method import method_of
from placl.models.weights import save_weights
from placl.models.zoo import check_known
from placl.report.collecting import GALLERY
from placl.report.observing import keep_gallery, keep_opinion
from placl.run.folder import RunFolder, read_split, refuse_foreign
from placl.run.journal import key_of
from placl.run.lock import locked
from placl.stages import FIRST, Stage, Unit, alike, train_side_by_side
from placl.tracking import Tracking, tracked
from placl.version import VERSION
from placl.watch import Silent, Watch

# Yardsticks, never part of the method: the network that is kept, trained on the few labels alone and on all there are.
# Where round 0 trains that network (no `teacher`), it is the first yardstick, and there is no stage "few".
FEW, FULL = "few", "full"
# Of the settings, what is written beside the weights: what reading them needs, and what that is checked against.
DESCRIBED = {"preset", "method", "model", "train", "label", "select", "teacher", "search", "reward"}


@dataclass(frozen=True)
class Result:
    """What a training came to; ``rows`` is ``results.csv``."""

    run: Path  # the folder
    rows: list[dict[str, Any]]  # one a stage: scores, labels used, images, seconds, sha256 of the weights
    best: str  # the stage in ``best/``: the last one, or the best on the validation set
    seconds: float  # of all sessions
    skipped: tuple[str, ...] = ()  # unlabelled images that could not be read

    def row(self, stage: str) -> dict[str, Any]:
        """The results of a stage: ``round_0``, ``round_1``, ..., ``final``."""
        return next(row for row in self.rows if row["stage"] == stage)

    @property
    def compared(self) -> dict[str, dict[str, Any]]:
        """The rows to compare, all of one network and one budget: "supervised", "placl" and "full", where trained."""
        rows = {row["stage"]: row for row in self.rows}
        supervised = rows.get(FEW) or rows.get(FIRST)
        first = {"supervised": supervised} if supervised else {}
        return first | {"placl": rows[self.best]} | ({"full": rows[FULL]} if FULL in rows else {})

    @property
    def gap_recovered(self) -> float | None:
        """(PLACL - few labels) / (all labels - few labels) on the test set; None without the yardstick."""
        scores = [row["test"] for row in self.compared.values()]
        if len(scores) < 3 or None in scores:
            return None
        few, ours, full = map(float, scores)
        return (ours - few) / (full - few) if full != few else None


def train(
    config: Config,
    out: Path,
    watch: Watch | None = None,
    dataset: Dataset | None = None,
    library: Path | None = None,
) -> Result:
    """Train, or carry on with the training in ``out``, the run folder.

    ``watch`` is told of progress (default: nobody is), ``dataset`` stands in for the files of ``config.data``, and
    ``library`` is a folder in which runs that have trainings in common find them. Worker processes import the calling
    script again, so that in a script the call belongs under ``if __name__ == "__main__":``.
    """
    watch = watch or Silent()
    if multiprocessing.parent_process() is not None:
        raise InputError(
            'placl.train was called again by its own workers: put the call under if __name__ == "__main__":'
        )
    refuse_foreign(out, config.anchored())
    with closing(make_executor(config.execute, config.ray)) as executor:  # it starts while data are read
        return train_with(config, out, watch, dataset, executor=executor, library=library)


def train_with(
    config: Config,
    out: Path,
    watch: Watch,
    dataset: Dataset | None = None,
    *,
    executor: Executor,
    library: Path | None = None,
    tested: bool = True,
) -> Result:
    """As :func:`train`, on an executor that is there already, and in any process; test images need not be scored."""
    config = config.anchored()
    refuse_foreign(out, config)  # before any time goes into the data
    for own in (config, config.taught(), config.proxied()):
        check_known(own.model.name, own.model.backbone)
    with locked(out), tracked(config.track, watch) as tracking:
        return _train_in(config, out, watch, dataset, executor, library, tracking, tested)


def _train_in(
    config: Config,
    out: Path,
    watch: Watch,
    dataset: Dataset | None,
    executor: Executor,
    library: Path | None,
    tracking: Tracking,
    tested: bool,
) -> Result:
    if dataset is None:
        workers = config.execute.workers or available_cores()
        dataset = load_dataset(
            config.data,
            config.view,
            workers=workers,
            on_progress=lambda done, total: watch.progress("images", done, total, "cropping"),
        )
    for note in (*dataset.notes, *dataset.doubts, *doubts(dataset.pool, config)):
        watch.say(note)
    if dataset.skipped:
        watch.say(f"{len(dataset.skipped)} unreadable unlabelled images are skipped, the first: {dataset.skipped[0]}")
    split = read_split(out) or draw_roles(dataset, config)
    pool = corrected(dataset, split)
    problem = make_problem(pool, split, needs_val=config.needs_val)
    check(problem, config)
    exam = take_ids(pool, split.test if tested else ())
    check_heads(exam, "test", config)
    check_networks(config, len(pool.skeleton))
    run = RunFolder(out, config)  # only now: a training that is refused leaves nothing behind
    run.keep_split(split)
    parts = identity(problem, config)
    key = key_of(**parts)
    run.identify(key, **parts)
    run.tracking = tracking
    tracking.begin(run.path, config)
    keep_gallery(run.path / GALLERY, problem)
    if dataset.shared is not None:
        run.write_json("keypoints.json", dataset.shared.to_dict())
    run.write_json("skipped.json", {"count": len(dataset.skipped), "images": list(dataset.skipped)})
    watch.say(describe(split, pool))
    _say_what_is_kept(run, watch)
    yardsticks = make_yardsticks(pool, split, problem, config) if config.reference else []

    method = method_of(config)
    trainings = [*method.stages(config).values(), *(config for _ in yardsticks)]
    meter = Meter(problem, config, executor.workers, watch, trainings)
    lab = Lab(problem, config, run, key, executor, watch, meter, library)
    rows: list[dict[str, Any]] = []
    known = run.rows("results.csv")  # of earlier sessions: kept until this one comes to the same stage
    stages: list[Stage] = []

    def finished(stage: Stage, labels: int) -> None:
        test = _examine(stage, exam)
        rows.append(_row(stage, test, labels, len(split.val)))
        run.write_json(f"{stage.name}/metrics.json", {"val": stage.val.to_dict(), "test": test and test.to_dict()})
        here = {row["stage"] for row in rows}
        run.write_rows("results.csv", [*rows, *(row for row in known if row["stage"] not in here)])
        scores = {f"stages/{part}": rows[-1][part] for part in ("val", "test", "selected")}
        run.log({name: value for name, value in scores.items() if value is not None}, len(rows) - 1)
        run.write_report()
        watch.say(_line(rows[-1], stage))

    # Yardsticks train beside round 0, which the method then finds in the journal.
    first = [Unit(FIRST, own, TrainingSet(problem.labelled)) for own in _first(config)]
    references = train_side_by_side(lab, first + yardsticks)[len(first) :] if yardsticks else []
    for stage in method.run(lab):
        if any(map(len, problem.halves)):
            looks = partial(keep_opinion, net=stage.net, problem=problem, config=stage.config)
            run.once(f"{GALLERY}/{stage.name}.json", stage.sha256, looks)
        finished(stage, len(problem.labelled))
        stages.append(stage)
    for stage, unit in zip(references, yardsticks, strict=True):
        finished(stage, len(unit.data.labelled))
    run.write_rows("results.csv", rows)  # and nothing that is left of damaged ones
    own = config, config.continued()
    kept = [stage for stage in stages if any(alike(stage.config, like) for like in own)]  # others are teachers
    best = kept[-1] if config.rounds.keep == "last" else max(kept, key=lambda stage: stage.val.value)
    _keep_best(run, best, config, problem)
    run.write_report()
    return Result(out, rows, best.name, run.journal.seconds(), dataset.skipped)


def _say_what_is_kept(run: RunFolder, watch: Watch) -> None:
    """Of earlier sessions: nobody should take what is read for what was trained."""
    kept = sum(unit["kind"] in ("training", "candidate") for unit in run.journal.units.values())
    if (run.path / "best" / "model.yaml").exists():
        watch.say(f"this run is finished: its {kept} trainings are kept, and none is run again.")
    elif kept:
        watch.say(f"carrying on: {kept} finished trainings are kept.")


def draw_roles(dataset: Dataset, config: Config) -> Split:
    settings = config.data
    drawn = draw_split(
        dataset.pool,
        dataset.source,
        label_fraction=settings.label_fraction,
        val_fraction=settings.val_fraction,
        test_fraction=settings.test_fraction,
        seed=settings.split_seed,
    )
    return corrected_split(drawn, dataset.corrections) if dataset.corrections else drawn


def corrected(dataset: Dataset, split: Split) -> Pool:
    """All instances, with the labels that people gave while reviewing a run."""
    if not dataset.corrections:
        return dataset.pool
    check_corrections(dataset.pool, split, dataset.corrections)
    return correct(dataset.pool, split, dataset.corrections)


def check_networks(config: Config, keypoints: int) -> None:
    """Try each network, so that a wrong name, weights file or input size is refused before anything is written."""
    models = {settings.model: settings for settings in (config, config.proxied(), config.taught())}
    for settings in models.values():
        net = fresh_network(settings, keypoints, 0, torch.device("cpu")).eval()
        size = settings.model.input_size
        refused = (
            f"model.input_size={size}: {settings.model.name} does not take it. Try {max(64, round(size / 64) * 64)}."
        )
        try:
            with torch.inference_mode():
                found = net(torch.zeros(1, 3, size, size)).shape[-2:]
        except RuntimeError:  # the branches of a network do not fit together
            raise InputError(refused) from None
        if found != (size // net.stride, size // net.stride):
            raise InputError(refused)


def identity(problem: Problem, config: Config) -> dict[str, str]:
    """Hashes of all that the units of a run share: what would change their results if it changed."""
    settings = config.model_dump(mode="json", exclude={"data", "execute", "ray", "reference", "preset", "track"})
    threads = [config.execute.threads, config.execute.final_threads]
    if (config.ray.gpus_per_candidate or 1) > 1:  # a candidate's gradients are then summed in another order
        threads.append(int(config.ray.gpus_per_candidate or 1))
    together = {"together": config.execute.together} if config.execute.together > 1 else {}  # float noise
    weights = config.model.weights
    device = pick_device(config.execute.device)
    return {
        "the data": key_of(parts=[fingerprint(part) for part in (problem.labelled, *problem.halves, problem.val)]),
        "the settings": key_of(settings=settings, threads=threads, **together),
        "the weights file": hashlib.sha256(weights.read_bytes()).hexdigest()[:24] if weights else "none",
        "the device": f"{device.type} {precision_on(config.train.precision, device)}",
        "the version of placl, torch or OpenCV": f"{VERSION} {torch.__version__} {cv2.__version__}",
    }


def make_yardsticks(pool: Pool, split: Split, problem: Problem, config: Config) -> list[Unit]:
    """What to train for comparison: on the labels in use, and on those too that were taken off, where there are any."""
    everyone = take_ids(pool, split.labelled + split.half_1 + split.half_2)
    everyone = everyone.take(everyone.labelled)
    units = []
    if _first(config) != [config]:
        units.append(Unit(FEW, config, TrainingSet(problem.labelled)))
    if set(everyone.ids) - set(split.labelled):
        units.append(Unit(FULL, config, TrainingSet(everyone)))
    return units


def _first(config: Config) -> list[Config]:
    """The configuration of the network that a method begins with, trained on labels alone; if it has one."""
    return [own for name, own in method_of(config).stages(config).items() if name == FIRST]


def _examine(stage: Stage, exam: Pool) -> Score | None:
    if not len(exam):
        return None
    with thread_count(stage.config.execute.final_threads):
        return score(label(stage.net, exam, stage.config), exam, stage.config.reward)


def _row(stage: Stage, test: Score | None, labels: int, val_labels: int) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "metric": stage.val.metric,
        "val": round(stage.val.value, 4) if stage.val.instances else None,
        "test": round(test.value, 4) if test else None,
        "labels": labels,
        "val_labels": val_labels,
        "selected": round(float(np.mean(stage.selected)), 4) if stage.curriculum else None,
        "images": stage.images,
        "seconds": round(stage.seconds, 1),
        "weights_sha256": stage.sha256,
    }


def _line(row: dict[str, Any], stage: Stage) -> str:
    val = f" val {row['val']:.2f}" if row["val"] is not None else ""
    test = f" test {row['test']:.2f}" if row["test"] is not None else ""
    used = f", {100 * row['selected']:.0f} % of the pseudo-labels" if row["selected"] is not None else ""
    return f"{stage.name}: {row['metric']}{val}{test}{used}, {row['seconds']:.0f} s"


def _keep_best(run: RunFolder, stage: Stage, config: Config, problem: Problem) -> None:
    """``best/``: what prediction needs, and nothing that it does not."""
    skeleton = problem.labelled.skeleton
    save_weights(stage.net, run.path / "best" / "model.safetensors")
    description = {
        "stage": stage.name,
        "weights_sha256": stage.sha256,
        "keypoints": list(skeleton.keypoints),
        "edges": [list(edge) for edge in skeleton.edges],
        "flip_pairs": [list(pair) for pair in skeleton.flip_pairs],
        "sigmas": list(skeleton.sigmas),
        "val": {stage.val.metric: stage.val.value},
        "config": config.model_dump(mode="json", include=DESCRIBED)
        | {"data": {"context": config.data.context, "margin": config.data.margin}},
    }
    write_atomic(run.path / "best" / "model.yaml", yaml.safe_dump(description, sort_keys=False))


def describe(split: Split, pool: Pool) -> str:
    """How many labels are used for what."""
    unlabelled = len(split.half_1) + len(split.half_2)
    return (
        f"{len(split.labelled)} labelled, {unlabelled} unlabelled, {len(split.val)} validation and "
        f"{len(split.test)} test instances, {len(pool.skeleton)} keypoints"
    )
