"""What a run notes for its report as it goes: some unlabelled instances and what every network says of them, how sure
networks are of how much, and how often they are right.

Everything is small and in files of its own, so that a report can be made from any run folder, whole or half.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from placl.config import Config, Select
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.files import write_atomic
from placl.learn.label import label
from placl.learn.pseudo_labels import PseudoLabels
from placl.models.zoo import KeypointNet

INSTANCES = 24  # of each half
QUANTILES = 200
ENOUGH = 20_000  # instances, of a million
BINS = 10
QUALITY = 85  # of the pictures


def keep_gallery(folder: Path, problem: Problem) -> None:
    """Pictures of the instances to look at: the first of each half, which are in random order already."""
    halves = [half.take(np.arange(min(INSTANCES, len(half)))) for half in problem.halves]
    number = 0
    for half in halves:
        for crop in half.images(np.arange(len(half))):
            coded = cv2.imencode(".jpg", crop[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
            _keep(folder / f"{number:03}.jpg", coded.tobytes())
            number += 1
    skeleton = problem.labelled.skeleton
    told = {
        "ids": [name for half in halves for name in half.ids],
        "halves": [number for number, half in enumerate(halves, start=1) for _ in half.ids],
        "size": problem.labelled.crop_size,
        "view": problem.labelled.view,
        "keypoints": list(skeleton.keypoints),
        "edges": [list(edge) for edge in skeleton.edges],
        "flip_pairs": [list(pair) for pair in skeleton.flip_pairs],
    }
    _keep(folder / "instances.json", (json.dumps(told) + "\n").encode())


def _keep(file: Path, content: bytes) -> None:
    """Written unless it is there: a run that carries on need not wait for the disk."""
    if not file.exists() or file.read_bytes() != content:
        write_atomic(file, content)


def keep_opinion(file: Path, net: KeypointNet, problem: Problem, config: Config) -> None:
    """What a stage's network says of the gallery's instances, in pixels of their pictures."""
    places, sure = [], []
    for half in problem.halves:
        some = half.take(np.arange(min(INSTANCES, len(half))))
        if len(some):
            found = label(net, some, config, all_views=True)
            places += np.round(found.keypoints.astype(float), 2).tolist()
            sure += [_rounded(row) for row in found.confidence]
    write_atomic(file, json.dumps({"keypoints": places, "confidence": sure}) + "\n")


def confidence_summary(pseudo: PseudoLabels, pool: Pool, settings: Select) -> dict[str, Any]:
    """How the scores that thresholds are read on are spread, and how widely keypoints lie over instances."""
    told: dict[str, Any] = {"level": settings.level, "scale": settings.scale, "quantiles": [], "spread": None}
    if not len(pool):
        return told
    some = slice(None, None, -(-len(pool) // ENOUGH))
    sure = np.asarray(pseudo.confidence[some], np.float64)
    quantiles = np.quantile(
        sure.mean(axis=1) if settings.level == "instance" else sure, np.linspace(0, 1, QUANTILES + 1)
    )
    spread = np.asarray(pseudo.keypoints[some], np.float64).std(axis=0).mean() / pool.view
    return told | {"quantiles": _rounded(quantiles), "spread": round(float(spread), 5)}


def _rounded(values: np.ndarray) -> list[float]:
    """To five digits: networks that have just begun to learn are sure to a ten-thousandth."""
    return [float(f"{value:.5g}") for value in values]


def reliability(predicted: PseudoLabels, truth: Pool, alpha: float) -> dict[str, Any]:
    """Confidence against real error on labels that the network has not seen: in ``BINS`` of as many keypoints each."""
    counted = truth.visibility > 0
    distance = np.linalg.norm(predicted.keypoints - truth.keypoints, axis=2) / truth.length[:, None]
    sure, error = predicted.confidence[counted], distance[counted]
    order = np.argsort(sure, kind="stable")
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    return {
        "alpha": alpha,
        "bins": [
            {
                "confidence": round(float(sure[part].mean()), 4),
                "right": round(float((error[part] <= alpha).mean()), 4),
                "error": round(float(error[part].mean()), 4),
                "count": len(part),
            }
            for part in bins
        ],
    }
