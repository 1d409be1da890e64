"""WS-CDA + PPLO: the reversed gradient, the falling bound, and labels that are made anew every epoch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from across import batch_of, moved
from lessons import repeats
from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.learn.label import label
from placl.methods import ws_cda_pplo
from placl.methods.domains import domain_loss
from placl.methods.ws_cda_pplo import WEIGHT, WsCdaPplo, bound_at, reversed_gradient

MakeConfig = Callable[..., Config]


def test_a_gradient_is_reversed() -> None:
    features = torch.randn(5, 3, requires_grad=True)
    assert torch.equal(reversed_gradient(features), features)
    (reversed_gradient(features) ** 2).sum().backward()
    assert features.grad is not None
    torch.testing.assert_close(features.grad, -2 * features.detach())


def test_features_and_discriminator_pull_apart(tiny: MakeConfig, problem: Problem) -> None:
    term, _, _ = batch_of(WsCdaPplo, tiny(), problem)
    features = torch.randn(8, term.channels[0], requires_grad=True)
    source = torch.arange(8) < 4
    plain = domain_loss(term.discriminator(features), source)
    wanted = torch.autograd.grad(plain, [features, *term.discriminator.parameters()])
    found = torch.autograd.grad(term.adversary(features, source), [features, *term.discriminator.parameters()])
    torch.testing.assert_close(found[0], -wanted[0])
    for own, others in zip(found[1:], wanted[1:], strict=True):
        torch.testing.assert_close(own, others)


def test_the_loss_by_hand(tiny: MakeConfig, problem: Problem) -> None:
    term, net, seen = batch_of(WsCdaPplo, tiny(), problem)
    last = term.discriminator[-1]
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    assert term.loss(net, seen).item() == pytest.approx(5 * WEIGHT * math.log(2), rel=1e-4)


@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_gradients_reach_the_network(tiny: MakeConfig, problem: Problem, loss: str) -> None:
    term, net, seen = batch_of(WsCdaPplo, tiny({"train.loss": loss}), problem)
    term.loss(net, seen).backward()
    assert moved(net) == {name for name, _ in net.named_parameters() if name.startswith(("stem.", "stages."))}
    assert len(moved(term)) == 4


def test_the_bound_falls() -> None:
    assert bound_at(0.5) == pytest.approx(0.9)
    assert bound_at(0.75) == pytest.approx(0.6)
    assert bound_at(1.0) == pytest.approx(0.3)


def test_the_surest_labels_join_epoch_by_epoch(tiny: MakeConfig, problem: Problem) -> None:
    term, net, _ = batch_of(WsCdaPplo, tiny(), problem)
    data = TrainingSet(problem.labelled, problem.unlabelled)
    term.begin_epoch(net, data, 0.25)
    assert term.labels() is None
    found = label(net, problem.unlabelled, tiny())
    for place, share in ((0.5, 0.1), (0.75, 0.4)):
        term.begin_epoch(net, data, place)
        keypoints, weights = term.labels()
        assert weights.mean() == pytest.approx(share, abs=0.02)
        least = found.confidence[weights > 0].min()
        assert (found.confidence[weights == 0] <= least).all()
        assert np.array_equal(keypoints, found.keypoints)


def test_labels_are_made_by_the_network_of_the_hour(tiny: MakeConfig, problem: Problem) -> None:
    term, net, _ = batch_of(WsCdaPplo, tiny(), problem)
    data = TrainingSet(problem.labelled, problem.unlabelled)
    term.begin_epoch(net, data, 0.5)
    before = term.labels()[0].copy()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    term.begin_epoch(net, data, 0.5)
    assert not np.array_equal(term.labels()[0], before)


def test_with_labels_there_is_no_adversary(tiny: MakeConfig, problem: Problem) -> None:
    term, net, seen = batch_of(WsCdaPplo, tiny(), problem)
    term.begin_epoch(net, TrainingSet(problem.labelled, problem.unlabelled), 0.5)
    net(seen.first.images)
    assert term.loss(net, seen).item() == 0.0  # the batch has no labels of its own


def test_labels_are_part_of_the_state(tiny: MakeConfig, problem: Problem) -> None:
    term, net, _ = batch_of(WsCdaPplo, tiny(), problem)
    term.begin_epoch(net, TrainingSet(problem.labelled, problem.unlabelled), 0.5)
    again, _, _ = batch_of(WsCdaPplo, tiny(), problem)
    assert again.labels() is None
    again.load_state_dict(term.state_dict())
    for ours, theirs in zip(again.labels(), term.labels(), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(("name", "value"), [("WEIGHT", 0.0), ("HIGHEST", 0.5)])
def test_it_trains_and_repeats(
    tiny: MakeConfig, problem: Problem, name: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = repeats(WsCdaPplo, tiny(), problem)
    monkeypatch.setattr(ws_cda_pplo, name, value)
    assert repeats(WsCdaPplo, tiny(), problem) != trained
