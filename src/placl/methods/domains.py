"""Source and target: what the methods across domains share.

Labelled images are the source's, images without labels the target's. A term sees two views of a batch: labels count in
both, as in PoseCons (target images take the place of labelled ones in a batch), and so do features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.methods.consistency import Seen, Term
from placl.methods.posecons import outputs_of
from placl.methods.sskl import SCALE
from placl.models.features import FeatureTap, feature_channels
from placl.models.zoo import KeypointNet


@dataclass(frozen=True)
class Looks:
    """What a network makes of both views of a batch."""

    outputs: Tensor  # (B, K, H, W) of the second view
    features: list[Tensor]  # (2 B, C) of each layer, from coarse to fine: means over pixels
    source: Tensor  # (2 B,) bool: of the source; the others are the target's


class DomainTerm(Term):
    """A term on the features of source and target images."""

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        self.channels = feature_channels(net, config.model.input_size)
        self.tap = FeatureTap(net)

    def look(self, net: KeypointNet, seen: Seen) -> Looks:
        """Ask for the second view; of the first, the features are those of the network's latest answer."""
        first = self.tap.pooled()
        outputs = outputs_of(self, net, seen.others[0])
        features = [torch.cat(views) for views in zip(first, self.tap.pooled(), strict=True)]
        return Looks(outputs, features, seen.labelled.repeat(2))

    @property
    def scale(self) -> float:
        """Weights are given beside an mse."""
        return SCALE[self.config.train.loss]

    def result(self, net: KeypointNet) -> KeypointNet:
        self.tap.close()
        return net


def domain_loss(logits: Tensor, source: Tensor) -> Tensor:
    """The cross-entropy of (N, 2) logits, source and target, with (N,) what is true."""
    return F.cross_entropy(logits, (~source).long())
