"""Muon: orthogonal updates, checked against singular values, AdamW and timm's implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from placl.learn.muon import COEFFICIENTS, Muon, orthogonal

RATE = 0.01


def lifted(values: Tensor) -> Tensor:
    """What five steps make of singular values, after they were divided by the root of their squares' sum."""
    a, b, c = COEFFICIENTS
    values = values / values.norm()
    for _ in range(5):
        values = a * values + b * values**3 + c * values**5
    return values


def by_singular_values(x: Tensor) -> Tensor:
    u, values, v = torch.linalg.svd(x, full_matrices=False)
    return u @ torch.diag(lifted(values)) @ v


def weights_with_gradients(*shapes: tuple[int, ...], seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    weights = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator)
    return weights


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 40), st.integers(0, 1000))
def test_singular_vectors_stay_and_singular_values_become_alike(rows: int, columns: int, seed: int) -> None:
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(orthogonal([x])[0], by_singular_values(x), rtol=0, atol=1e-7)


def test_float32_will_do_for_convolutions() -> None:
    x = torch.randn(16, 144, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(orthogonal([x])[0], by_singular_values(x.double()).float(), rtol=0, atol=2e-6)


def test_matrices_go_together_as_they_go_alone() -> None:
    several = [torch.randn(shape) for shape in ((4, 9), (4, 30), (9, 4), (6, 6), (4, 4))]
    for found, x in zip(orthogonal(several), several, strict=True):
        torch.testing.assert_close(found, orthogonal([x])[0])
        assert found.shape == x.shape


def test_a_matrix_of_zeros_stays_one() -> None:
    assert torch.equal(orthogonal([torch.zeros(3, 5)])[0], torch.zeros(3, 5))


def test_a_step_by_hand() -> None:
    """A single number: its sign is the singular vector, 0.7005 what five steps make of 1."""
    weight = nn.Parameter(torch.tensor([[2.0]]))
    weight.grad = torch.tensor([[-3.0]])
    Muon([weight], lr=0.1, weight_decay=0.5).step()
    value = 1.0
    for _ in range(5):
        value = 3.4445 * value - 4.7750 * value**3 + 2.0315 * value**5
    assert weight.item() == pytest.approx(2.0 * (1 - 0.1 * 0.5) + 0.1 * 0.2 * value, abs=1e-6)


def test_momentum_by_hand() -> None:
    """Gradients 1 and -1, momentum 0.9: means 0.1 and -0.01, and ahead of these 0.19 and -0.109. Signs decide."""
    weight = nn.Parameter(torch.zeros(1, 1))
    optimizer = Muon([weight], lr=1.0)
    places = []
    for gradient in (1.0, -1.0):
        weight.grad = torch.tensor([[gradient]])
        optimizer.step()
        places.append(weight.item())
    assert float(optimizer.state[weight]["momentum"]) == pytest.approx(-0.01)
    assert places[0] == pytest.approx(-0.2 * float(lifted(torch.ones(1))), abs=1e-6)
    assert places[1] == pytest.approx(0.0, abs=1e-6)


def test_what_is_no_matrix_is_adamws() -> None:
    ours, theirs = (weights_with_gradients((7,), (3,)) for _ in range(2))
    for optimizer in (Muon(ours, RATE, 0.1), torch.optim.AdamW(theirs, RATE, weight_decay=0.1)):
        for _ in range(5):
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_that_come_in_turns_are_counted_one_by_one() -> None:
    """A method may train one part in one step and another in the next."""
    ours, theirs = (weights_with_gradients((7,), (3,)) for _ in range(2))
    for weights, kind in ((ours, Muon), (theirs, torch.optim.AdamW)):
        optimizer = kind(weights, RATE, weight_decay=0.1)
        gradients = [weight.grad for weight in weights]
        for step in range(6):
            for number, weight in enumerate(weights):
                weight.grad = gradients[number] if number == 1 or step % 3 == 0 else None
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_timms_takes_the_same_steps_in_bfloat16() -> None:
    theirs = pytest.importorskip("timm.optim.muon", reason="timm before 1.0.20 has none")
    shapes = ((8, 4, 3, 3), (16, 8, 1, 1))  # their Adam, of what is no matrix, looks ahead as well
    ours, others = (weights_with_gradients(*shapes) for _ in range(2))
    begun = [weight.detach().clone() for weight in ours]
    settings_ = {"lr": RATE, "weight_decay": 0.01, "momentum": 0.9, "betas": (0.9, 0.999)}
    for optimizer in (
        Muon(ours, **settings_),
        theirs.Muon(others, nesterov=True, ns_coefficients="original", **settings_),
    ):
        for _ in range(4):
            optimizer.step()
    for one, other, start in zip(ours, others, begun, strict=True):
        assert float((one - other).detach().norm() / (other - start).detach().norm()) < 0.02


def test_channels_last_is_no_other_network() -> None:
    plain, last = weights_with_gradients((8, 4, 3, 3)), weights_with_gradients((8, 4, 3, 3))
    last[0].data = last[0].data.contiguous(memory_format=torch.channels_last)
    assert last[0].grad is not None
    last[0].grad = last[0].grad.contiguous(memory_format=torch.channels_last)
    for weights in (plain, last):
        Muon(weights, RATE).step()
    torch.testing.assert_close(plain[0], last[0], rtol=0, atol=1e-6)


def test_stacked_networks_are_networks_of_their_own() -> None:
    apart = [weights_with_gradients((8, 4, 3, 3), (8,), seed=seed) for seed in range(3)]
    stacked = []
    for several in zip(*apart, strict=True):
        stacked.append(nn.Parameter(torch.stack([weight.detach() for weight in several])))
        stacked[-1].grad = torch.stack([weight.grad for weight in several if weight.grad is not None])
    Muon(stacked, RATE, 0.1, stacked=True).step()
    for number, weights in enumerate(apart):
        Muon(weights, RATE, 0.1).step()
        for weight, together in zip(weights, stacked, strict=True):
            torch.testing.assert_close(together[number], weight, rtol=0, atol=1e-6)


def test_weights_without_a_gradient_stay() -> None:
    weights = weights_with_gradients((4, 4), (4,), (5, 4))
    weights[2].grad = None
    before = weights[2].detach().clone()
    Muon(weights, RATE, 0.1).step()
    assert torch.equal(weights[2], before)
    Muon([weights[2]], RATE).step()  # nothing to do
    assert np.isfinite(weights[0].detach().numpy()).all()


def test_closures_are_refused() -> None:
    with pytest.raises(ValueError, match="calls nothing"):
        Muon(weights_with_gradients((2, 2)), RATE).step(lambda: 0.0)
