"""PoseCons (Xie et al. 2021): what a network says of an easy view teaches it on a hard view of the same image.

    L = L_labelled + l(f(T_h x), stop(T f(T_e x)))

T_e is the augmentation of every training, T_h a larger affine, and T carries heatmaps from one view to the other.
Gradients go through the hard view only: with gradients through both, or equally hard views, heatmaps collapse to
background (their finding). Left open, and the same for all methods that build on this one:

- l is the heatmap loss of the training; theirs is always the squared error, with a weight of 1.
- A teacher teaches what it is sure of: heatmaps with a peak above SURE. A flat one would teach background. The loss is
  over all keypoints, taught or not, so that it grows as the teacher learns, and needs no ramp.
- Of a labelled image, the lesson is the label. Their batches are twice as large as those of supervised training; here
  unlabelled images take the place of labelled ones, whose hard views are not wasted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from placl.learn.device import autocast
from placl.learn.losses import answer, heatmap_loss
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.joint_cutout import joint_squares
from placl.methods.views import View, carry, carry_pairs, carry_points, visible
from placl.models.zoo import KeypointNet

# A fresh network's peaks are below, a blurred Gaussian's well above. On synthetic animals (64 labels, 600 steps, two
# seeds): 50.7 PCK, where 0 gives 49.8 and 0.3 gives 49.7.
SURE = 0.1


@dataclass(frozen=True)
class Lesson:
    """What is taught of a hard view."""

    heatmaps: Tensor  # (B, K, H, W) without gradient
    known: Tensor  # (B, 1, H, W) 1 where the teacher's own view shows the place
    sure: Tensor  # (B, K) 1 where there is something to learn
    found: Tensor  # (B, K) 1 where that is a joint that the teacher found
    points: Tensor  # (B, K, 2) the place, in pixels of the view


def lesson(term: Term, heatmaps: Tensor, seen: Seen, hard: View) -> Lesson:
    """A teacher's heatmaps of the first view as they are in a hard one; labels, where there are any."""
    first, codec, flip_order = seen.first, term.codec, term.flip_order
    size = heatmaps.shape[-1]
    known = visible(first, hard, size)
    carried = carry(heatmaps.detach(), first, hard, flip_order).clamp(0, 1) * known
    peak, place = carried.flatten(2).max(dim=2)  # (B, K)
    points = codec.to_input(torch.stack([place % size, place // size], dim=-1).float())

    truth = carry_points(seen.keypoints, first, hard, flip_order)
    targets, weights = codec.encode(truth, carry_pairs(seen.weights, first, hard, flip_order))
    labelled = seen.labelled[:, None]
    whole = labelled[..., None, None]  # (B, 1, 1, 1)
    return Lesson(
        heatmaps=torch.where(whole, targets, carried),
        known=torch.where(whole, 1.0, known),
        sure=torch.where(labelled, weights, (peak > SURE).float()),
        found=torch.where(labelled, 0.0, (peak > SURE).float()),
        points=points,
    )


def teach(term: Term, student: KeypointNet, hard: View, given: Lesson) -> Tensor:
    """The loss of a student on a hard view: the mean over all keypoints, 0 for those that nothing is known of."""
    kind = term.config.train.loss
    outputs = outputs_of(term, student, hard)
    # Where the teacher saw nothing, the student's own answer is its target: no gradient there.
    targets = torch.where(given.known > 0, given.heatmaps, answer(kind, outputs).detach())
    everyone = torch.tensor(float(given.sure.numel()), device=outputs.device)
    return heatmap_loss(kind, outputs, targets, given.sure, everyone)


def outputs_of(term: Term, net: KeypointNet, view: View) -> Tensor:
    """(B, K, H, W) in full precision"""
    with autocast(term.config.train.precision, view.images.device):
        outputs: Tensor = net(view.images)
    return outputs.float()


def without_joints(hard: View, given: Lesson) -> View:
    """A hard view made harder by joint cut-out: grey squares over some of the joints that the teacher found."""
    squares = joint_squares(given.points, given.found, hard.images.shape[-1])
    return replace(hard, images=hard.images.masked_fill(squares, 0.0))


class PoseCons(Term):
    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        hard = seen.others[0]
        heatmaps = answer(self.config.train.loss, seen.outputs)
        return teach(self, net, hard, lesson(self, heatmaps, seen, hard))


METHOD = consistent(PoseCons)
