"""What methods across domains share: features of two views, and which domain they are of."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from across import seen_of
from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.learn.network import fresh_network
from placl.methods.batches import Batches
from placl.methods.domains import DomainTerm, domain_loss

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")


def test_domain_loss_by_hand() -> None:
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])  # three quarters source; undecided
    assert domain_loss(logits, torch.tensor([True, True])).item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)
    assert domain_loss(logits, torch.tensor([False, False])).item() == pytest.approx((math.log(4) + math.log(2)) / 2)


def test_looks_are_of_both_views(tiny: MakeConfig, problem: Problem) -> None:
    config = tiny()
    net = fresh_network(config, 14, 1, CPU).eval()
    term = DomainTerm(config, net, problem.labelled.skeleton, 1)
    batches = Batches(config, TrainingSet(problem.labelled, problem.unlabelled), 3, CPU, net.stride)
    first, others, labelled, *_ = batches.next(1)
    outputs = net(first.images)
    looks = term.look(net, seen_of(outputs, first, others, labelled))
    assert looks.source.tolist() == labelled.tolist() * 2
    torch.testing.assert_close(looks.outputs, net(others[0].images))
    torch.testing.assert_close(looks.features[0][8:], term.tap.pooled()[0])  # of the latest answer, the second view's
    net(first.images)
    torch.testing.assert_close(looks.features[0][:8], term.tap.pooled()[0])
    assert [features.shape for features in looks.features] == [(16, channels) for channels in term.channels]


def test_the_network_is_given_back_as_it_was(tiny: MakeConfig, problem: Problem) -> None:
    net = fresh_network(tiny(), 14, 1, CPU)
    term = DomainTerm(tiny(), net, problem.labelled.skeleton, 1)
    assert term.result(net) is net
    assert not any(module._forward_pre_hooks for module in net.modules())
    assert not list(term.parameters())  # the network's are not the term's
