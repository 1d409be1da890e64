"""Every registered network: shapes, reproducible initialisation, and the errors of the factory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from placl.errors import InputError
from placl.models import KeypointNet, ModelSpec, create, names, register, weights_sha256
from placl.models.zoo import heatmap_head

torch.set_num_threads(1)


def test_names() -> None:
    assert names() == (
        "fastpose", "hrnet_w18", "hrnet_w32", "hrnet_w48", "resnet101", "resnet152", "resnet50", "simple_baseline",
        "tiny",
    )  # fmt: skip


@pytest.mark.parametrize("name", names())
def test_one_heatmap_per_keypoint_at_the_stride(name: str) -> None:
    net = create(name, keypoints=5).eval()
    assert net.stride == 4
    with torch.inference_mode():
        heatmaps = net(torch.randn(1, 3, 64, 64))
    assert heatmaps.shape == (1, 5, 16, 16)
    assert heatmaps.dtype == torch.float32
    assert torch.isfinite(heatmaps).all()


@pytest.mark.parametrize("name", ["tiny", "resnet50", "hrnet_w18"])
def test_random_weights_follow_the_seed(name: str) -> None:
    def fresh(seed: int) -> str:
        torch.manual_seed(seed)
        return weights_sha256(create(name, keypoints=3))

    first = fresh(0)
    assert first == fresh(0)
    assert first != fresh(1)


@pytest.mark.parametrize("name", ["tiny", "simple_baseline_resnet18", "hrnet_w18"])
def test_every_parameter_gets_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    net = create(name, keypoints=2)
    net(torch.randn(2, 3, 64, 64)).square().sum().backward()
    assert [key for key, p in net.named_parameters() if p.grad is None] == []


def test_a_long_name_carries_the_backbone() -> None:
    with torch.device("meta"):
        long = create("simple_baseline_resnet101", keypoints=4)
        short = create("resnet101", keypoints=4)
        apart = create("simple_baseline", keypoints=4, backbone="resnet101")
    shapes = {key: tensor.shape for key, tensor in long.state_dict().items()}
    assert shapes == {key: tensor.shape for key, tensor in short.state_dict().items()}
    assert shapes == {key: tensor.shape for key, tensor in apart.state_dict().items()}


def test_head_starts_at_the_prior() -> None:
    head = heatmap_head(8, 3, prior=0.01)
    assert head.bias is not None
    assert head.bias.tolist() == pytest.approx([math.log(1 / 99)] * 3)
    plain = heatmap_head(8, 3)
    assert plain.bias is not None
    assert plain.bias.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "hrnet_32"}, 'model.name=hrnet_32: no such network. Did you mean "hrnet_w32"?'),
        ({"name": "Tiny"}, 'Did you mean "tiny"?'),
        ({"name": "simple_baseline_resnet50", "backbone": "resnet18"}, "disagree"),
        ({"name": "simple_baseline", "backbone": "resnet5O"}, 'timm has no such network. Did you mean "resnet50"?'),
        ({"name": "resnet50", "backbone": "resnet18"}, "model.backbone=resnet18: resnet50 has its own"),
        ({"name": "hrnet_w18", "width": 0.5}, "model.width=0.5: hrnet_w18 comes in one width"),
        ({"name": "tiny", "width": 0.0}, "model.width=0: must be positive"),
        ({"name": "tiny", "init": "imagenet"}, "model.init=imagenet: must be one of random, pretrained"),
        ({"name": "tiny", "init": "pretrained"}, "no pretrained weights for tiny"),
        ({"name": "tiny", "keypoints": 0}, "at least one keypoint"),
        ({"name": "tiny", "prior": 1.0}, "between 0 and 1"),
        ({"name": "tiny", "weights": Path("nowhere.safetensors")}, "nowhere.safetensors: no such file"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        create(**{"keypoints": 3, **arguments})
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_is_registered_once() -> None:
    def build(spec: ModelSpec) -> KeypointNet:
        raise AssertionError("never built")

    with pytest.raises(ValueError, match="registered already"):
        register("tiny")(build)
