"""The tiny network: its size, what it sees, and that it learns."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from placl.models.tiny import TinyNet, scaled

torch.set_num_threads(1)


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_half_a_million_parameters() -> None:
    assert 450_000 < parameters(TinyNet(15)) < 550_000


def test_width_scales_the_channels() -> None:
    assert parameters(TinyNet(15, width=0.5)) < parameters(TinyNet(15)) / 3
    assert parameters(TinyNet(15, width=2.0)) > parameters(TinyNet(15)) * 3


@given(st.integers(1, 64).map(lambda n: 16 * n), st.floats(0.01, 8.0))
def test_scaled_channels_are_near_multiples_of_16(channels: int, width: float) -> None:
    out = scaled(channels, width)
    assert out % 16 == 0
    assert out == 16 or abs(out - channels * width) <= 8


@pytest.mark.parametrize("cell", [(0, 0), (8, 8), (15, 15)])
def test_every_output_sees_the_whole_64_px_image(cell: tuple[int, int]) -> None:
    torch.manual_seed(0)
    net = TinyNet(1).double().eval()
    for module in net.modules():  # positive weights: no path cancels another, no ReLU closes
        if isinstance(module, nn.Conv2d):
            nn.init.constant_(module.weight, 1.0 / module.weight[0].numel())
    image = torch.ones(1, 3, 64, 64, dtype=torch.float64, requires_grad=True)
    net(image)[0, 0, cell[0], cell[1]].backward()
    assert image.grad is not None
    seen = image.grad[0].abs().sum(0) > 0  # (64, 64)
    assert seen.all()


def test_outputs_do_not_depend_on_the_memory_format() -> None:
    torch.manual_seed(0)
    net = TinyNet(4).eval()
    images = torch.randn(2, 3, 64, 96)
    with torch.inference_mode():
        expected = net(images)
        found = net.to(memory_format=torch.channels_last)(images.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_prior_is_what_a_fresh_network_predicts() -> None:
    torch.manual_seed(0)
    net = TinyNet(3, prior=0.01)
    heatmaps = net(torch.randn(4, 3, 64, 64)).sigmoid()
    assert heatmaps.mean().item() == pytest.approx(0.01, rel=0.1)


def test_finds_a_bright_dot_after_sixty_steps() -> None:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)

    def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        cells = torch.randint(0, 16, (size, 2), generator=generator)  # (B, 2) row, column
        maps = torch.zeros(size, 1, 16, 16)
        maps[torch.arange(size), 0, cells[:, 0], cells[:, 1]] = 1.0
        images = 0.3 * torch.randn(size, 3, 64, 64, generator=generator) + F.interpolate(maps, scale_factor=4.0)
        return images, maps

    net = TinyNet(1, width=0.5, prior=0.01)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(60):
        images, maps = batch(16)
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(net(images), maps).backward()
        optimizer.step()
    images, maps = batch(32)
    with torch.inference_mode():
        found = net.eval()(images)
    hits = found.flatten(1).argmax(1) == maps.flatten(1).argmax(1)
    assert hits.float().mean().item() > 0.9
