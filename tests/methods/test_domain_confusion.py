"""Domain confusion: a classifier that learns from features, and features that learn against it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from across import batch_of, moved
from lessons import repeats
from placl.config import Config
from placl.data.splits import Problem
from placl.methods import domain_confusion
from placl.methods.domain_confusion import WEIGHT, DomainConfusion, confusion_loss

MakeConfig = Callable[..., Config]
LOGIT = st.floats(-20, 20, width=32)


def test_confusion_by_hand() -> None:
    assert confusion_loss(torch.zeros(3, 2)).item() == pytest.approx(math.log(2))
    three_quarters = torch.tensor([[math.log(3.0), 0.0]])
    assert confusion_loss(three_quarters).item() == pytest.approx(-(math.log(3 / 4) + math.log(1 / 4)) / 2)


@settings(deadline=None)
@given(LOGIT, LOGIT)
def test_nothing_confuses_more_than_even_odds(one: float, other: float) -> None:
    loss = confusion_loss(torch.tensor([[one, other]])).item()
    apart = abs(one - other)
    assert loss == pytest.approx(apart / 2 + math.log1p(math.exp(-apart)), rel=1e-5, abs=1e-5)
    assert loss >= math.log(2) - 1e-6


def test_each_loss_trains_its_own_side(tiny: MakeConfig, problem: Problem) -> None:
    term, _, _ = batch_of(DomainConfusion, tiny(), problem)
    features = torch.randn(8, term.channels[0], requires_grad=True)
    term.classification(features, torch.arange(8) < 4).backward()
    assert moved(term) == {"classifier.weight", "classifier.bias"}
    assert features.grad is None
    term.zero_grad()
    term.confusion(features).backward()
    assert moved(term) == set()
    assert features.grad is not None


def test_features_go_against_the_classifier(tiny: MakeConfig, problem: Problem) -> None:
    term, _, _ = batch_of(DomainConfusion, tiny(), problem)
    features = torch.randn(8, term.channels[0], requires_grad=True)
    term.confusion(features).backward()
    assert features.grad is not None
    logits = term.classifier(features.detach() - 0.1 * features.grad)
    before = term.classifier(features.detach())

    def certainty(of: torch.Tensor) -> torch.Tensor:
        return (of[:, 0] - of[:, 1]).abs()

    assert (certainty(logits) < certainty(before)).all()
    # By hand: the derivative of the loss by the logit of domain d is (q_d - 1/2) / N.
    expected = (before.softmax(1) - 0.5) @ term.classifier.weight / 8
    torch.testing.assert_close(features.grad, expected)


def test_steps_alternate(tiny: MakeConfig, problem: Problem) -> None:
    term, net, seen = batch_of(DomainConfusion, tiny(), problem)
    looks = term.look(net, seen)
    net(seen.first.images)  # the features of the first view again
    assert term.loss(net, seen).item() == pytest.approx(
        F.cross_entropy(term.classifier(looks.features[0]), 1 - looks.source.long()).item(), rel=1e-3
    )
    term.after_step(net)
    net(seen.first.images)
    expected = 5 * WEIGHT * confusion_loss(term.classifier(looks.features[0])).item()
    assert term.loss(net, seen).item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_gradients_reach_the_features_in_every_second_step(tiny: MakeConfig, problem: Problem, loss: str) -> None:
    term, net, seen = batch_of(DomainConfusion, tiny({"train.loss": loss}), problem)
    term.loss(net, seen).backward()
    assert moved(net) == set()
    term.after_step(net)
    net(seen.first.images)
    term.zero_grad()
    term.loss(net, seen).backward()
    assert moved(term) == set()
    down = {name for name, _ in net.named_parameters() if name.startswith(("stem.", "stages."))}
    assert moved(net) == down  # the way to the coarsest layer


def test_it_trains_and_repeats(tiny: MakeConfig, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = repeats(DomainConfusion, tiny(), problem)
    monkeypatch.setattr(domain_confusion, "WEIGHT", 0.0)
    assert repeats(DomainConfusion, tiny(), problem) != trained
