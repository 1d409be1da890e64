"""Heatmap losses: hand-calculated values, weights, and gradients that must be exactly zero."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from placl.learn.losses import LossKind, answer, heatmap_loss

KINDS: list[LossKind] = ["mse", "bce"]


def batch(seed: int, b: int = 3, k: int = 4, size: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(b, k, size, size, generator=generator)
    targets = torch.rand(b, k, size, size, generator=generator)
    return outputs, targets, torch.ones(b, k)


def test_mse_by_hand() -> None:
    outputs = torch.tensor([[[[1.0, 2.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 0.0]]]])  # (1, 2, 2, 2)
    targets = torch.zeros(1, 2, 2, 2)
    # Mean squares are 5/4 and 9/4; weights 1 and 2 give (5/4 + 2 * 9/4) / 3.
    assert heatmap_loss("mse", outputs, targets, torch.tensor([[1.0, 2.0]])).item() == pytest.approx(23 / 12)


def test_bce_by_hand() -> None:
    outputs = torch.tensor([[[[0.0, 1.0], [-1.0, 0.0]]]])
    targets = torch.tensor([[[[1.0, 1.0], [0.0, 0.5]]]])
    expected = (2 * math.log(2) + 2 * math.log(1 + math.exp(-1))) / 4
    assert heatmap_loss("bce", outputs, targets, torch.ones(1, 1)).item() == pytest.approx(expected)


def test_mse_is_twice_hrnets_joints_mse_loss() -> None:
    outputs, targets, weights = batch(0)
    per_joint = [0.5 * torch.nn.MSELoss()(outputs[:, k].flatten(1), targets[:, k].flatten(1)) for k in range(4)]
    hrnet = sum(loss.item() for loss in per_joint) / 4
    assert heatmap_loss("mse", outputs, targets, weights).item() == pytest.approx(2 * hrnet, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -7.0])
def test_weight_zero_has_exactly_zero_gradient(kind: LossKind, garbage: float) -> None:
    outputs, targets, weights = batch(1)
    weights[1, 2] = 0.0
    targets[1, 2] = garbage
    outputs.requires_grad_()
    heatmap_loss(kind, outputs, targets, weights).backward()
    assert outputs.grad is not None
    assert torch.equal(outputs.grad[1, 2], torch.zeros(5, 5))
    assert torch.isfinite(outputs.grad).all()
    assert (outputs.grad[0] != 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_all_weights_zero_is_zero_loss_and_zero_gradient(kind: LossKind) -> None:
    outputs, targets, weights = batch(2)
    outputs.requires_grad_()
    loss = heatmap_loss(kind, outputs, torch.full_like(targets, math.nan), torch.zeros_like(weights))
    loss.backward()
    assert loss.item() == 0.0
    assert outputs.grad is not None
    assert torch.equal(outputs.grad, torch.zeros_like(outputs))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_unlabelled_instances_do_not_dilute(kind: LossKind, seed: int) -> None:
    outputs, targets, weights = batch(seed)
    alone = heatmap_loss(kind, outputs[:1], targets[:1], weights[:1])
    weights[1:] = 0.0
    assert heatmap_loss(kind, outputs, targets, weights).item() == pytest.approx(alone.item(), rel=1e-5)


def test_a_small_weight_is_a_small_loss() -> None:
    outputs, targets, weights = batch(3, b=1, k=1)
    full = heatmap_loss("mse", outputs, targets, weights)
    assert heatmap_loss("mse", outputs, targets, 0.1 * weights).item() == pytest.approx(0.1 * full.item())


def test_the_minimum_is_at_the_target() -> None:
    _, targets, weights = batch(4)
    assert heatmap_loss("mse", targets, targets, weights).item() == 0.0
    logits = torch.logit(targets, eps=1e-6).requires_grad_()
    heatmap_loss("bce", logits, targets, weights).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max().item() < 1e-6


def test_the_answer_is_a_probability_or_the_output_itself() -> None:
    raw = torch.tensor([[[[-2.0, 0.0], [0.25, 3.0]]]])
    assert answer("mse", raw) is raw  # not clamped: a flattened peak would move the argmax
    assert answer("bce", raw).flatten().tolist() == pytest.approx([1 / (1 + math.exp(-x)) for x in (-2, 0, 0.25, 3)])


@pytest.mark.parametrize("call", [lambda k, x: heatmap_loss(k, x, x, x[..., 0, 0]), answer])
def test_an_unknown_kind_is_refused(call: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(ValueError, match="mse or bce, got 'l1'"):
        call("l1", torch.zeros(1, 1, 2, 2))
