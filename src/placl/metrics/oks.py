"""Object keypoint similarity (OKS) and its average precision, as COCO defines them; pycocotools does the matching."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

FAR = 1e12  # pixels; where a prediction that is not finite goes, so that its OKS is 0 and not NaN


@dataclass(frozen=True, eq=False)
class OKSResult:
    """Percentages in [0, 100], NaN if no instance is labelled. ``oks`` is the raw similarity in [0, 1]."""

    ap: float  # mean over OKS thresholds 0.50, 0.55, ... 0.95
    ap50: float
    ap75: float
    ar: float
    oks: np.ndarray  # (N,) of each prediction with its own instance, NaN where nothing is labelled


def oks(
    predicted: np.ndarray, truth: np.ndarray, visibility: np.ndarray, area: np.ndarray, sigmas: Sequence[float]
) -> np.ndarray:
    """(N,) OKS of keypoints (N, K, 2) in image pixels, visibility (N, K) and object area (N,).

    The mean over labelled keypoints of exp(-d^2 / (2 area (2 sigma)^2)); NaN for an instance without any.
    """
    labelled = np.asarray(visibility) > 0  # (N, K)
    _check(predicted, truth, labelled, area, sigmas)
    difference = _finite(predicted) - np.where(labelled[..., None], truth, 0.0)  # (N, K, 2)
    variance = (2.0 * np.asarray(sigmas, np.float64)) ** 2  # (K,)
    scale = np.asarray(area, np.float64)[:, None] + np.spacing(1)  # COCO's guard against an area of 0
    similarity = np.exp(-(difference**2).sum(axis=-1) / variance / scale / 2)  # (N, K)
    counted = labelled.sum(axis=1)
    result = np.full(len(labelled), np.nan)
    np.divide(np.where(labelled, similarity, 0.0).sum(axis=1), counted, out=result, where=counted > 0)
    return result


def oks_map(
    predicted: np.ndarray,
    scores: np.ndarray,
    truth: np.ndarray,
    visibility: np.ndarray,
    area: np.ndarray,
    sigmas: Sequence[float],
    image_ids: Sequence[object] | np.ndarray | None = None,
    boxes: np.ndarray | None = None,
) -> OKSResult:
    """COCO's keypoint AP and AR of one prediction (N, K, 2) with a score (N,) per true instance, in image pixels.

    ``image_ids`` (N,) says which instances share an image, so that predictions compete for them; without it each has
    its own. An instance without a labelled keypoint is ignored, its prediction too; if ``boxes`` (N, 4) as x1, y1,
    x2, y2 are given, other predictions that wander onto it are not counted either, as in COCO.
    """
    labelled = np.asarray(visibility) > 0
    similarity = oks(predicted, truth, visibility, area, sigmas)
    counts = labelled.any(axis=1)
    if not counts.any():
        return OKSResult(np.nan, np.nan, np.nan, np.nan, similarity)
    n = len(labelled)
    _, image = np.unique(np.arange(n) if image_ids is None else np.asarray(image_ids), return_inverse=True)
    truth = np.where(labelled[..., None], truth, 0.0)
    frames = _extents(truth, labelled) if boxes is None else np.asarray(boxes, np.float64)
    kept = counts if boxes is None else np.ones(n, bool)
    true = [_annotation(i, image[i], truth[i], labelled[i], area[i], frames[i]) for i in np.flatnonzero(kept).tolist()]
    points, ranks = _finite(predicted), np.nan_to_num(np.asarray(scores, np.float64), nan=-np.inf)
    found = [
        _annotation(i, image[i], points[i], labelled[i], area[i], frames[i]) | {"score": float(ranks[i])}
        for i in np.flatnonzero(counts).tolist()
    ]
    precision, recall = _evaluate(true, found, sigmas)
    percent = 100.0 * precision.mean(axis=1)  # (10,) one per OKS threshold
    return OKSResult(
        float(percent.mean()), float(percent[0]), float(percent[5]), 100.0 * float(recall.mean()), similarity
    )


def _evaluate(
    true: list[dict[str, Any]], found: list[dict[str, Any]], sigmas: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """COCOeval's precision (10 thresholds, 101 recalls) and recall (10 thresholds) for objects of any area."""
    images = [{"id": i} for i in sorted({annotation["image_id"] for annotation in true})]
    with contextlib.redirect_stdout(io.StringIO()):
        pair = []
        for annotations in (true, found):
            coco = COCO()
            coco.dataset = {"images": images, "categories": [{"id": 1}], "annotations": annotations}
            coco.createIndex()
            pair.append(coco)
        evaluation = COCOeval(*pair, iouType="keypoints")
        evaluation.params.kpt_oks_sigmas = np.asarray(sigmas, np.float64)
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, np.inf]], ["all"]
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.eval["precision"][:, :, 0, 0, 0], evaluation.eval["recall"][:, 0, 0, 0]


def _annotation(
    index: int, image: int, points: np.ndarray, labelled: np.ndarray, area: float, frame: np.ndarray
) -> dict[str, Any]:
    """One instance in COCO's words."""
    x1, y1, x2, y2 = frame.tolist()
    return {
        "id": index + 1,  # COCOeval takes a match with id 0 for no match
        "image_id": int(image),
        "category_id": 1,
        "keypoints": np.column_stack([points, labelled]).ravel().tolist(),
        "num_keypoints": int(labelled.sum()),
        "area": float(area),
        "bbox": [x1, y1, x2 - x1, y2 - y1],
        "iscrowd": 0,
    }


def _extents(points: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """(N, 4) x1, y1, x2, y2 around the labelled keypoints."""
    low = np.where(labelled[..., None], points, np.inf).min(axis=1)
    high = np.where(labelled[..., None], points, -np.inf).max(axis=1)
    return np.concatenate([low, high], axis=1)


def _finite(points: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.asarray(points, np.float64), nan=FAR, posinf=FAR, neginf=-FAR)


def _check(
    predicted: np.ndarray, truth: np.ndarray, labelled: np.ndarray, area: np.ndarray, sigmas: Sequence[float]
) -> None:
    n, k = labelled.shape
    shapes = (predicted.shape, truth.shape, area.shape, len(sigmas))
    if shapes != ((n, k, 2), (n, k, 2), (n,), k):
        raise ValueError(f"oks: predicted, truth, area and sigmas are {shapes}, visibility is {labelled.shape}")
    if not (np.isfinite(area) & (area >= 0))[labelled.any(axis=1)].all():
        raise ValueError("oks: the area of a labelled instance is negative or not finite")
