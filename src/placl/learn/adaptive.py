"""Adaptive selection: rules that give every class its own threshold or weight, restated for keypoints.

Some keypoints are harder than others, and a threshold that suits an eye leaves out every tail. With c the confidences
of keypoint k, tau the curriculum's threshold, and means over all pseudo-labels of a round (theirs run over batches):

    flex  tau_k = tau b_k / (2 - b_k),  b_k = share of c above tau, over the largest such share   (FlexMatch, 2021)
    free  tau_k = m m_k / max m_k,      m_k = mean of c, m = mean of all                          (FreeMatch, 2023)
    soft  w = exp(-max(m_k - c, 0)^2 / (2 s_k^2)),  s_k = deviation of c                          (SoftMatch, 2023)

``free`` and ``soft`` read no threshold. A keypoint of which nothing is above tau is selected whole by ``flex``, as a
class is there that nothing was learned of; where that is so of all keypoints, nothing is selected here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placl.config import Select
from placl.learn.select import Selection

SMALLEST = 1e-6  # deviation; below it all confidences are the same


def flex_thresholds(threshold: float, shares: np.ndarray) -> np.ndarray:
    """(K,) thresholds from the shares of each keypoint's labels above the common one."""
    learned = shares / shares.max() if shares.max() > 0 else np.ones_like(shares)
    return np.asarray(threshold * learned / (2 - learned))


def free_thresholds(means: np.ndarray) -> np.ndarray:
    """(K,) thresholds from the mean confidence of each keypoint."""
    return np.asarray(means.mean() * means / means.max()) if means.max() > 0 else np.zeros_like(means)


def soft_weights(scores: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """(B, K) weights in [0, 1]: 1 from the mean on, and a Gaussian's flank below it."""
    below = np.maximum(means - scores, 0) / np.maximum(deviations, SMALLEST)
    return np.asarray(np.exp(-0.5 * below**2))


class AdaptiveSelection(Selection):
    """Of the confidences, K means and K deviations are kept, and K thresholds."""

    def __init__(self, confidence: np.ndarray, settings: Select) -> None:
        super().__init__(confidence, settings)
        if self._by_instance:
            raise ValueError(f"select.rule={settings.rule} is for keypoints")
        self._rule = settings.rule
        self._means = self._mean_of(lambda scores: scores)
        self._deviations = np.sqrt(self._mean_of(lambda scores: (scores - self._means) ** 2))
        self._known: tuple[float, np.ndarray] | None = None  # a threshold and what became of it

    def _mean_of(self, value: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """(K,) mean over all instances of a value of their scores."""
        total = np.zeros(self._confidence.shape[1])
        for part in self._parts():
            total += value(self._score(self._confidence[part])).sum(axis=0)
        return total / max(1, len(self._confidence))

    def thresholds(self, threshold: float) -> np.ndarray:
        """(K,) one for each keypoint."""
        if self._rule == "free":
            return free_thresholds(self._means)
        if self._known is None or self._known[0] != threshold:
            shares = self._mean_of(lambda scores: scores > threshold)
            self._known = threshold, flex_thresholds(threshold, shares)
        return self._known[1]

    def chosen(self, index: np.ndarray | slice, threshold: float) -> np.ndarray:
        """(B, K) which keypoints are selected: bool, or weights for ``soft``."""
        scores = self._score(self._confidence[index])
        if self._rule == "soft":
            return soft_weights(scores, self._means, self._deviations)
        return np.asarray(scores > self.thresholds(threshold))

    def members(self, threshold: float) -> np.ndarray:
        found = [part.start + np.flatnonzero(self.chosen(part, threshold).any(axis=1)) for part in self._parts()]
        return np.concatenate([np.zeros(0, np.int64), *found])


def selection_of(confidence: np.ndarray, settings: Select) -> Selection:
    """The selection that a rule stands for."""
    return (Selection if settings.rule == "threshold" else AdaptiveSelection)(confidence, settings)
