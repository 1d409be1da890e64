"""Domain confusion (Tzeng et al. 2015): features from which nobody can tell source and target apart.

    L = L_source + w * -1/2 sum_d log q_d(z)      for the network, q fixed
    L_D = -log q_d(z) of the true domain d        for the classifier q, the features z fixed

q is a linear classifier with two classes on the pooled features z of the coarsest layer. Steps alternate: one trains
the classifier, the next trains the features against it, towards the uniform distribution; every step learns from the
source's labels. Left open, or chosen otherwise:

- w is ours: 0.01 beside bce, a fifth of that beside mse (see SSKL).
- Their soft labels, a second term, need labels of the target in some classes. There are none here.
- z is theirs of the layer before the last; the coarsest has the least of where things are, which shall not be confused.
- Labels and features are those of two views (see :mod:`placl.methods.domains`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.methods.consistency import Seen, consistent
from placl.methods.domains import DomainTerm, domain_loss
from placl.methods.elt import labels_again
from placl.models.zoo import KeypointNet

WEIGHT = 0.002  # beside an mse: 0.01 beside bce


def confusion_loss(logits: Tensor) -> Tensor:
    """The cross-entropy of (N, 2) logits with the uniform distribution: log 2 at its least."""
    return -F.log_softmax(logits, dim=1).mean()


class DomainConfusion(DomainTerm):
    steps: Tensor

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        self.classifier = nn.Linear(self.channels[0], 2)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))  # so far

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        looks = self.look(net, seen)
        labels = labels_again(self, looks.outputs, seen, seen.others[0])
        if int(self.steps) % 2 == 0:
            return labels + self.classification(looks.features[0], looks.source)
        return labels + WEIGHT * self.scale * self.confusion(looks.features[0])

    def classification(self, features: Tensor, source: Tensor) -> Tensor:
        """For the classifier alone."""
        return domain_loss(self.classifier(features.detach()), source)

    def confusion(self, features: Tensor) -> Tensor:
        """For the features alone."""
        return confusion_loss(F.linear(features, self.classifier.weight.detach(), self.classifier.bias.detach()))

    def after_step(self, net: KeypointNet) -> None:
        self.steps += 1


METHOD = consistent(DomainConfusion)
