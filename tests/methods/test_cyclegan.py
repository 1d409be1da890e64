"""CycleGAN: every term against its formula, and that each network learns from its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from across import moved
from placl.methods.cyclegan import (
    CYCLE,
    IDENTITY,
    CycleGAN,
    Generator,
    PatchDiscriminator,
    distance,
    fixed,
    judgement,
)


class Shift(nn.Module):
    """A generator that adds a number, and a discriminator that says the mean of an image."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by))

    def forward(self, images: Tensor) -> Tensor:
        return images + self.by


class Mean(nn.Module):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))

    def forward(self, images: Tensor) -> Tensor:
        return self.gain * images.mean((1, 2, 3))


def toy() -> CycleGAN:
    gan = CycleGAN()
    gan.to_target, gan.to_source = Shift(0.5), Shift(-0.25)
    gan.is_target, gan.is_source = Mean(2.0), Mean(3.0)
    return gan


def images(value: float, count: int) -> Tensor:
    return torch.full((count, 3, 8, 8), value)


def test_the_loss_by_hand() -> None:
    source, target = 0.1, 0.7
    fooled = (2 * (source + 0.5) - 1) ** 2 + (3 * (target - 0.25) - 1) ** 2
    cycle = abs(source + 0.5 - 0.25 - source) + abs(target - 0.25 + 0.5 - target)
    identity = abs(0.5) + abs(-0.25)
    judged_target = ((2 * target - 1) ** 2 + (2 * (source + 0.5)) ** 2) / 2
    judged_source = ((3 * source - 1) ** 2 + (3 * (target - 0.25)) ** 2) / 2
    expected = fooled + CYCLE * cycle + IDENTITY * identity + judged_target + judged_source
    assert toy().loss(images(source, 2), images(target, 3)).item() == pytest.approx(expected, rel=1e-5)


def test_cycle_and_identity_are_mean_absolute_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    source, target = (random.normal(size=(count, 3, 8, 8)).astype(np.float32) for count in (2, 3))
    torch.manual_seed(0)
    gan = CycleGAN()
    for generator in (gan.to_target, gan.to_source):
        nn.init.normal_(generator.out[0].weight, std=0.1)
    s, t = torch.from_numpy(source), torch.from_numpy(target)
    whole = gan.loss(s, t).item()
    monkeypatch.setattr("placl.methods.cyclegan.CYCLE", 0.0)
    without_cycle = gan.loss(s, t).item()
    monkeypatch.setattr("placl.methods.cyclegan.IDENTITY", 0.0)
    without_both = gan.loss(s, t).item()

    def away(found: Tensor, truth: np.ndarray) -> float:
        return float(np.abs(found.detach().numpy() - truth).mean())

    cycle = away(gan.to_source(gan.to_target(s)), source) + away(gan.to_target(gan.to_source(t)), target)
    identity = away(gan.to_target(t), target) + away(gan.to_source(s), source)
    assert whole - without_cycle == pytest.approx(CYCLE * cycle, rel=1e-3)
    assert without_cycle - without_both == pytest.approx(IDENTITY * identity, rel=1e-3)


def test_each_loss_trains_its_own_networks() -> None:
    # By hand: dL / d(gain of D_t) is that of L_D alone, dL / d(shift of G) that of L_G alone.
    gan = toy()
    source, target = 0.1, 0.7
    gan.loss(images(source, 1), images(target, 1)).backward()
    gradients = {name: p.grad.item() for name, p in gan.named_parameters() if p.grad is not None}
    fake = source + 0.5
    assert gradients["is_target.gain"] == pytest.approx((2 * target - 1) * target + 2 * fake * fake, rel=1e-5)
    # Fooling D_t; the cycle of s and of t, each off by 0.25 > 0; the identity of t.
    assert gradients["to_target.by"] == pytest.approx(2 * 2 * (2 * fake - 1) + 2 * CYCLE + IDENTITY, rel=1e-5)


def test_a_judgement_does_not_reach_the_generator() -> None:
    fake = images(0.5, 1).requires_grad_()
    judgement(Mean(1.0), images(1.0, 1), fake).backward()
    assert fake.grad is None


def test_what_is_fixed_passes_gradients_on() -> None:
    judge, fake = Mean(1.0), images(0.5, 1).requires_grad_()
    with fixed(judge):
        loss = distance(judge(fake), 1.0)
    loss.backward()
    assert judge.gain.grad is None
    assert fake.grad is not None
    assert judge.gain.requires_grad


def test_generators_begin_by_changing_nothing() -> None:
    shown = torch.randn(2, 3, 16, 16)
    generator = Generator()
    assert torch.equal(generator(shown), shown)
    generator(shown).square().sum().backward()
    assert moved(generator) == {"out.0.weight"}


def test_a_discriminator_judges_patches() -> None:
    judge = PatchDiscriminator()
    shown = torch.randn(1, 3, 48, 48)
    assert judge(shown).shape == (1, 1, 12, 12)
    before = judge(shown)
    shown[..., :4, :4] = 9.0
    changed = (judge(shown) != before)[0, 0]
    assert changed[:3, :3].any()
    assert not changed[4:].any()
    assert not changed[:, 4:].any()


def test_translations_learn_the_looks_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    # Dark images of the source and bright ones of the target, each with noise that is the image's own. The identity
    # and the cycle are there to keep colours, so a change of nothing but brightness is learned without them.
    monkeypatch.setattr("placl.methods.cyclegan.CYCLE", 0.1)
    monkeypatch.setattr("placl.methods.cyclegan.IDENTITY", 0.0)
    torch.manual_seed(0)
    gan = CycleGAN()
    optimizer = torch.optim.Adam(gan.parameters(), lr=2e-3, betas=(0.5, 0.999))
    for _ in range(100):
        source, target = torch.randn(4, 3, 16, 16) - 1, torch.randn(4, 3, 16, 16) + 1
        optimizer.zero_grad()
        gan.loss(source, target).backward()
        optimizer.step()
    with torch.no_grad():
        source = torch.randn(16, 3, 16, 16) - 1
        assert gan.to_target(source).mean() > source.mean() + 0.3
        target = torch.randn(16, 3, 16, 16) + 1
        assert gan.to_source(target).mean() < target.mean() - 0.3
