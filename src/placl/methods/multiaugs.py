"""MultiAugs (Zhou et al. 2024): one network, one easy view, several hard ones that are hard in different ways.

    L = L_labelled + 1/n sum_i l(f(A_i T_i x), stop(T f(T_e x))),   i = 1 ... n

T_e, T and l are those of PoseCons, T_i its larger affine, drawn for every path. Theirs share one affine, and add up the
losses where we take the mean, so that the labels' weight does not depend on n. Of the A_i they combine, three cheap
ones are taken: A_1 leaves the view as it is, A_2 is joint cut-out, and A_3 covers joints with what another image of the
batch has there (after their joint cut-occlude, which looks for a joint of the other image, too).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from placl.learn.losses import answer
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.joint_cutout import joint_squares
from placl.methods.posecons import Lesson, lesson, teach, without_joints
from placl.methods.views import View
from placl.models.zoo import KeypointNet


def as_it_is(hard: View, given: Lesson) -> View:
    return hard


def with_others_joints(hard: View, given: Lesson) -> View:
    """Squares over joints show the next image of the batch."""
    squares = joint_squares(given.points, given.found, hard.images.shape[-1])
    return replace(hard, images=torch.where(squares, hard.images.roll(1, 0), hard.images))


PATHS = (as_it_is, without_joints, with_others_joints)


class MultiAugs(Term):
    others = len(PATHS)

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        heatmaps = answer(self.config.train.loss, seen.outputs)
        losses = []
        for harder, hard in zip(PATHS, seen.others, strict=True):
            given = lesson(self, heatmaps, seen, hard)
            losses.append(teach(self, net, harder(hard, given), given))
        return torch.stack(losses).mean()


METHOD = consistent(MultiAugs)
