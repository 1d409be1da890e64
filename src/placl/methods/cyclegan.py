"""CycleGAN (Zhu et al. 2017), small enough for CPUs: images of one domain with the looks of the other.

    L_G = |D_t(G s) - 1|^2 + |D_s(F t) - 1|^2 + 10 (|F G s - s| + |G F t - t|) + 5 (|G t - t| + |F s - s|)
    L_D = (|D_t t - 1|^2 + |D_t(G s)|^2 + |D_s s - 1|^2 + |D_s(F t)|^2) / 2

s and t are images of source and target, G translates to the target and F back; the last two terms of L_G are the cycle
and the identity. Losses, weights and their least squares are the published ones. Discriminators judge patches.
Generators add to an image what one residual block on blocks of 4 x 4 pixels makes of it, and begin by adding nothing,
so that labels fit their translations from the first step on. Left out: the memory of earlier translations, and the
norms of discriminators, which would not see how bright an image is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CYCLE, IDENTITY = 10.0, 5.0
CHANNELS = 32
PATCH = 4  # pixels a side that a generator sees as one


class Generator(nn.Module):
    """Images (B, 3, S, S) -> images of the other domain; S is a multiple of 4."""

    def __init__(self) -> None:
        super().__init__()
        pixels = 3 * PATCH**2
        last = nn.Conv2d(CHANNELS, pixels, 1, bias=False)
        nn.init.zeros_(last.weight)
        self.into = nn.Sequential(nn.PixelUnshuffle(PATCH), nn.Conv2d(pixels, CHANNELS, 1), nn.ReLU(inplace=True))
        self.block = nn.Sequential(
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
            nn.InstanceNorm2d(CHANNELS),
            nn.ReLU(inplace=True),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
        )
        self.out = nn.Sequential(last, nn.PixelShuffle(PATCH))

    def forward(self, images: Tensor) -> Tensor:
        features = self.into(images)
        translated: Tensor = images + self.out(features + self.block(features))
        return translated


class PatchDiscriminator(nn.Module):
    """Images (B, 3, S, S) -> (B, 1, S / 4, S / 4): near 1 where the patch around looks real."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, CHANNELS // 2, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(CHANNELS // 2, CHANNELS, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(CHANNELS, 1, 3, padding=1),
        )

    def forward(self, images: Tensor) -> Tensor:
        judged: Tensor = self.layers(images)
        return judged


class CycleGAN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_target, self.to_source = Generator(), Generator()
        self.is_target, self.is_source = PatchDiscriminator(), PatchDiscriminator()

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        """L_G + L_D of (n, 3, S, S) and (m, 3, S, S) images: each trains its own networks and no others."""
        fake_target, same_target = self.to_target(torch.cat([source, target])).split([len(source), len(target)])
        fake_source, same_source = self.to_source(torch.cat([target, source])).split([len(target), len(source)])
        with fixed(self.is_target, self.is_source):
            fooled = distance(self.is_target(fake_target), 1.0) + distance(self.is_source(fake_source), 1.0)
        cycle = F.l1_loss(self.to_source(fake_target), source) + F.l1_loss(self.to_target(fake_source), target)
        identity = F.l1_loss(same_target, target) + F.l1_loss(same_source, source)
        judged = judgement(self.is_target, target, fake_target) + judgement(self.is_source, source, fake_source)
        return fooled + CYCLE * cycle + IDENTITY * identity + judged


def judgement(discriminator: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    """The discriminator's half of L_D."""
    return (distance(discriminator(real), 1.0) + distance(discriminator(fake.detach()), 0.0)) / 2


def distance(judged: Tensor, truth: float) -> Tensor:
    """|judged - truth|^2, the mean over patches."""
    return (judged.float() - truth).square().mean()


@contextmanager
def fixed(*networks: nn.Module) -> Iterator[None]:
    """Gradients go through these networks, and not into them."""
    for network in networks:
        network.requires_grad_(False)
    try:
        yield
    finally:
        for network in networks:
            network.requires_grad_(True)
