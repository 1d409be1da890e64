"""FastPose: AlphaPose's network, by counting its parameters from the published description."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from placl.errors import InputError
from placl.models import create, load_into
from placl.models.fastpose import FastPose, duc

torch.set_num_threads(1)

RESNET101 = 44_549_160 - 2_049_000  # torchvision's published count less the classifier's


def test_parameters_are_those_of_the_description() -> None:
    with torch.device("meta"):
        net = create("fastpose", keypoints=17)
    # Two fully connected layers as wide as the stage, in the first block of each: the gate does not narrow.
    gates = sum(2 * (channels * channels + channels) for channels in (256, 512, 1024, 2048))
    ducs = sum(9 * into * out + 2 * out for into, out in ((512, 1024), (256, 512)))
    head = 9 * 128 * 17 + 17
    count = sum(p.numel() for p in net.parameters())
    assert count == RESNET101 + gates + ducs + head == 59_569_873


def test_only_the_first_block_of_a_stage_squeezes() -> None:
    with torch.device("meta"):
        net = FastPose(keypoints=2)
    squeezing = {name.rsplit(".", 3)[0] for name, _ in net.named_parameters() if ".se." in name}
    assert squeezing == {f"backbone.layer{stage}.0" for stage in (1, 2, 3, 4)}


def test_256_px_become_64_px_heatmaps() -> None:
    with torch.device("meta"):
        net = create("fastpose", keypoints=20)
        assert net(torch.empty(2, 3, 256, 256)).shape == (2, 20, 64, 64)


def test_a_duc_lays_four_channels_out_as_a_square() -> None:
    layers = duc(2)
    conv = layers[0]
    assert isinstance(conv, nn.Conv2d)
    nn.init.zeros_(conv.weight)
    with torch.no_grad():
        for channel in range(4):
            conv.weight[channel, 0, 1, 1] = channel + 1.0  # four multiples of the first channel
    image = torch.tensor([[[[1.0, 10.0]], [[9.0, 9.0]]]])  # (1, 2, 1, 2)
    expected = torch.tensor([[1.0, 2.0, 10.0, 20.0], [3.0, 4.0, 30.0, 40.0]])
    found = layers.eval()(image)
    assert found.shape == (1, 1, 2, 4)
    torch.testing.assert_close(found[0, 0], expected, rtol=1e-4, atol=1e-4)  # BatchNorm's epsilon


def test_imagenet_weights_leave_out_what_classification_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.device("meta"):
        net = FastPose(keypoints=2)
    state = {key.removeprefix("backbone."): value for key, value in net.state_dict().items() if "backbone." in key}
    plain = {key: value for key, value in state.items() if ".se." not in key}
    monkeypatch.setattr("placl.models.weights.read_state", lambda path: plain)
    report = load_into(net, Path("resnet101.pth"))
    assert report.loaded == len(plain)
    assert all(key.startswith(("up.", "final_layer.")) or ".0.se." in key for key in report.missing)
    del plain["layer3.22.conv1.weight"]
    with pytest.raises(InputError, match=r"layer3\.22\.conv1\.weight"):
        load_into(net, Path("resnet50.pth"))
