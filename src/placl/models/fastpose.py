"""FastPose, the network of AlphaPose (Fang et al. 2017): ResNet-101 with squeeze-excitation, up again by pixel shuffle.

    2048 channels at stride 32 -> shuffle -> 512 at 16 -> DUC -> 256 at 8 -> DUC -> 128 at 4 -> 3x3 head

A DUC (dense up-sampling convolution) is a 3x3 convolution to four times the channels, which are then laid out as 2 x 2
pixels. Squeeze-excitation stands in the first block of each of the four stages only, and does not narrow, as in the
authors' published model. The ResNet is timm's, so ImageNet weights fit.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from placl.models.weights import load_backbone
from placl.models.zoo import KeypointNet, ModelSpec, heatmap_head, register

BACKBONE = "resnet101"
DEEPEST = 2048  # channels
STAGES = ("layer1", "layer2", "layer3", "layer4")


class FastPose(KeypointNet):
    stride = 4
    feature_layers = ("up.0", "up.2", "final_layer")
    fresh = ("up.", *(f"backbone.{stage}.0.se." for stage in STAGES))

    def __init__(self, keypoints: int, pretrained: bool = False, prior: float | None = None) -> None:
        super().__init__()
        self.backbone = squeezing(load_backbone(BACKBONE, pretrained=pretrained, num_classes=0, global_pool=""))
        self.up = nn.Sequential(nn.PixelShuffle(2), duc(DEEPEST // 4), duc(DEEPEST // 8))
        self.final_layer = heatmap_head(DEEPEST // 16, keypoints, prior, kernel=3)

    def forward(self, images: Tensor) -> Tensor:
        features = self.backbone(images)  # (B, 2048, H / 32, W / 32)
        heatmaps: Tensor = self.final_layer(self.up(features))  # (B, K, H / 4, W / 4)
        return heatmaps


def squeezing(resnet: Any) -> nn.Module:
    """timm's ResNet with squeeze-excitation before the addition in the first block of each stage."""
    from timm.layers.squeeze_excite import SEModule  # slow to import, and there once a backbone is

    for stage in STAGES:
        block = getattr(resnet, stage)[0]
        channels = block.conv3.out_channels
        block.se = SEModule(channels, rd_channels=channels)
    network: nn.Module = resnet
    return network


def duc(channels: int) -> nn.Sequential:
    """Twice the resolution with half the channels."""
    return nn.Sequential(
        nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(2 * channels),
        nn.ReLU(inplace=True),
        nn.PixelShuffle(2),
    )


@register("fastpose")
def build(spec: ModelSpec) -> FastPose:
    return FastPose(spec.keypoints, spec.pretrained, spec.prior)
