"""Mean Teacher (Tarvainen and Valpola 2017) for heatmaps: the teacher is the mean of the networks its student has been.

    L = L_labelled + l(f(C T_h x), stop(T f'(T_e x))),   theta' <- a theta' + (1 - a) theta after every step

T_e, T_h, T, C and l are those of PoseDual. What is kept is the teacher f', which is what they evaluate. Left open, or
chosen otherwise:

- a = min(1 - 10 / (t + 10), 0.999): a mean over the last tenth of the steps. Their warm start, 1 - 1 / (t + 1), is the
  mean of all weights since the first in trainings of less than a thousand steps (34.8 PCK for 45.3, one seed).
- Weights are averaged, statistics of BatchNorm are not: they would be those of other weights. The teacher reads easy
  views by the statistics of the batch, as its student does, and so keeps running ones of its own.
- Consistency is not ramped up: an unsure teacher is silent (see PoseCons).
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.learn.losses import answer
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.posecons import lesson, outputs_of, teach, without_joints
from placl.models.zoo import KeypointNet

MOMENTUM = 0.999
TENTH = 10  # of the steps so far is what the mean is over, until it is over a thousand


def momentum_at(step: int) -> float:
    """0 at the first step: a copy of the student."""
    return min(1 - TENTH / (step + TENTH), MOMENTUM)


class MeanTeacher(Term):
    """``net`` is the student f. The teacher is a part of the term without gradients, which optimisers pass over."""

    steps: Tensor

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        self.teacher = deepcopy(net).requires_grad_(False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))  # of the student, so far

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        hard = seen.others[0]
        with torch.no_grad():
            heatmaps = answer(self.config.train.loss, outputs_of(self, self.teacher, seen.first))
        given = lesson(self, heatmaps, seen, hard)
        return teach(self, net, without_joints(hard, given), given)

    @torch.no_grad()
    def after_step(self, net: KeypointNet) -> None:
        momentum = momentum_at(int(self.steps))
        self.steps += 1
        for mean, now in zip(self.teacher.parameters(), net.parameters(), strict=True):
            mean.lerp_(now, 1 - momentum)

    def result(self, net: KeypointNet) -> KeypointNet:
        return self.teacher


METHOD = consistent(MeanTeacher)
