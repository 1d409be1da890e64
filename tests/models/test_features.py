"""Features on their way to heatmaps: which they are, and that the network is left as it was."""

from __future__ import annotations

import pytest
import torch

from placl.models import create, names
from placl.models.features import FeatureTap, feature_channels
from placl.models.weights import weights_sha256

torch.set_num_threads(1)


@pytest.mark.parametrize("name", names())
def test_every_network_has_features_from_coarse_to_fine(name: str) -> None:
    with torch.device("meta"):
        net = create(name, keypoints=3)
        tap = FeatureTap(net)
        net(torch.empty(2, 3, 64, 64))
    sides = [features.shape[-1] for features in tap.maps]
    assert sides == sorted(sides)
    assert sides[0] < sides[-1] == 16  # the last are those that heatmaps are made from
    assert all(len(features) == 2 for features in tap.maps)


def test_features_are_those_of_the_latest_answer() -> None:
    net = create("tiny", keypoints=3, width=0.25).eval()
    tap = FeatureTap(net)
    images = torch.randn(2, 3, 32, 32)
    heatmaps = net(images)
    torch.testing.assert_close(net.get_submodule("final_layer")(tap.maps[-1]), heatmaps)
    torch.testing.assert_close(tap.pooled()[0], tap.maps[0].flatten(2).mean(2))
    net(images[:1])
    assert len(tap.maps[0]) == 1


def test_counting_channels_changes_nothing() -> None:
    net = create("tiny", keypoints=3, width=0.25)
    before = weights_sha256(net)
    assert feature_channels(net, 32) == [32, 16, 16]
    assert weights_sha256(net) == before
    assert net.training
    assert not any(module._forward_pre_hooks for module in net.modules())


def test_a_closed_tap_has_left_the_network() -> None:
    net = create("tiny", keypoints=3, width=0.25)
    tap = FeatureTap(net)
    assert sum(len(module._forward_pre_hooks) for module in net.modules()) == 3
    tap.close()
    assert not any(module._forward_pre_hooks for module in net.modules())
