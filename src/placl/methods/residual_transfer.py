"""Residual transfer (Long et al. 2016), restated for heatmaps: features alike, answers a little off the source's.

    L = l(f_S(x), y) over the source + w * MMD(source, target) + w * H(f_T(x)) over the target,   f_S = f_T + r(f_T)

f_T is the network, which is kept; the residual block r, two 1x1 convolutions between heatmaps that begin as zero, is
what the source has of its own. MMD compares pooled features of all layers at once, under a product of Gaussian kernels
(the tensor product of the paper) as wide as features are apart. H is the entropy of where a keypoint is: that of a
softmax over a heatmap's pixels, over the largest possible. Left open, or chosen otherwise:

- w is ours: 0.01 beside bce, a fifth of that beside mse (see SSKL). Theirs is for the losses of classifiers, which are
  some thirty times a bce of heatmaps.
- A flat heatmap has no place that it could be surer of: where none has a peak above PoseCons' SURE, H is 0. The paper's
  classifiers begin with ImageNet's features, ours with nothing.
- A residual is to be small beside what it is added to, or f_T could be anything: r learns at a hundredth of the rate.
  At a tenth, and with a high rate, H falls by what r makes good for the source, and f_T gets worse than without it.
- Labels, features and entropies are those of two views (see :mod:`placl.methods.domains`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.learn.losses import LossKind
from placl.methods.consistency import Seen, consistent
from placl.methods.domains import DomainTerm
from placl.methods.elt import TEMPERATURE, is_sure, labels_again
from placl.models.zoo import KeypointNet

DISCREPANCY, ENTROPY = 0.002, 0.002  # beside an mse: 0.01 beside bce
HIDDEN = 32  # channels of the residual block
PACE = 0.01  # of the residual block, over the network's
EMPTY = 1e-6  # the least mean square distance of features that can be divided by


def mmd(features: list[Tensor], source: Tensor) -> Tensor:
    """The squared maximum mean discrepancy of (N, C) features of several layers, (N,) of which are of the source.

    The kernel is exp(- mean over layers of |a - b|^2 / s), with s the layer's mean square distance, not counting those
    of an image from itself. 0 where a domain has no image.
    """
    count = len(source)
    if bool(source.all()) or not bool(source.any()):
        return torch.stack([layer.sum() for layer in features]).sum() * 0.0
    exponents = []
    for layer in features:
        squares = layer.square().sum(1)
        distances = (squares[:, None] + squares - 2 * layer @ layer.T).clamp(min=0.0)  # (N, N)
        exponents.append(distances / (distances.detach().sum() / (count * (count - 1))).clamp(min=EMPTY))
    kernel = torch.exp(-torch.stack(exponents).mean(0))
    same, target = source.float() / source.sum(), (~source).float() / (~source).sum()
    difference = same - target  # (N,) weights of each image in the difference of the two means
    return difference @ kernel @ difference


def entropy(kind: LossKind, outputs: Tensor) -> Tensor:
    """(B, K) how unsure (B, K, H, W) outputs are of a keypoint's place: 0 for one pixel, 1 for all alike."""
    logits = (outputs if kind == "bce" else TEMPERATURE * outputs).flatten(2)
    share = torch.log_softmax(logits, dim=2)
    return -(share.exp() * share).sum(2) / math.log(share.shape[2])


class ResidualTransfer(DomainTerm):
    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        last = nn.Conv2d(HIDDEN, len(skeleton), 1, bias=False)
        nn.init.zeros_(last.weight)
        self.residual = nn.Sequential(nn.Conv2d(len(skeleton), HIDDEN, 1), nn.ReLU(), last)

    def groups(self, net: KeypointNet) -> list[dict[str, Any]]:
        return [{"params": list(net.parameters()), "pace": 1.0}, {"params": list(self.parameters()), "pace": PACE}]

    def supervised(self, outputs: Tensor) -> Tensor:
        source: Tensor = outputs + self.residual(outputs)
        return source

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        looks = self.look(net, seen)
        labels = labels_again(self, self.supervised(looks.outputs), seen, seen.others[0])
        unsure = (self.unsureness(seen.outputs, seen.labelled) + self.unsureness(looks.outputs, seen.labelled)) / 2
        return labels + self.scale * (DISCREPANCY * mmd(looks.features, looks.source) + ENTROPY * unsure)

    def unsureness(self, outputs: Tensor, source: Tensor) -> Tensor:
        """The mean entropy of the target's keypoints, 0 for those without a peak."""
        kind = self.config.train.loss
        target = (~source).float()[:, None] * is_sure(kind, outputs)  # (B, K)
        everyone = ((~source).sum() * outputs.shape[1]).clamp(min=1)
        return (target * entropy(kind, outputs)).sum() / everyone


METHOD = consistent(ResidualTransfer)
