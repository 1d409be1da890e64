"""What to label next: instances that the networks of a run are unsure of and disagree about, and that differ.

No label is looked at that the run has not been given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np

from placl.api import draw_roles
from placl.config import Config
from placl.data.instances import Instances
from placl.data.load import Dataset, load_dataset, read_instances
from placl.data.pool import Pool
from placl.data.splits import make_problem
from placl.errors import InputError
from placl.execute.executor import available_cores
from placl.learn.device import pick_device
from placl.learn.label import label
from placl.learn.network import network_with
from placl.learn.pseudo_labels import PseudoLabels
from placl.methods.method import method_of
from placl.models.weights import read_state
from placl.models.zoo import KeypointNet
from placl.run.folder import read_config, read_split

ASKED = 3  # networks, the last ones: with cross-training, they were trained on either half, or on both
SHORTLIST = 5  # times as many as are wanted, of which those that differ most are taken
THUMBNAIL = 8  # pixels a side: enough to tell pictures apart, too few to tell animals apart

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Suggestion:
    """An instance, most useful first."""

    id: str  # as the run's split.json has it: file name, '#', annotation
    score: float  # in [0, 1]: the mean of its ranks in doubt and disagreement
    confidence: float  # mean over keypoints, of the last network
    disagreement: float  # mean distance between what two of the last networks say, in fields of view
    image: Path | None = None  # its file; None: the data were handed in, not read
    box: tuple[float, float, float, float] | None = None  # xywh in the image; None: all of it


@dataclass(frozen=True)
class Opinions:
    """What the last networks of a run say of its unlabelled instances."""

    pool: Pool  # without labels
    each: tuple[PseudoLabels, ...]  # of each network, the last one last
    config: Config

    @property
    def confidence(self) -> np.ndarray:
        """(N,) mean over keypoints, of the last network."""
        return np.asarray(self.each[-1].confidence.mean(axis=1))

    @property
    def disagreement(self) -> np.ndarray:
        """(N,) distance between what two networks say, in fields of view: mean over keypoints and pairs."""
        pairs = [np.linalg.norm(a.keypoints - b.keypoints, axis=2).mean(axis=1) for a, b in combinations(self.each, 2)]
        return np.mean(pairs, axis=0) / self.pool.view if pairs else np.zeros(len(self.pool))


def suggest(
    run: Path, count: int, dataset: Dataset | None = None, on_progress: OnProgress | None = None
) -> list[Suggestion]:
    """The ``count`` unlabelled instances of a run whose labels should help most."""
    opinions = opinions_of(run, dataset, on_progress)
    chosen = ranked(opinions, count)
    return chosen if dataset is not None else _located(chosen, read_instances(opinions.config.data)[0])


def _located(chosen: list[Suggestion], instances: Instances) -> list[Suggestion]:
    """With the image and the box of each: of two folders, file names alone do not tell."""
    row_of = {id_: row for row, id_ in enumerate(instances.ids)}
    found = []
    for one in chosen:
        row = row_of[one.id]
        x, y, width, height = instances.boxes[row].tolist()
        box = None if np.isnan([x, y, width, height]).any() else (x, y, width, height)
        found.append(replace(one, image=instances.images[instances.image_index[row]], box=box))
    return found


def opinions_of(run: Path, dataset: Dataset | None = None, on_progress: OnProgress | None = None) -> Opinions:
    """Ask the last networks of a run, which may still be going on."""
    config = read_config(run)
    configs = method_of(config).stages(config)
    there = [name for name in configs if (run / name / "model.safetensors").is_file()]
    if not there:
        raise InputError(f"{run}: has no finished network yet. Run the training's command to carry on.")
    if dataset is None:
        dataset = load_dataset(config.data, config.view, workers=config.execute.workers or available_cores())
    split = read_split(run) or draw_roles(dataset, config)
    pool = make_problem(dataset.pool, split, needs_val=False).unlabelled
    if not len(pool):
        raise InputError(f"{run}: has no unlabelled instances to choose from. Add images with --unlabeled.")
    asked = there[-ASKED:]
    found: list[PseudoLabels] = []
    for number, name in enumerate(asked):
        net = _network(run / name / "model.safetensors", configs[name], len(pool.skeleton))
        done = number * len(pool)

        def progress(some: int, _: int, before: int = done) -> None:
            if on_progress:
                on_progress(before + some, len(asked) * len(pool))

        found.append(label(net, pool, configs[name], on_progress=progress))
    return Opinions(pool, tuple(found), config)


def _network(weights: Path, config: Config, keypoints: int) -> KeypointNet:
    try:
        return network_with(config, keypoints, read_state(weights), pick_device(config.execute.device))
    except RuntimeError as error:
        raise InputError(f"{weights}: does not fit the run's network; another version wrote it. Train anew.") from error


def ranked(opinions: Opinions, count: int, besides: Collection[str] = ()) -> list[Suggestion]:
    """The ``count`` instances whose labels should help most, of those that are not in ``besides``."""
    pool = opinions.pool
    free = np.flatnonzero([id_ not in besides for id_ in pool.ids])
    if not len(free):
        return []
    confidence, disagreement = opinions.confidence[free], opinions.disagreement[free]
    score = ranks(-confidence)
    if len(opinions.each) > 1:
        score = (score + ranks(disagreement)) / 2
    chosen = choose(score, thumbnails(pool.take(free)), min(count, len(free)))
    return [
        Suggestion(pool.ids[free[i]], float(score[i]), float(confidence[i]), float(disagreement[i]))
        for i in chosen.tolist()
    ]


def ranks(values: np.ndarray) -> np.ndarray:
    """(N,) places in [0, 1], the largest last; equal values share one."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[inverse.reshape(-1)] / max(1, len(values) - 1))


def choose(score: np.ndarray, features: np.ndarray, count: int) -> np.ndarray:
    """``count`` of the best-scored, each as unlike those before it as there is one; then in the order of their scores.

    Ten frames of one moment would teach what one of them does.
    """
    best = np.argsort(-score, kind="stable")[: SHORTLIST * count]
    points = features[best].astype(np.float64)
    taken = [0]
    distance = np.linalg.norm(points - points[0], axis=1)
    while len(taken) < min(count, len(best)):
        distance[taken] = -1
        taken.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.linalg.norm(points - points[taken[-1]], axis=1))
    chosen = best[np.array(taken)]
    return np.asarray(chosen[np.argsort(-score[chosen], kind="stable")])


def thumbnails(pool: Pool) -> np.ndarray:
    """(N, 3 * THUMBNAIL^2) float32: each crop, very small."""
    small = np.zeros((len(pool), 3 * THUMBNAIL**2), np.float32)
    for i in range(len(pool)):
        crop = pool.images(np.array([i]))[0]
        small[i] = cv2.resize(crop, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA).ravel()
    return small
