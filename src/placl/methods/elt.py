"""ELT (Honari et al. 2018): landmarks move as the image moves, whether or not anybody has labelled them.

    L = L_labelled + w * mean |T L(x) - L(T x)|^2 / S^2 over the keypoints of all images

L(x) are the expected places under a softmax over each heatmap (soft-argmax), T is a random affine map, here from the
first view of an image to the hard one, and S is the side of the input: distances are shares of the image, so that the
weight means the same at any size. Gradients go through both branches, as published. A keypoint that T moves out of the
target view does not count. Left open, or chosen otherwise:

- The softmax's temperature is a hyperparameter of theirs. Logits of bce are taken as they are; heights of mse are
  multiplied first, by about as much as a sure network's logits are above its background. Three times the temperature
  cost 2 points of PCK on synthetic animals.
- A flat heatmap's expected place is the centre, which hardly moves: the loss would reward being unsure. So a keypoint
  counts where both views have a peak above PoseCons' SURE. The mean is over all, so that it needs no ramp.
- Labels are used in both views, as in PoseCons: unlabelled images take the place of labelled ones in a batch.
- The weight was chosen on synthetic animals so as not to fall below supervised training by a point: 0.1 to 1 do alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from placl.learn.losses import LossKind, answer, heatmap_loss
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.posecons import SURE, outputs_of
from placl.methods.views import View, carry_pairs, carry_points
from placl.models.codec import HeatmapCodec
from placl.models.zoo import KeypointNet

WEIGHT = 0.3
TEMPERATURE = 20.0  # of mse's heights, which are 1 at a sure peak; bce's logits are about as far above their background


def soft_argmax(kind: LossKind, outputs: Tensor, codec: HeatmapCodec) -> Tensor:
    """Outputs (B, K, H, W) -> (B, K, 2) expected places in input pixels, with gradient."""
    logits = outputs if kind == "bce" else TEMPERATURE * outputs
    share = torch.softmax(logits.flatten(2), dim=2).view(logits.shape)
    rows, columns = (torch.arange(side, device=share.device, dtype=share.dtype) for side in share.shape[2:])
    return codec.to_input(torch.stack([share.sum(2) @ columns, share.sum(3) @ rows], dim=-1))


def is_sure(kind: LossKind, outputs: Tensor) -> Tensor:
    """(B, K) 1 where a heatmap has a peak."""
    return (answer(kind, outputs.detach()).amax(dim=(2, 3)) > SURE).float()


def carried(term: Term, places: Tensor, source: View, target: View) -> tuple[Tensor, Tensor]:
    """(B, K, 2) places of ``source`` as they are in ``target``, and (B, K) 1 where they are within it."""
    moved = carry_points(places, source, target, term.flip_order)
    return moved, term.codec.inside(moved.detach(), torch.ones(moved.shape[:2], device=moved.device))


def labels_again(term: Term, outputs: Tensor, seen: Seen, view: View) -> Tensor:
    """The supervised loss of a further view, as PoseCons has it: the mean over all keypoints, labelled or not."""
    keypoints = carry_points(seen.keypoints, seen.first, view, term.flip_order)
    targets, weights = term.codec.encode(keypoints, carry_pairs(seen.weights, seen.first, view, term.flip_order))
    everyone = torch.tensor(float(weights.numel()), device=outputs.device)
    return heatmap_loss(term.config.train.loss, outputs, targets, weights, everyone)


class ELT(Term):
    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        target = seen.others[0]
        outputs = outputs_of(self, net, target)
        return labels_again(self, outputs, seen, target) + WEIGHT * self.equivariance(outputs, seen, target)

    def equivariance(self, outputs: Tensor, seen: Seen, target: View) -> Tensor:
        """|T L(x) - L(T x)|^2: the mean over all keypoints, 0 for those that have left or that nobody is sure of."""
        kind = self.config.train.loss
        moved, shown = carried(self, soft_argmax(kind, seen.outputs, self.codec), seen.first, target)
        squared = (moved - soft_argmax(kind, outputs, self.codec)).square().sum(-1) / self.codec.input_size**2  # (B, K)
        sure = carry_pairs(is_sure(kind, seen.outputs), seen.first, target, self.flip_order) * is_sure(kind, outputs)
        return (shown * sure * squared).mean()


METHOD = consistent(ELT)
