"""SSKL (Moskvyak et al. 2021): what is found at a keypoint says which one it is, in every view alike.

    L = L_labelled + s * (0.5e-3 * CE(C(z_k), k) + 0.1 * |T h - h'|^2 + 0.1 * |z / |z| - z' / |z'||^2)

h are heatmaps of a view and h' those of another, T carries from one to the other, and z_k is the mean of the features
(of the layer that heatmaps are made from) under heatmap k. C, a small MLP, must name the keypoint from z_k: under the
label's heatmap where there is one, under the network's own elsewhere. Heatmaps must move with the image
(equivariance), and representations must stay (invariance). All differences are means over pixels or channels.

The weights are the published 0.5, 1e2 and 1e2 over the 1e3 of its supervised mse, so s = 1 with mse. With bce s = 5:
on synthetic animals, what a network's bce is above its floor (the entropy of the targets) is 7 times the mse of its
probabilities at the start and 5 times later, and so are the gradients, once there are any. Left open, or chosen
otherwise:

- No code is published that would say how features are pooled, and how large z is, without which the last weight means
  nothing. With the mean as it is, its gradient was 15 times the labels'; at unit length it is a third of theirs, and a
  network cannot comply by fading.
- Keypoints that leave the second view do not count there.
- Labels are used in both views, as in PoseCons: unlabelled images take the place of labelled ones in a batch.
- No ramp: with these weights it is above supervised training on synthetic animals.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.learn.losses import answer
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.elt import carried, labels_again, soft_argmax
from placl.methods.posecons import outputs_of
from placl.methods.views import carry, carry_pairs, visible
from placl.models.zoo import KeypointNet

SEMANTIC, EQUIVARIANCE, INVARIANCE = 0.5e-3, 0.1, 0.1  # the published 0.5, 1e2 and 1e2 beside 1e3 times the mse
SCALE = {"mse": 1.0, "bce": 5.0}  # how many times the mse of a network its supervised loss is
HIDDEN = 64  # of the classifier
EMPTY = 1e-6  # the least sum of a heatmap that can be divided by


def represent(features: Tensor, heatmaps: Tensor) -> Tensor:
    """Features (B, C, H, W) averaged under each of K heatmaps -> (B, K, C)."""
    mass = heatmaps.clamp(min=0.0).flatten(2)  # an mse network may answer below 0
    share = mass / mass.sum(2, keepdim=True).clamp(min=EMPTY)
    return share @ features.flatten(2).transpose(1, 2)


def equivariance(moved: Tensor, again: Tensor, known: Tensor) -> Tensor:
    """The mean squared difference of heatmaps (B, K, H, W), where (B, 1, H, W) both views show the place."""
    errors = (moved - again).square().mean(1, keepdim=True)
    return (known * errors).sum() / known.sum().clamp(min=1.0)


def invariance(before: Tensor, after: Tensor, shown: Tensor) -> Tensor:
    """The mean squared difference of representations (B, K, C), where (B, K) both views show the keypoint."""
    errors = (F.normalize(before, dim=-1) - F.normalize(after, dim=-1)).square().mean(-1)
    return (shown * errors).sum() / shown.sum().clamp(min=1.0)


class SSKL(Term):
    """The features of the network's latest answer are caught on their way into its last layer."""

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        final = net.get_submodule("final_layer")
        assert isinstance(final, nn.Conv2d)
        self._hook = final.register_forward_pre_hook(self._catch)
        self._features = torch.zeros(0)  # (B, C, H, W) of the network's latest answer
        self.classifier = nn.Sequential(
            nn.Linear(final.in_channels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, len(skeleton))
        )

    def _catch(self, layer: nn.Module, inputs: tuple[Tensor]) -> None:
        self._features = inputs[0].float()

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        kind, first, target = self.config.train.loss, seen.first, seen.others[0]
        features, heatmaps = self._features, answer(kind, seen.outputs)
        outputs = outputs_of(self, net, target)
        again = answer(kind, outputs)
        _, shown = carried(self, soft_argmax(kind, seen.outputs, self.codec), first, target)
        before = carry_pairs(represent(features, heatmaps), first, target, self.flip_order)
        moved = carry(heatmaps, first, target, self.flip_order)
        terms = (
            SEMANTIC * self.semantic(features, heatmaps, seen)
            + EQUIVARIANCE * equivariance(moved, again, visible(first, target, again.shape[-1]))
            + INVARIANCE * invariance(before, represent(self._features, again), shown)
        )
        return labels_again(self, outputs, seen, target) + SCALE[kind] * terms

    def semantic(self, features: Tensor, heatmaps: Tensor, seen: Seen) -> Tensor:
        """The cross-entropy of the keypoints' names, under labels where there are any."""
        known = seen.labelled[:, None]
        under = torch.where(known[..., None, None], seen.targets, heatmaps)
        weights = torch.where(known, seen.weights, 1.0)  # (B, K)
        logits = self.classifier(represent(features, under))  # (B, K, K)
        names = torch.arange(logits.shape[1], device=logits.device).expand(logits.shape[:2])
        errors = F.cross_entropy(logits.transpose(1, 2), names, reduction="none")
        return (weights * errors).sum() / weights.sum().clamp(min=1.0)

    def result(self, net: KeypointNet) -> KeypointNet:
        self._hook.remove()
        return net


METHOD = consistent(SSKL)
