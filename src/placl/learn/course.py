"""The batches of one training, in order: what Algorithm 1 shows to the network, and when.

Every random number comes from the seed. Batch order and augmentation do not depend on what is selected more than they
must, so that candidates with one seed differ by their curricula. Nothing here is as large as the pool but an index:
crops and pseudo-labels are read where they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.augment import augmented, draw
from placl.data.pool import Pool
from placl.learn.adaptive import selection_of
from placl.learn.label import make_codec
from placl.learn.pseudo_labels import PseudoLabels

RESIDENT_SHARE = 0.5  # of a GPU's free memory that crops may take


@dataclass(frozen=True)
class TrainingSet:
    """D_l and, from round 1 on, the images of D_u with their pseudo-labels."""

    labelled: Pool
    unlabelled: Pool | None = None
    pseudo: PseudoLabels | None = None
    start: bytes | None = field(default=None, repr=False)  # of weights_bytes: a network to go on from, not a fresh one

    def __post_init__(self) -> None:
        if self.unlabelled is not None and self.unlabelled.crops is not self.labelled.crops:
            raise ValueError("labelled and unlabelled instances must share their crops")


@dataclass(frozen=True)
class Batch:
    images: Tensor  # (B, 3, S, S), channels last
    targets: Tensor  # (B, K, H, W)
    weights: Tensor  # (B, K)
    total: Tensor  # the sum of the weights of all ranks
    size: int  # images of all ranks
    rate: float  # of learning


class Course:
    """Batches epoch by epoch: :meth:`begin` one, then ask for its :meth:`batch` es.

    ``rank`` of ``ranks`` processes gets every ``ranks``-th image of each batch. All of them draw the same numbers.
    """

    def __init__(
        self,
        config: Config,
        data: TrainingSet,
        curriculum: Curriculum,
        seed: int,
        device: torch.device,
        stride: int,
        *,
        rank: int = 0,
        ranks: int = 1,
        crops: Crops | None = None,
    ) -> None:
        self._config, self._data, self._curriculum, self._seed, self._device = config, data, curriculum, seed, device
        self._mine = slice(rank, None, ranks)
        self._codec = make_codec(config, stride)
        self.crops = crops or Crops(data, device)  # courses on the same data can share them
        self._known = len(data.labelled)
        hidden = data.unlabelled if data.pseudo is not None else None
        self._everyone = self._known + (len(hidden) if hidden is not None else 0)
        self._selection = selection_of(data.pseudo.confidence, config.select) if data.pseudo is not None else None
        self._flip_order = torch.from_numpy(data.labelled.skeleton.flip_order)
        self.generator = torch.Generator().manual_seed(seed)
        self._group = -1
        self._members = np.arange(self._known)
        self._stream: Iterator[np.ndarray] = iter(())
        self._epoch = self._steps = 0
        self.selected: list[float] = []  # share of the pseudo-labels selected, per group

    @property
    def threshold(self) -> float:
        return self._curriculum.thresholds[self._group]

    def begin(self, epoch: int) -> int:
        """The number of batches in an epoch, which may begin another group of epochs."""
        settings = self._config.train
        group = self._curriculum.group(epoch, settings.epochs)
        if group != self._group:
            self._group = group
            chosen = np.zeros(0, np.int64) if self._selection is None else self._selection.members(self.threshold)
            self._members = np.concatenate([np.arange(self._known), self._known + chosen])  # D_train, Eq. 2
            self.selected.append(0.0 if self._selection is None else self._selection.share(self.threshold))
            self._stream = batches(
                self._members, self._known, self._everyone, settings.batch, settings.labelled_share, [self._seed, group]
            )
        self._epoch = epoch
        self._steps = settings.steps_per_epoch if settings.epoch == "steps" else len(self._members) // settings.batch
        self._steps = max(1, self._steps)
        return self._steps

    def skip_to(self, epoch: int, step: int) -> None:
        """Go on from this step of an epoch; what ``generator`` would have drawn before is not drawn."""
        taken, group = 0, -1  # batches, of a group's stream
        for before in range(epoch + 1):
            steps = self.begin(before)
            taken = 0 if self._group != group else taken
            group = self._group
            taken += steps if before < epoch else step
        for _ in range(taken):
            next(self._stream)

    def batch(self, step: int) -> Batch:
        index = next(self._stream)
        config, labelled = self._config, self._data.labelled
        keypoints, weights = self._labels(index)
        drawn = draw(len(index), config.augment, labelled.view, config.model.input_size, self.generator)
        images, places, weight = augmented(
            self.crops(index[self._mine]),
            torch.from_numpy(keypoints),
            torch.from_numpy(weights),
            drawn,
            settings=config.augment,
            size=config.model.input_size,
            flip_order=self._flip_order,
            rows=self._mine,
        )
        weight = self._codec.inside(places, weight)
        targets = self._codec.encode(places[self._mine].to(self._device), weight[self._mine].to(self._device))
        rate = learning_rate(config, self._epoch + step / self._steps)
        return Batch(images, *targets, weight.sum().to(self._device), len(index), rate)

    def _labels(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B, K, 2) keypoints and (B, K) weights: labels, or pseudo-labels as far as they are selected."""
        known = index < self._known
        first, rest = index[known], index[~known] - self._known
        labelled, pseudo = self._data.labelled, self._data.pseudo
        keypoints = np.zeros((len(index), len(labelled.skeleton), 2), np.float32)
        weights = np.zeros(keypoints.shape[:2], np.float32)
        keypoints[known], weights[known] = labelled.keypoints[first], labelled.visibility[first] > 0
        if len(rest) and pseudo is not None and self._selection is not None:
            keypoints[~known], weights[~known] = pseudo.keypoints[rest], self._selection.chosen(rest, self.threshold)
        return keypoints, weights


