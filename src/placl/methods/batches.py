"""Batches of labelled and unlabelled images in several views, for trainings that look at both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from placl.config import Augment, Config
from placl.data.augment import augmented, draw
from placl.learn.course import Crops, TrainingSet, batches
from placl.learn.label import make_codec
from placl.methods.views import View

SHARE = 0.5  # of a batch that is labelled, where `train.labelled_share` says nothing
# The hard view's affine, where the easy one's is not larger (Xie et al. 2021: rotations of 60 degrees where the easy
# view has 30, scales of 0.25).
HARD = {"rotate": 60.0, "rotate_share": 1.0, "scale": 0.25}


def harder(settings: Augment) -> Augment:
    """The augmentation of hard views: that of all views, with a larger affine."""
    return settings.model_copy(update={name: max(value, getattr(settings, name)) for name, value in HARD.items()})


class Batches:
    """Batches of labelled and unlabelled images, in as many views as asked for; every number is the seed's."""

    def __init__(self, config: Config, data: TrainingSet, seed: int, device: torch.device, stride: int) -> None:
        assert data.unlabelled is not None
        self._config, self._data, self._device = config, data, device
        self._known = len(data.labelled)
        everyone = self._known + len(data.unlabelled)
        share = config.train.labelled_share or SHARE
        self._stream: Iterator[np.ndarray] = batches(
            np.arange(everyone), self._known, everyone, config.train.batch, share, [seed, 0]
        )
        self._crops = Crops(data, device)
        self.steps = max(1, everyone // config.train.batch)  # of an epoch: a pass over all images, or as set
        if config.train.epoch == "steps":
            self.steps = config.train.steps_per_epoch
        self.generator = torch.Generator().manual_seed(seed)
        self._codec = make_codec(config, stride)
        self._flip_order = torch.from_numpy(data.labelled.skeleton.flip_order)
        self._hard = harder(config.augment)

    def skip_to(self, epoch: int, step: int) -> None:
        """Go on from this step of an epoch; what ``generator`` would have drawn before is not drawn."""
        for _ in range(epoch * self.steps + step):
            next(self._stream)

    def next(
        self, others: int, labels: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[View, tuple[View, ...], Tensor, Tensor, Tensor]:
        """The first view, the others, (B,) which are labelled, (B, K, 2) keypoints and (B, K) weights.

        ``labels`` are keypoints and weights of the unlabelled images, as :meth:`Term.labels` has them.
        """
        index = next(self._stream)
        known = index < self._known
        labelled = self._data.labelled
        keypoints = np.zeros((len(index), len(labelled.skeleton), 2), np.float32)
        weights = np.zeros(keypoints.shape[:2], np.float32)
        keypoints[known], weights[known] = labelled.keypoints[index[known]], labelled.visibility[index[known]] > 0
        if labels is not None:
            rest = index[~known] - self._known
            keypoints[~known], weights[~known] = labels[0][rest], labels[1][rest]
        crops = self._crops(index)
        first, places, shown = self._view(crops, keypoints, weights, self._config.augment)
        more = tuple(self._view(crops, keypoints, weights, self._hard)[0] for _ in range(others))
        shown = self._codec.inside(places, shown)
        places = torch.where((shown > 0)[..., None], places, 0.0)
        return first, more, torch.from_numpy(known), places, shown

    def _view(
        self, crops: Tensor, keypoints: np.ndarray, weights: np.ndarray, settings: Augment
    ) -> tuple[View, Tensor, Tensor]:
        size = self._config.model.input_size
        drawn = draw(len(crops), settings, self._data.labelled.view, size, self.generator)
        images, places, shown = augmented(
            crops,
            torch.from_numpy(keypoints),
            torch.from_numpy(weights),
            drawn,
            settings=settings,
            size=size,
            flip_order=self._flip_order,
        )
        return View(images, drawn.views.matrix, drawn.views.mirrored), places, shown
