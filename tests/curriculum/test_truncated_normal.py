"""The truncated normal against scipy's: density, sampling, and the gradient that the normaliser carries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import truncnorm
from torch import Tensor

from placl.curriculum.truncated_normal import log_density, sample

supports = st.sampled_from([(0.0, 1.0), (-0.3, 0.7), (-1.0, 0.0), (0.0, 0.25)])
shares = st.floats(0.0, 1.0)
sigmas = st.sampled_from([0.05, 0.2, 1.0])


def at(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def reference(mean: float, sigma: float, low: float, high: float) -> object:
    return truncnorm((low - mean) / sigma, (high - mean) / sigma, loc=mean, scale=sigma)


@settings(deadline=None)
@given(support=supports, place=shares, x=shares, sigma=sigmas)
def test_density_is_scipys(support: tuple[float, float], place: float, x: float, sigma: float) -> None:
    low, high = support
    mean, value = low + place * (high - low), low + x * (high - low)
    ours = log_density(at(value), at(mean), sigma, at(low), at(high))
    assert ours.item() == pytest.approx(reference(mean, sigma, low, high).logpdf(value), abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("mean", [-0.5, 1.5, -1.2, 2.2])
def test_density_keeps_its_digits_when_the_mean_is_outside(mean: float) -> None:
    ours = log_density(at(0.4), at(mean), 0.2, at(0.0), at(1.0))
    assert ours.item() == pytest.approx(reference(mean, 0.2, 0.0, 1.0).logpdf(0.4), rel=1e-9)


def test_density_by_hand() -> None:
    # So wide a sigma makes the density on [0, 1] uniform: log 1 = 0. At a narrow one's mean it is -log(s sqrt(2 pi)).
    assert log_density(at(0.3), at(0.5), 1e4, at(0.0), at(1.0)).item() == pytest.approx(0.0, abs=1e-7)
    narrow = -np.log(0.01 * np.sqrt(2 * np.pi))
    assert log_density(at(0.5), at(0.5), 0.01, at(0.0), at(1.0)).item() == pytest.approx(narrow, rel=1e-12)


def test_there_is_no_density_outside() -> None:
    x = torch.tensor([-0.01, 0.0, 1.0, 1.01], dtype=torch.float64)
    inside = torch.isfinite(log_density(x, at(0.5), 0.2, at(0.0), at(1.0)))
    assert inside.tolist() == [False, True, True, False]


@settings(deadline=None)
@given(support=supports, place=shares, u=st.floats(0.0, 0.999999), sigma=st.sampled_from([0.2, 1.0]))
def test_sampling_is_scipys_inverse_distribution(
    support: tuple[float, float], place: float, u: float, sigma: float
) -> None:
    low, high = support
    mean = low + place * (high - low)
    drawn = sample(at(u), at(mean), sigma, at(low), at(high)).item()
    assert low <= drawn <= high
    assert drawn == pytest.approx(reference(mean, sigma, low, high).ppf(u), abs=1e-9)


def test_many_samples_have_the_moments_of_the_distribution() -> None:
    uniform = torch.from_numpy(np.random.default_rng(0).random(200_000))
    drawn = sample(uniform, at(0.1), 0.2, at(0.0), at(1.0))
    mean, variance = reference(0.1, 0.2, 0.0, 1.0).stats("mv")
    assert drawn.mean().item() == pytest.approx(float(mean), abs=1e-3)
    assert drawn.var().item() == pytest.approx(float(variance), abs=1e-3)


@settings(deadline=None, max_examples=50)
@given(mean=st.floats(0.02, 0.98), x=shares)
def test_the_gradient_by_the_mean_includes_the_normaliser(mean: float, x: float) -> None:
    where = at(mean).requires_grad_()
    log_density(at(x), where, 0.2, at(0.0), at(1.0)).sum().backward()
    assert where.grad is not None
    h = 1e-5
    slope = (reference(mean + h, 0.2, 0, 1).logpdf(x) - reference(mean - h, 0.2, 0, 1).logpdf(x)) / (2 * h)
    assert where.grad.item() == pytest.approx(slope, abs=1e-3, rel=1e-5)


def test_at_the_edge_the_normaliser_is_what_the_gradient_would_lack() -> None:
    # At mean 0 half of the normal is cut off: d/dmean log Z = phi(0) / (sigma / 2) = 2 phi(0) / sigma.
    where = at(0.0).requires_grad_()
    log_density(at(0.1), where, 0.2, at(0.0), at(1.0)).sum().backward()
    assert where.grad is not None
    assert where.grad.item() == pytest.approx(0.1 / 0.04 - 2 / np.sqrt(2 * np.pi) / 0.2, abs=1e-4)
