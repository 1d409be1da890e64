"""PoseCons (Xie et al. 2021): what a network says of an easy view teaches it on a hard view of the same image.

    L = L_labelled + w * l(f(T_h x), stop(T f(T_e x)))

T_e is the augmentation of every training, T_h a larger affine, and T carries heatmaps from one view to the other. l is
the heatmap loss of the training. Gradients go through the hard view only: with gradients through both, or equally hard
views, heatmaps collapse to background (their finding). Left open: the paper's l is always the squared error; the weight
and its ramp are of our choice on validation data.
"""

from __future__ import annotations

import torch
from torch import Tensor

from placl.learn.device import autocast
from placl.learn.losses import answer, heatmap_loss
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.views import View, carry, visible
from placl.models.zoo import KeypointNet


def teach(term: Term, student: KeypointNet, heatmaps: Tensor, source: View, hard: View) -> Tensor:
    """The loss of a student on a hard view, taught by heatmaps of another view, which get no gradient."""
    config = term.config
    taught = carry(heatmaps.detach(), source, hard, term.flip_order)
    known = visible(source, hard, heatmaps.shape[-1])  # (B, 1, H, W)
    with autocast(config.train.precision, hard.images.device):
        outputs = student(hard.images)
    outputs = outputs.float()
    # Where the teacher saw nothing, the student's own answer is its target: no gradient of size there.
    own = answer(config.train.loss, outputs).detach()
    targets = torch.where(known > 0, taught, own)
    everyone = torch.ones(targets.shape[:2], device=targets.device)
    return heatmap_loss(config.train.loss, outputs, targets, everyone)


class PoseCons(Term):
    ramp = 0.1

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        heatmaps = answer(self.config.train.loss, seen.outputs)
        return teach(self, net, heatmaps, seen.first, seen.others[0])


METHOD = consistent(PoseCons)
