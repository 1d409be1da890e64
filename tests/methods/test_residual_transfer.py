"""Residual transfer: discrepancy of features, entropy of answers, and what the source has of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from across import batch_of, moved
from lessons import peak, repeats
from placl.config import Config
from placl.data.splits import Problem
from placl.methods import residual_transfer
from placl.methods.residual_transfer import DISCREPANCY, ResidualTransfer, entropy, mmd

MakeConfig = Callable[..., Config]


def mmd_by_loops(features: list[np.ndarray], source: np.ndarray) -> float:
    """The three means of kernels, pair by pair."""
    count = len(source)
    widths = []
    for layer in features:
        apart = [((layer[i] - layer[j]) ** 2).sum() for i, j in product(range(count), repeat=2) if i != j]
        widths.append(np.mean(apart))

    def kernel(i: int, j: int) -> float:
        return math.prod(
            math.exp(-((layer[i] - layer[j]) ** 2).sum() / width / len(features))
            for layer, width in zip(features, widths, strict=True)
        )

    def mean(ones: np.ndarray, others: np.ndarray) -> float:
        return float(np.mean([kernel(i, j) for i in ones for j in others]))

    s, t = np.flatnonzero(source), np.flatnonzero(~source)
    return mean(s, s) + mean(t, t) - 2 * mean(s, t)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_mmd_is_that_of_a_double_loop(n: int, m: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    features = [random.normal(size=(n + m, channels)).astype(np.float32) for channels in (3, 7)]
    source = random.permutation(np.arange(n + m) < n)
    found = mmd([torch.from_numpy(layer) for layer in features], torch.from_numpy(source)).item()
    assert found == pytest.approx(mmd_by_loops(features, source), abs=1e-5)
    assert found >= -1e-6


def test_mmd_by_hand() -> None:
    # Two source images at 0, two target images at 1: of 12 ordered pairs 8 are 1 apart, so the width is 2/3.
    features = [torch.tensor([[0.0], [0.0], [1.0], [1.0]])]
    source = torch.tensor([True, True, False, False])
    assert mmd(features, source).item() == pytest.approx(2 - 2 * math.exp(-1.5))
    assert mmd(features, torch.tensor([True, False, True, False])).item() == pytest.approx(0.0, abs=1e-6)
    assert mmd(features, torch.ones(4, dtype=torch.bool)).item() == 0.0  # no target


def test_mmd_draws_the_domains_together() -> None:
    features = torch.tensor([[0.0], [0.2], [1.0], [1.3]], requires_grad=True)
    mmd([features], torch.tensor([True, True, False, False])).backward()
    assert features.grad is not None
    assert (features.grad[:2] < 0).all()
    assert (features.grad[2:] > 0).all()


def test_entropy_by_hand() -> None:
    flat, sure = torch.zeros(4, 4), peak(1, 2, 1000.0)
    two = torch.full((4, 4), -1000.0)
    two[0, :2] = 0.0
    found = entropy("bce", torch.stack([flat, sure, two])[None])
    assert found[0].tolist() == pytest.approx([1.0, 0.0, math.log(2) / math.log(16)], abs=1e-6)


def test_entropy_counts_for_the_target_where_it_has_a_peak(tiny: MakeConfig, problem: Problem) -> None:
    term, _, _ = batch_of(ResidualTransfer, tiny(), problem)
    outputs = torch.full((4, 14, 8, 8), -9.0)
    outputs[:, 0, :1, :2] = 9.0  # two of 64 pixels alike; the other keypoints have no peak
    source = torch.tensor([True, True, True, False])
    share = math.exp(9.0) / (2 * math.exp(9.0) + 62 * math.exp(-9.0))
    low = math.exp(-9.0) / (2 * math.exp(9.0) + 62 * math.exp(-9.0))
    by_hand = -(2 * share * math.log(share) + 62 * low * math.log(low)) / math.log(64)
    assert term.unsureness(outputs, source).item() == pytest.approx(by_hand / 14, rel=1e-4)
    assert term.unsureness(outputs, torch.ones(4, dtype=torch.bool)).item() == 0.0


def test_the_source_begins_as_the_target(tiny: MakeConfig, problem: Problem) -> None:
    term, _, _ = batch_of(ResidualTransfer, tiny(), problem)
    outputs = torch.randn(2, 14, 8, 8)
    assert torch.equal(term.supervised(outputs), outputs)
    torch.nn.init.ones_(term.residual[-1].weight)
    hidden = term.residual[1](term.residual[0](outputs))
    torch.testing.assert_close(term.supervised(outputs), outputs + hidden.sum(1, keepdim=True))


def test_the_residual_learns_slowly(tiny: MakeConfig, problem: Problem) -> None:
    term, net, _ = batch_of(ResidualTransfer, tiny(), problem)
    network, residual = term.groups(net)
    assert (network["pace"], residual["pace"]) == (1.0, 0.01)
    assert [id(p) for p in network["params"]] == [id(p) for p in net.parameters()]
    assert [id(p) for p in residual["params"]] == [id(p) for p in term.residual.parameters()]


def test_the_loss_by_hand(tiny: MakeConfig, problem: Problem) -> None:
    # A fresh network has no peaks, and without labels the discrepancy is all there is.
    term, net, seen = batch_of(ResidualTransfer, tiny(), problem)
    looks = term.look(net, seen)
    net(seen.first.images)
    layers = [layer.detach().numpy() for layer in looks.features]
    expected = 5 * DISCREPANCY * mmd_by_loops(layers, looks.source.numpy())
    assert term.loss(net, seen).item() == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_gradients_reach_the_network(tiny: MakeConfig, problem: Problem, loss: str) -> None:
    term, net, seen = batch_of(ResidualTransfer, tiny({"train.loss": loss}), problem)
    term.loss(net, seen).backward()
    assert moved(net) == {name for name, _ in net.named_parameters() if not name.startswith("final_layer.")}


@pytest.mark.parametrize("part", ["DISCREPANCY", "ENTROPY"])
def test_it_trains_and_repeats(tiny: MakeConfig, problem: Problem, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placl.methods.elt.SURE", 0.0)  # fresh networks have no peaks
    trained = repeats(ResidualTransfer, tiny(), problem)
    monkeypatch.setattr(residual_transfer, part, 0.0)
    assert repeats(ResidualTransfer, tiny(), problem) != trained
