"""SimpleBaseline: the published sizes, and backbones of every kind."""

from __future__ import annotations

import pytest
import torch

from placl.errors import InputError
from placl.models import create
from placl.models import simple_baseline as module
from placl.models.simple_baseline import SimpleBaseline, deconvolutions

torch.set_num_threads(1)

# torchvision's published counts less the classifier (2048 x 1000 + 1000), the deconvolutions of Xiao et al. and the
# head, each by hand. The paper's table says 34.0 M, 53.0 M and 68.6 M.
DECONVS = (2048 + 256 + 256) * 256 * 16 + 3 * 2 * 256
HEAD = 256 * 17 + 17
PUBLISHED = {"resnet50": 25_557_032, "resnet101": 44_549_160, "resnet152": 60_192_808}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    with torch.device("meta"):
        net = create(name, keypoints=17)
    expected = PUBLISHED[name] - 2_049_000 + DECONVS + HEAD
    assert sum(p.numel() for p in net.parameters()) == expected
    assert round(expected / 1e6, 1) == {"resnet50": 34.0, "resnet101": 53.0, "resnet152": 68.6}[name]


@pytest.mark.parametrize(
    ("backbone", "ups"),
    [
        ("resnet18", 3),
        ("mobilenetv3_small_050", 3),
        ("vit_tiny_patch16_224", 2),  # tokens, not maps
        ("swin_tiny_patch4_window7_224", 3),  # channels last
        ("densenet121", 3),  # no forward_intermediates
    ],
)
def test_any_backbone_at_another_image_size(backbone: str, ups: int) -> None:
    net = SimpleBaseline(keypoints=2, backbone=backbone).eval()
    assert len(net.deconv_layers) == 3 * ups
    with torch.inference_mode():
        assert net(torch.randn(1, 3, 64, 96)).shape == (1, 2, 16, 24)


def test_a_deconvolution_doubles_the_resolution() -> None:
    layers = deconvolutions(8, ups=2)
    assert layers(torch.randn(2, 8, 3, 5)).shape == (2, 256, 12, 20)


def test_a_stride_that_is_no_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "last_features", lambda name, pretrained: (torch.nn.Identity(), 8, 14))
    with pytest.raises(InputError, match=r"model.backbone=vit14 has stride 14"):
        SimpleBaseline(keypoints=2, backbone="vit14")
