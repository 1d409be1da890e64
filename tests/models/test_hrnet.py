"""HRNet: exactly the authors' pose network, by counting its parameters from the paper's description."""

from __future__ import annotations

import pytest
import torch

from placl.models import create

torch.set_num_threads(1)


def conv_bn(into: int, out: int, kernel: int) -> int:
    return into * out * kernel * kernel + 2 * out


def module(channels: list[int], outputs: int) -> int:
    """Four residual blocks in each branch, then every branch fused into each of the first ``outputs``."""
    count = sum(4 * 2 * conv_bn(c, c, 3) for c in channels)
    for i, out in enumerate(channels[:outputs]):
        for j, into in enumerate(channels):
            if j > i:
                count += conv_bn(into, out, 1)
            elif j < i:
                count += (i - j - 1) * conv_bn(into, into, 3) + conv_bn(into, out, 3)
    return count


def pose_hrnet(c: int, keypoints: int) -> int:
    """Sun et al. 2019, section 3: 1, 4 and 3 modules of 2, 3 and 4 branches, the last with one output."""
    branches = [c, 2 * c, 4 * c, 8 * c]
    stem = conv_bn(3, 64, 3) + conv_bn(64, 64, 3)
    bottleneck = conv_bn(64, 64, 3) + conv_bn(64, 256, 1)
    layer1 = (conv_bn(64, 64, 1) + conv_bn(64, 256, 1)) + 3 * conv_bn(256, 64, 1) + 4 * bottleneck
    transitions = conv_bn(256, c, 3) + conv_bn(256, 2 * c, 3) + conv_bn(2 * c, 4 * c, 3) + conv_bn(4 * c, 8 * c, 3)
    stages = module(branches[:2], 2) + 4 * module(branches[:3], 3) + 2 * module(branches, 4) + module(branches, 1)
    return stem + layer1 + transitions + stages + c * keypoints + keypoints


@pytest.mark.parametrize(("channels", "millions"), [(18, 9.3), (32, 28.5), (48, 63.6)])
def test_parameter_count(channels: int, millions: float) -> None:
    with torch.device("meta"):
        net = create(f"hrnet_w{channels}", keypoints=17)
    count = sum(p.numel() for p in net.parameters())
    assert count == pose_hrnet(channels, keypoints=17)
    assert round(count / 1e6, 1) == millions


def test_w32_has_28_536_113_parameters() -> None:
    assert pose_hrnet(32, keypoints=17) == 28_536_113


def test_256_px_become_64_px_heatmaps() -> None:
    with torch.device("meta"):
        net = create("hrnet_w32", keypoints=17)
        assert net(torch.empty(2, 3, 256, 256)).shape == (2, 17, 64, 64)