class Crops:
    """The crops of a training set on its device: all of them, where a GPU has the room, else batch by batch."""

    def __init__(self, data: TrainingSet, device: torch.device, resident: bool | None = None) -> None:
        self._device = device
        self._crops = np.asarray(data.labelled.crops)  # no subclass: a memory map's slices are slow to make
        self._rows = np.concatenate([pool.rows for pool in (data.labelled, data.unlabelled) if pool is not None])
        needed = len(self._rows) * self._crops[0].nbytes if len(self._crops) else 0
        self._resident: Tensor | None = None
        if resident if resident is not None else needed < room_on(device):
            self._resident = torch.from_numpy(self._crops[self._rows]).to(device)

    def __call__(self, index: np.ndarray) -> Tensor:
        """(B, S, S, 3) uint8"""
        if self._resident is not None:
            return self._resident[torch.from_numpy(index).to(self._device, non_blocking=True)]
        images = torch.from_numpy(self._crops[self._rows[index]])
        return images.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else images


def room_on(device: torch.device) -> float:
    """Bytes that crops may take on a device. In this machine's memory they are mapped, and take none."""
    return RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0


def batches(
    members: np.ndarray, known: int, everyone: int, batch: int, share: float | None, seed: list[int]
) -> Iterator[np.ndarray]:
    """Index batches for ever, in passes. The order is that of a shuffle of all instances, members or not."""
    if share is None or len(members) == known:
        yield from _passes(members, everyone, batch, [*seed, 0])
    of_labelled = min(batch - 1, max(1, round(share * batch))) if share is not None else batch
    labelled = _passes(members[:known], everyone, of_labelled, [*seed, 0])
    pseudo = _passes(members[known:], everyone, batch - of_labelled, [*seed, 1])
    while True:
        yield np.concatenate([next(labelled), next(pseudo)])


def _passes(members: np.ndarray, everyone: int, batch: int, seed: list[int]) -> Iterator[np.ndarray]:
    if not len(members):
        raise ValueError("there is nothing to make batches of")
    is_member = np.zeros(everyone, bool)
    is_member[members] = True
    left = np.zeros(0, np.int64)
    number = 0
    while True:
        while len(left) < batch:
            order = np.random.default_rng([*seed, number]).permutation(everyone)
            left = np.concatenate([left, order[is_member[order]]])
            number += 1
        yield left[:batch]
        left = left[batch:]


def learning_rate(config: Config, epoch: float) -> float:
    """The rate at a (fractional) epoch, from 0."""
    settings = config.train
    place = epoch / settings.epochs
    rate = settings.lr
    if place < settings.warmup:
        return rate * max(place / settings.warmup, 1e-3)
    if settings.schedule == "step":
        return rate * 0.1 ** sum(int(epoch) >= milestone for milestone in settings.milestones)
    return rate * 0.5 * (1 + float(np.cos(np.pi * (place - settings.warmup) / (1 - settings.warmup))))
