"""SimpleBaseline (Xiao, Wu and Wei 2018): any timm backbone, deconvolutions back up to stride 4, a 1x1 head."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from torch import Tensor, nn

from placl.errors import InputError
from placl.models.weights import load_backbone
from placl.models.zoo import SIMPLE_BASELINE, KeypointNet, ModelSpec, heatmap_head, register

DECONV_CHANNELS = 256
DEFAULT_BACKBONE = "resnet50"

# How timm's transformers are told that images may have other sizes than they were trained with. Swin takes the first
# and silently ignores the second, so the order matters.
ANY_IMAGE_SIZE = ({"strict_img_size": False}, {"dynamic_img_size": True})


class SimpleBaseline(KeypointNet):
    """Names of modules are those of the authors' and mmpose's checkpoints."""

    stride = 4
    feature_layers = ("deconv_layers", "final_layer")
    fresh = ("deconv_layers.",)

    def __init__(
        self, keypoints: int, backbone: str = DEFAULT_BACKBONE, pretrained: bool = False, prior: float | None = None
    ) -> None:
        super().__init__()
        self.backbone, channels, reduction = last_features(backbone, pretrained)
        self.deconv_layers = deconvolutions(channels, ups=_ups(backbone, reduction))
        self.final_layer = heatmap_head(DECONV_CHANNELS, keypoints, prior)

    def forward(self, images: Tensor) -> Tensor:
        backbone: Any = self.backbone
        if hasattr(backbone, "forward_intermediates"):
            features = backbone.forward_intermediates(
                images, indices=1, norm=True, output_fmt="NCHW", intermediates_only=True
            )
        else:
            features = backbone(images)
        heatmaps: Tensor = self.final_layer(self.deconv_layers(features[-1]))  # (B, K, H / 4, W / 4)
        return heatmaps


def last_features(name: str, pretrained: bool) -> tuple[nn.Module, int, int]:
    """A timm backbone cut off after its last feature map, that map's channels and its stride.

    ``forward_intermediates`` gives NCHW maps for transformers too and keeps the names of the ImageNet checkpoint; the
    few families without it (VGG, DenseNet, ...) go through timm's feature wrapper.
    """
    net = _whole_backbone(name, pretrained)
    if hasattr(net, "forward_intermediates"):
        net.prune_intermediate_layers(1, prune_norm=False, prune_head=True)
        last = net.feature_info[-1]
        return net, last["num_chs"], last["reduction"]
    net = load_backbone(name, pretrained=pretrained, features_only=True)
    return net, net.feature_info.channels()[-1], net.feature_info.reduction()[-1]


def _whole_backbone(name: str, pretrained: bool) -> Any:
    for options in ANY_IMAGE_SIZE:
        try:
            return load_backbone(name, pretrained=pretrained, num_classes=0, **options)
        except TypeError:  # not a word of this family: convolutions take any size as they are
            continue
    return load_backbone(name, pretrained=pretrained, num_classes=0)


def deconvolutions(channels: int, ups: int) -> nn.Sequential:
    """``ups`` doublings of the resolution, each 4x4 transposed convolution, BatchNorm, ReLU."""
    layers: list[nn.Module] = []
    for _ in range(ups):
        deconv = nn.ConvTranspose2d(channels, DECONV_CHANNELS, kernel_size=4, stride=2, padding=1, bias=False)
        nn.init.normal_(deconv.weight, std=0.001)
        layers += [deconv, nn.BatchNorm2d(DECONV_CHANNELS), nn.ReLU(inplace=True)]
        channels = DECONV_CHANNELS
    return nn.Sequential(*layers)


def _ups(backbone: str, reduction: int) -> int:
    """How many doublings lead from the backbone's stride to 4: three from 32, two from a ViT's 16."""
    if reduction not in (8, 16, 32, 64):
        raise InputError(f"model.backbone={backbone} has stride {reduction}. Choose one with stride 8, 16, 32 or 64.")
    return int(math.log2(reduction // SimpleBaseline.stride))


@register(SIMPLE_BASELINE, "backbone")
def build(spec: ModelSpec) -> SimpleBaseline:
    return SimpleBaseline(spec.keypoints, spec.backbone or DEFAULT_BACKBONE, spec.pretrained, spec.prior)


def _build_resnet(backbone: str, spec: ModelSpec) -> SimpleBaseline:
    return SimpleBaseline(spec.keypoints, backbone, spec.pretrained, spec.prior)


for _name in ("resnet50", "resnet101", "resnet152"):
    register(_name)(partial(_build_resnet, _name))
