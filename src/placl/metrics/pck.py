"""PCK: the percentage of keypoints that lie within a fraction of a length (box side, head, torso) of the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from placl.data.pool import UNLABELLED, VISIBLE
from placl.data.skeleton import Skeleton
from placl.errors import InputError

Count = Literal["labelled", "visible"]

MPII_EXCLUDED = (6, 7)  # pelvis and thorax: MPII's own evaluation leaves them out
MPII_HEAD = 0.6  # of the head box's diagonal, MPII's SC_BIAS
AUC_ALPHAS = tuple(i / 100 for i in range(1, 21))


@dataclass(frozen=True, eq=False)
class PCK:
    """Percentages in [0, 100]; NaN where nothing was counted."""

    overall: float  # correct / counted over all keypoints of all instances (micro average)
    per_keypoint: np.ndarray  # (K,) float64, NaN for a keypoint that never counts
    counted: np.ndarray  # (K,) int64
    mean_keypoint: float  # mean over the keypoints that occur (macro average)


def pck(
    predicted: np.ndarray,
    truth: np.ndarray,
    visibility: np.ndarray,
    length: np.ndarray,
    alpha: float = 0.1,
    count: Count = "labelled",
) -> PCK:
    """PCK@alpha of predicted and true keypoints (N, K, 2), visibility (N, K) and length (N,).

    A keypoint is correct when its distance is at most ``alpha * length``. ``labelled`` counts visibility 1 and 2,
    ``visible`` only 2. A prediction that is not finite is wrong.
    """
    counts = _counts(visibility, count)  # (N, K) bool
    shapes = (predicted.shape, truth.shape, length.shape)
    if shapes != ((*counts.shape, 2), (*counts.shape, 2), counts.shape[:1]):
        raise ValueError(f"pck: predicted, truth and length are {shapes}, visibility is {counts.shape}")
    difference = np.where(np.isfinite(predicted), predicted, np.nan) - np.where(counts[..., None], truth, 0.0)
    distance = np.hypot(difference[..., 0], difference[..., 1])  # (N, K); NaN compares false below
    correct = counts & (distance <= alpha * np.asarray(length, np.float64)[:, None])
    counted = counts.sum(axis=0)
    per_keypoint = np.full(len(counted), np.nan)
    np.divide(100.0 * correct.sum(axis=0), counted, out=per_keypoint, where=counted > 0)
    if not counted.any():
        return PCK(np.nan, per_keypoint, counted, np.nan)
    overall = 100.0 * float(correct.sum()) / float(counted.sum())
    return PCK(overall, per_keypoint, counted, float(np.nanmean(per_keypoint)))


def pckh(
    predicted: np.ndarray,
    truth: np.ndarray,
    visibility: np.ndarray,
    head_length: np.ndarray,
    exclude: Sequence[int | str] = MPII_EXCLUDED,
    alpha: float = 0.5,
    skeleton: Skeleton | None = None,
) -> PCK:
    """PCKh@alpha as MPII evaluates it: PCK on the head's length (N,) without the ``exclude``d keypoints.

    ``exclude`` holds indices, or names of ``skeleton``. MPII's mean, weighted by how often each joint is visible, is
    ``overall``.
    """
    visibility = np.array(visibility)
    visibility[:, _indices(exclude, visibility.shape[1], skeleton)] = UNLABELLED
    return pck(predicted, truth, visibility, head_length, alpha)


def head_length(head_boxes: np.ndarray) -> np.ndarray:
    """Head boxes (N, 4) as x1, y1, x2, y2 -> (N,) 0.6 times their diagonal."""
    boxes = np.asarray(head_boxes, np.float64)
    return np.asarray(MPII_HEAD * np.hypot(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]))


def pck_auc(
    predicted: np.ndarray,
    truth: np.ndarray,
    visibility: np.ndarray,
    length: np.ndarray,
    alphas: Sequence[float] = AUC_ALPHAS,
    count: Count = "labelled",
) -> float:
    """The mean of PCK over ``alphas``: it moves with every prediction, not only with those that cross one border."""
    return float(np.mean([pck(predicted, truth, visibility, length, alpha, count).overall for alpha in alphas]))


def _counts(visibility: np.ndarray, count: Count) -> np.ndarray:
    """(N, K) bool: which keypoints are evaluated."""
    if count == "labelled":
        return np.asarray(visibility > UNLABELLED)
    if count == "visible":
        return np.asarray(visibility == VISIBLE)
    raise ValueError(f"count is labelled or visible, got {count!r}")


def _indices(keypoints: Sequence[int | str], k: int, skeleton: Skeleton | None) -> list[int]:
    """Indices of keypoints given as indices or names."""
    names = skeleton.keypoints if skeleton is not None else ()
    indices = []
    for keypoint in keypoints:
        if isinstance(keypoint, str) and keypoint not in names:
            raise InputError(
                f'exclude: there is no keypoint "{keypoint}"; choose from {", ".join(names) or "indices"}.'
            )
        index = names.index(keypoint) if isinstance(keypoint, str) else keypoint
        if not 0 <= index < k:
            raise InputError(f"exclude: keypoint {index} is not one of 0 to {k - 1}; name the keypoints to leave out.")
        indices.append(index)
    return indices
