"""WS-CDA + PPLO (Cao et al. 2019): adapt features across domains, then learn from the target's surest pseudo-labels.

    first half:   L = L_source - w * L_D for the features, L_D = -log D(z) of the true domain for the discriminator D
    second half:  L = l(f(x), y) over the source and l(f(x), y~) over {target keypoints: c above a bound that falls}

WS-CDA trains shared features, the keypoint head and a domain discriminator on pooled features together: the gradient of
the discriminator's loss is reversed on its way into the features. PPLO then goes on with the same network. At the
beginning of every epoch it labels the target's images anew, and takes the labels whose confidence is above the bound.
Left open, or chosen otherwise:

- Both phases are halves of one training, so that its budget is that of every other method.
- The bound is a rank, so that it means the same for any network: first the surest tenth of all keypoints is used, in
  the end seven tenths. It, and w, 0.01 beside bce and a fifth of that beside mse (see SSKL), are ours.
- They alternate source and target from batch to batch; here every batch has both, so that BatchNorm sees one mixture.
- Their discriminator knows people, animals and kinds of animals. Here whatever is labelled is one domain, people
  included, where the source has some: their missing keypoints have no weight.
- Labels and features are those of two views (see :mod:`placl.methods.domains`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from placl.config import Config, Select
from placl.data.skeleton import Skeleton
from placl.learn.course import TrainingSet
from placl.learn.label import label
from placl.learn.select import Selection
from placl.methods.consistency import Seen, consistent
from placl.methods.domains import DomainTerm, domain_loss
from placl.methods.elt import labels_again
from placl.models.zoo import KeypointNet

WEIGHT = 0.002  # beside an mse: 0.01 beside bce
HIDDEN = 64  # of the discriminator
ADAPTING = 0.5  # share of the training that is WS-CDA
HIGHEST, LOWEST = 0.9, 0.3  # the bound, from the beginning of PPLO to the end
RANKS = Select(level="keypoint", scale="quantile")


def reversed_gradient(features: Tensor) -> Tensor:
    """The same numbers, with -1 for a derivative."""
    return 2 * features.detach() - features


def bound_at(place: float) -> float:
    """The share of keypoints that is left out, at a place of the training in [ADAPTING, 1]."""
    return HIGHEST - (HIGHEST - LOWEST) * (place - ADAPTING) / (1 - ADAPTING)


class WsCdaPplo(DomainTerm):
    """Pseudo-labels are part of its state: a training that is carried on within an epoch has those of its beginning."""

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        self.discriminator = nn.Sequential(nn.Linear(self.channels[0], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        self._pseudo = torch.zeros(0, len(skeleton), 3)  # (N, K, 3) x, y and weight; empty as long as there are none

    def begin_epoch(self, net: KeypointNet, data: TrainingSet, place: float) -> None:
        if place < ADAPTING or data.unlabelled is None or not len(data.unlabelled):
            return
        found = label(net, data.unlabelled, self.config)
        chosen = Selection(found.confidence, RANKS).chosen(slice(None), bound_at(place))
        pseudo = np.concatenate([found.keypoints, chosen[..., None]], axis=2)
        self._pseudo = torch.from_numpy(pseudo.astype(np.float32))

    def labels(self) -> tuple[np.ndarray, np.ndarray] | None:
        pseudo = self._pseudo.numpy()
        return (pseudo[..., :2], pseudo[..., 2]) if len(pseudo) else None

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        looks = self.look(net, seen)
        labels = labels_again(self, looks.outputs, seen, seen.others[0])
        if len(self._pseudo):
            return labels
        return labels + WEIGHT * self.scale * self.adversary(looks.features[0], looks.source)

    def adversary(self, features: Tensor, source: Tensor) -> Tensor:
        """For the discriminator, and against the features."""
        return domain_loss(self.discriminator(reversed_gradient(features)), source)

    def get_extra_state(self) -> Tensor:
        return self._pseudo

    def set_extra_state(self, state: Tensor) -> None:
        self._pseudo = state


METHOD = consistent(WsCdaPplo)
