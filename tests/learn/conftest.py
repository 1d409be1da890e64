"""What trainings are tried on."""

from __future__ import annotations

import numpy as np
import pytest

from placl.data.pool import Pool
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels


@pytest.fixture
def data(pool: Pool) -> TrainingSet:
    """16 labelled and 20 pseudo-labelled instances; the first 10 of those are sure of their even keypoints."""
    labelled, hidden = pool.take(np.arange(16)), pool.take(np.arange(16, 36))
    confidence = np.full(hidden.visibility.shape, 0.1, np.float32)
    confidence[:10, ::2] = 0.9
    return TrainingSet(labelled, hidden.without_labels(), PseudoLabels(hidden.keypoints.copy(), confidence, "m"))
