"""The score of a trained model on labelled instances: those of a COCO file, or the test split of its own run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from placl import config as configuration
from placl.config import Data, Reward, Source
from placl.data.correspondence import correspond
from placl.data.identity import identify
from placl.data.instances import Instances
from placl.data.load import load_dataset, read_instances
from placl.data.pool import Pool
from placl.data.sharing import brought_to
from placl.data.sources import read_labelled
from placl.data.splits import take_ids
from placl.errors import InputError
from placl.execute.executor import available_cores
from placl.learn.device import thread_count
from placl.learn.label import label
from placl.learn.pseudo_labels import PseudoLabels
from placl.learn.score import Score, score
from placl.model import Model
from placl.prediction import read_out
from placl.run.folder import read_config, read_split
from placl.watch import Silent, Watch


def evaluate(
    model: Model | Path | str,
    annotations: Path | str | None = None,
    *,
    images: Path | str | None = None,
    keypoints: tuple[str, ...] | None = None,
    metric: str | None = None,
    alpha: float | None = None,
    split: str | None = None,
    watch: Watch | None = None,
) -> Score:
    """Score a model on a labelled source of any format, or a run on its own test split.

    The metric (``pck``, ``pck_auc``, ``pckh`` or ``oks``) is that of the training unless another is named. ``images``
    and ``keypoints`` are the folder of the source's images and the names of its keypoints, where the defaults do not
    do. ``split`` takes only that part of the source.
    """
    return examine(
        model,
        annotations,
        images=images,
        keypoints=keypoints,
        metric=metric,
        alpha=alpha,
        split=split,
        watch=watch or Silent(),
    )[0]


def examine(
    model: Model | Path | str,
    annotations: Path | str | None,
    *,
    images: Path | str | None,
    keypoints: tuple[str, ...] | None,
    metric: str | None,
    alpha: float | None,
    split: str | None = None,
    watch: Watch,
) -> tuple[Score, str]:
    """:func:`evaluate`, and what the score was measured on."""
    run = None if isinstance(model, Model) else Path(model)
    model = model if isinstance(model, Model) else Model.from_dir(model)
    settings = _metric(model.config.reward, metric, alpha)
    if annotations is not None:
        source = Source(path=Path(annotations), images=Path(images) if images else None, split=split)
        predicted, truth, instances = _on_source(model, source, keypoints, watch)
        measured_on = str(annotations) if split is None else f"{split} of {annotations}"
        if run is not None and (seen := _trained_on(run, instances)):
            watch.say(f"{seen} of the {len(truth)} instances were in the run's training set: this is no test score.")
    elif run is not None and (run / "config.yaml").is_file():
        predicted, truth, name = _on_own_split(model, run, watch)
        measured_on = f"{name} split of {run}"
    else:
        raise InputError("no labels to score on: name a COCO keypoint file.")
    return score(predicted, truth, settings), measured_on


def _metric(settings: Reward, metric: str | None, alpha: float | None) -> Reward:
    wanted: dict[str, Any] = {"reward.metric": metric, "reward.alpha": alpha}
    given = {key: value for key, value in wanted.items() if value is not None}
    own = {f"reward.{key}": value for key, value in settings.model_dump().items()}
    return configuration.load(None, own | given).reward


def _trained_on(run: Path, instances: Instances) -> int:
    """How many instances are of images that the run was trained on, under whatever name and as whatever copy.

    Where the run's data are gone, or were never in files, they are known by their ids.
    """
    split = read_split(run)
    if split is None:
        return 0
    known = set(split.labelled + split.half_1 + split.half_2)
    try:
        trained, _, _ = read_instances(read_config(run).data)
    except InputError:
        return int(_named(instances, known).sum())
    trained = trained.take(np.flatnonzero(_named(trained, known)))
    theirs, ours = identify([trained.images, instances.images])
    of_theirs = set(theirs)
    by_image = np.array([identity in of_theirs for identity in ours], dtype=bool)
    there = np.array([image.exists() for image in trained.images], dtype=bool)[trained.image_index]
    gone = known.difference(np.array(trained.ids)[there].tolist())
    return int((by_image[instances.image_index] | _named(instances, gone)).sum())


def _named(instances: Instances, ids: set[str]) -> np.ndarray:
    """(N,) whose id is one of these."""
    return np.array([name in ids for name in instances.ids], dtype=bool)


def _on_source(
    model: Model, source: Source, keypoints: tuple[str, ...] | None, watch: Watch
) -> tuple[PseudoLabels, Pool, Instances]:
    file = source.path
    instances = read_labelled(source, Data(keypoints=keypoints)).instances
    if not instances.labelled.any():
        raise InputError(f"{file}: no labelled instance: no annotation has a keypoint with v > 0.")
    assert instances.skeleton is not None
    found, wanted = instances.skeleton.keypoints, model.skeleton.keypoints
    if found != wanted:  # as of a model across domains, which has what two datasets share
        places = correspond(found, wanted)
        both = [name for name, place in zip(wanted, places, strict=True) if place >= 0]
        if not both:
            raise InputError(
                f"{file}: its keypoints are not the model's: {', '.join(found)} against {', '.join(wanted)}. "
                "Pass --keypoints if only the names differ."
            )
        of_model = "the model's" if len(both) == len(wanted) else f"{len(both)} of the model's {len(wanted)}"
        watch.say(f"{file}: scored on {of_model} keypoints, {len(both)} of its {len(found)}, found by name.")
        instances = brought_to(instances, model.skeleton, places)
    instances = instances.take(np.flatnonzero(instances.labelled))
    if not len(instances):
        raise InputError(f"{file}: no instance has a label of one of the model's keypoints.")
    reading = read_out(model, instances, lambda done, total: watch.progress("images", done, total, "predicting"))
    for image, reason in reading.unreadable.items():
        raise InputError(f"{image}: cannot be read as an image ({reason}). Remove it from {file} or replace the file.")
    return reading.labels, reading.pool, instances


def _on_own_split(model: Model, run: Path, watch: Watch) -> tuple[PseudoLabels, Pool, str]:
    config, split = read_config(run), read_split(run)
    if not (config.data.labeled or config.data.source or config.data.protocol) or split is None:
        raise InputError(f"{run}: its data are not in files. Name a labelled one: placl evaluate {run} ann.json.")
    ids, name = (split.test, "test") if split.test else (split.val, "validation")
    if not ids:
        raise InputError(f"{run}: has neither test nor validation instances. Name a labelled file.")
    if not split.test:
        watch.say(f"{run}: has no test split. This is its validation split, by which it may have been chosen.")
    dataset = load_dataset(
        config.data,
        config.view,
        workers=config.execute.workers or available_cores(),
        on_progress=lambda done, total: watch.progress("images", done, total, "cropping"),
    )
    truth = take_ids(dataset.pool, ids)
    with thread_count(config.execute.final_threads):  # to the bit what results.csv has
        predicted = label(
            model.net,
            truth,
            model.config,
            model=model.sha256,
            on_progress=lambda done, total: watch.progress("label", done, total, "predicting"),
        )
    return predicted, truth, name
