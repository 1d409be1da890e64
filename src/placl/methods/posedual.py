"""PoseDual (Xie et al. 2021): two networks teach each other, each by what it says of the easy view.

    L = sum over (s, t) = (f, g), (g, f) of  L_labelled(s) + l(s(C_t T_h x), stop(T t(T_e x)))

T_e, T_h, T and l are those of PoseCons. C_t is joint cut-out at the joints that the teacher t has found. Two networks
err in different places, so that neither is taught its own mistakes. Left open: theirs weighs the labels by a half; here
both terms count the same, as in PoseCons. They choose neither network and also report the mean of both; kept is f.
"""

from __future__ import annotations

from torch import Tensor

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.learn.losses import answer, heatmap_loss
from placl.learn.network import fresh_network
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.posecons import lesson, outputs_of, teach, without_joints
from placl.models.zoo import KeypointNet
from placl.search import derive


class PoseDual(Term):
    """``net`` is f, and what is kept; g is trained beside it and forgotten."""

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        device = next(net.parameters()).device
        self.second = fresh_network(config, len(skeleton), derive(seed, "second network"), device)  # g

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        kind, hard = self.config.train.loss, seen.others[0]
        outputs = outputs_of(self, self.second, seen.first)
        total = heatmap_loss(kind, outputs, seen.targets, seen.weights)  # of g; that of f is added to all terms
        for student, of_teacher in ((net, outputs), (self.second, seen.outputs)):
            given = lesson(self, answer(kind, of_teacher), seen, hard)
            total = total + teach(self, student, without_joints(hard, given), given)
        return total


METHOD = consistent(PoseDual)
