"""What terms across domains are tried on: a batch of source and target images in two views."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.learn.network import fresh_network
from placl.methods.batches import Batches
from placl.methods.consistency import Seen, Term
from placl.methods.views import View
from placl.models.zoo import KeypointNet

CPU = torch.device("cpu")


def seen_of(outputs: Tensor, first: View, others: tuple[View, ...], labelled: Tensor) -> Seen:
    """A batch of which nothing is known but the domains, so that labels add nothing."""
    nothing = torch.zeros(outputs.shape[:2])
    return Seen(
        outputs=outputs,
        first=first,
        others=others,
        labelled=labelled,
        keypoints=torch.zeros(*outputs.shape[:2], 2),
        targets=torch.zeros_like(outputs).detach(),
        weights=nothing,
        place=0.0,
    )


def batch_of(make_term: Any, config: Config, problem: Problem) -> tuple[Any, KeypointNet, Seen]:
    """A term, a fresh network, and four images of each domain."""
    torch.manual_seed(1)
    net = fresh_network(config, 14, 1, CPU)
    term: Term = make_term(config, net, problem.labelled.skeleton, 1)
    source = Batches(config, TrainingSet(problem.labelled, problem.unlabelled), 3, CPU, net.stride)
    first, others, labelled, *_ = source.next(term.others)
    return term, net, seen_of(net(first.images), first, others, labelled)


def moved(module: torch.nn.Module) -> set[str]:
    """The names of the parameters that a gradient has reached."""
    return {name for name, p in module.named_parameters() if p.grad is not None and bool(p.grad.abs().max() > 0)}
