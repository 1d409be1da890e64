"""The evaluation metric xi: predictions of a pool against its labels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from placl.config import Reward
from placl.data.pool import Pool
from placl.errors import InputError
from placl.learn.pseudo_labels import PseudoLabels
from placl.metrics import PCK, oks_map, pck, pck_auc, pckh


@dataclass(frozen=True)
class Score:
    """How well keypoints were found."""

    value: float  # the chosen metric, in percent
    metric: str  # e.g. "PCK@0.1"
    per_keypoint: dict[str, float | None]  # PCK (or PCKh) by name; None where no instance shows the keypoint
    mean_error: float  # mean distance over the length that PCK divides by
    instances: int
    keypoints: int  # labelled keypoints that were counted
    pck: float | None = None  # over all keypoints (or PCKh), beside a metric that is another; runs of old have none

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def metric_name(settings: Reward) -> str:
    at = f"@{settings.alpha:g}"
    return {"pck": f"PCK{at}", "pck_auc": "PCK AUC", "pckh": f"PCKh{at}", "oks": "OKS mAP"}[settings.metric]


def score(predicted: PseudoLabels, truth: Pool, settings: Reward) -> Score:
    arguments = predicted.keypoints, truth.keypoints, truth.visibility, truth.length
    result = pck(*arguments, alpha=settings.alpha)
    value = result.overall
    if settings.metric == "pck_auc":
        value = pck_auc(*arguments)
    elif settings.metric == "pckh":
        result = _by_head(predicted, truth, settings.alpha)
        value = result.overall
    elif settings.metric == "oks":
        value = oks_map(
            truth.in_image(predicted.keypoints),
            predicted.confidence.mean(axis=1),
            truth.in_image(truth.keypoints),
            truth.visibility,
            truth.area,
            truth.skeleton.sigmas,
            image_ids=truth.image,
        ).ap
    counted = truth.visibility > 0
    distance = np.linalg.norm(predicted.keypoints - truth.keypoints, axis=2) / truth.length[:, None]
    return Score(
        value=float(value),
        metric=metric_name(settings),
        per_keypoint={
            name: None if np.isnan(share) else float(share)
            for name, share in zip(truth.skeleton.keypoints, result.per_keypoint, strict=True)
        },
        mean_error=float(distance[counted].mean()) if counted.any() else float("nan"),
        instances=len(truth),
        keypoints=int(counted.sum()),
        pck=None if np.isnan(result.overall) else float(result.overall),
    )


def _by_head(predicted: PseudoLabels, truth: Pool, alpha: float) -> PCK:
    """As MPII: its pelvis and thorax do not count."""
    if truth.head is None or np.isnan(truth.head[truth.labelled]).any():
        raise InputError("pckh: the data have no head sizes. Use the metric pck.")
    exclude = [name for name in ("pelvis", "thorax") if name in truth.skeleton.keypoints]
    head = np.where(np.isnan(truth.head), 1, truth.head)  # of instances without a label, which do not count
    return pckh(predicted.keypoints, truth.keypoints, truth.visibility, head, exclude, alpha, skeleton=truth.skeleton)
