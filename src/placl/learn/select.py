"""Selection (Eq. 1): from pseudo-labels and a threshold to the ones that enter the training set.

Confidences may lie in a file as long as the pool. What is kept of them here is a number an instance at most, but for
keypoints on the quantile scale, whose ranks need them all.
"""

from __future__ import annotations

import numpy as np

from placl.config import Select

AT_ONCE = 1 << 16  # instances


class Selection:
    """g of Eq. 1 for N instances with (N, K) confidence.

    At instance level every keypoint carries its instance's mean, so that an instance is in or out as a whole. On the
    quantile scale a score is the share of scores below it: a threshold of 0.3 then drops 30 %, whatever the
    confidences are. Ties share a rank. Selected is what lies strictly above, as the paper has it.
    """

    def __init__(self, confidence: np.ndarray, settings: Select) -> None:
        self._confidence, self._by_instance = confidence, settings.level == "instance"
        self._ordered: np.ndarray | None = None
        reduce = np.mean if self._by_instance else np.max
        self._best = np.zeros(len(confidence))  # (N,) an instance's mean, or its surest keypoint
        for part in self._parts():
            self._best[part] = reduce(np.asarray(confidence[part], np.float64), axis=1)
        if settings.scale == "quantile":
            self._ordered = np.sort(self._best if self._by_instance else confidence, axis=None)

    def _parts(self) -> list[slice]:
        return [slice(start, start + AT_ONCE) for start in range(0, len(self._confidence), AT_ONCE)]

    def _score(self, values: np.ndarray) -> np.ndarray:
        """Confidences -> numbers in [0, 1] that thresholds are read on."""
        values = np.asarray(values, np.float64)
        if self._ordered is None or not self._ordered.size:
            return values
        below = np.searchsorted(self._ordered, values, side="left")
        equal = np.searchsorted(self._ordered, values, side="right") - below
        return np.asarray((below + 0.5 * equal) / self._ordered.size)

    def members(self, threshold: float) -> np.ndarray:
        """The instances of which something is selected."""
        return np.flatnonzero(self._score(self._best) > threshold)

    def chosen(self, index: np.ndarray | slice, threshold: float) -> np.ndarray:
        """(B, K) bool: which keypoints of some instances are selected."""
        if self._by_instance:
            values = self._score(self._best[index])[:, None]
            return np.broadcast_to(values > threshold, (len(values), self._confidence.shape[1]))
        return self._score(self._confidence[index]) > threshold

    def share(self, threshold: float) -> float:
        """Of all keypoints, those that are selected; of weights, the mean."""
        count = sum(float(self.chosen(part, threshold).sum()) for part in self._parts())
        return count / self._confidence.size if self._confidence.size else 0.0
