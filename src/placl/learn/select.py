"""Selection (Eq. 1): from pseudo-labels and a threshold to the ones that enter the training set."""

from __future__ import annotations

import numpy as np

from placl.config import Select


def scores(confidence: np.ndarray, settings: Select) -> np.ndarray:
    """(N, K) confidence -> (N, K) numbers in [0, 1] that thresholds are read on.

    At instance level every keypoint carries its instance's mean, so that an instance is in or out as a whole. On the
    quantile scale a score is the share of scores below it: a threshold of 0.3 then drops 30 %, whatever the
    confidences are. Ties share a rank.
    """
    values = np.asarray(confidence, dtype=np.float64)
    if settings.level == "instance":
        values = values.mean(axis=1, keepdims=True)
    if settings.scale == "quantile" and values.size:
        ordered = np.sort(values, axis=None)
        below = np.searchsorted(ordered, values, side="left")
        equal = np.searchsorted(ordered, values, side="right") - below
        values = (below + 0.5 * equal) / values.size
    return np.broadcast_to(values, confidence.shape)


def selected(score: np.ndarray, threshold: float) -> np.ndarray:
    """g (Eq. 1), per keypoint: (N, K) bool. Strictly above, as the paper has it."""
    return score > threshold
