"""CycleGAN + PL (Inoue et al. 2018): labelled source images with the target's looks teach what labels the target.

    first:  L = l(f(s), y) + l(f(G s), y) over the source, while G learns to translate (:mod:`placl.methods.cyclegan`)
    then:   L = l(f(x), y) over the source and l(f(x), y~) over the target, y~ of the first network

Left open, or chosen otherwise:

- They train CycleGAN first and a detector on its translations afterwards. Here both are trained side by side:
  translations begin as the images themselves and move towards the target.
- They go on with one network; here the second is trained from scratch, as by PL, so that its budget is that of every
  other method. All pseudo-labels are used, as there.
- CycleGAN learns from a sixteenth of a batch of each domain, a step; theirs has batches of one. Its rate is the
  published 2e-4, which falls as that of the network does.
- It sees augmented views: their borders and colours are those of both domains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.data.skeleton import Skeleton
from placl.lab import Lab
from placl.learn.course import TrainingSet
from placl.learn.device import autocast
from placl.learn.losses import heatmap_loss
from placl.methods.consistency import ConsistentTrainings, Seen, Term
from placl.methods.cyclegan import CycleGAN
from placl.methods.method import Method
from placl.models.zoo import KeypointNet
from placl.stages import Stage, Unit, pseudo_label, train_stage

TRANSLATED, LAST = "translated", "round_1"  # names of stages
RATE, BETAS = 2e-4, (0.5, 0.999)  # of CycleGAN's Adam, and of whatever `train.optimizer` is in place of it
PART = 16  # of a batch, one in so many is what CycleGAN learns from, of each domain


class Translated(Term):
    others = 0

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        self.translation = CycleGAN().to(memory_format=torch.channels_last)

    def groups(self, net: KeypointNet) -> list[dict[str, Any]]:
        settings: dict[str, Any] = {"pace": RATE / self.config.train.lr, "betas": BETAS, "weight_decay": 0.0}
        return [
            {"params": list(net.parameters()), "pace": 1.0},
            {"params": list(self.translation.parameters()), **settings},
        ]

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        images, few = seen.first.images, max(1, self.config.train.batch // PART)
        source, target = images[seen.labelled], images[~seen.labelled]
        taught = self.labels_of_translations(net, source, seen)
        if not len(target):
            return taught
        with autocast(self.config.train.precision, images.device):
            return taught + self.translation.loss(source[:few], target[:few]).float()

    def labels_of_translations(self, net: KeypointNet, source: Tensor, seen: Seen) -> Tensor:
        """The supervised loss of the labelled images as the target would show them."""
        with autocast(self.config.train.precision, source.device):
            with torch.no_grad():
                translated = self.translation.to_target(source)
            outputs = net(translated.float())
        known = seen.labelled
        return heatmap_loss(self.config.train.loss, outputs.float(), seen.targets[known], seen.weights[known])


def cyclegan_pl(lab: Lab) -> Iterator[Stage]:
    config, problem = lab.config, lab.problem
    images = TrainingSet(problem.labelled, problem.unlabelled)
    teacher = train_stage(lab, Unit(TRANSLATED, config.taught(first=True), images), ConsistentTrainings(Translated))
    yield teacher
    pseudo = pseudo_label(lab, teacher, problem.unlabelled, LAST)
    lab.run.keep_pseudo_labels(LAST, problem.unlabelled, pseudo)
    data = TrainingSet(problem.labelled, problem.unlabelled, pseudo)
    yield train_stage(lab, Unit(LAST, config, data, constant(0.0, config.groups)))


def stages(config: Config) -> dict[str, Config]:
    return {TRANSLATED: config.taught(first=True), LAST: config}


METHOD = Method(cyclegan_pl, stages)
