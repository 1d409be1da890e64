"""HRNet for keypoints (Sun et al. 2019), from timm's stages: the finest of the four branches goes to a 1x1 head."""

from __future__ import annotations

from functools import partial
from typing import cast

from torch import Tensor, nn

from placl.models.weights import load_backbone
from placl.models.zoo import KeypointNet, ModelSpec, heatmap_head, register

WIDTHS = (18, 32, 48)  # channels of the finest branch; branch i has 2^i times as many


class HRNet(KeypointNet):
    """``backbone`` holds the stem, layer1, transitions and stages under the names of the authors' checkpoints."""

    stride = 4
    feature_layers = ("backbone.stage4", "final_layer")

    def __init__(self, keypoints: int, channels: int, pretrained: bool = False, prior: float | None = None) -> None:
        super().__init__()
        self.backbone = pose_backbone(channels, pretrained)
        self.final_layer = heatmap_head(channels, keypoints, prior)

    def forward(self, images: Tensor) -> Tensor:
        (finest,) = self.backbone(images)  # (B, C, H / 4, W / 4)
        heatmaps: Tensor = self.final_layer(finest)  # (B, K, H / 4, W / 4)
        return heatmaps


def pose_backbone(channels: int, pretrained: bool) -> nn.Module:
    """timm's HRNet without what serves classification only.

    That is the head (``feature_location=""`` leaves it out) and, in the last module, the fusion into the three coarser
    branches, which nothing would read.
    """
    # out_indices counts the stem as 0, so 1 is the finest branch of stage 4.
    net: nn.Module = load_backbone(
        f"hrnet_w{channels}", pretrained=pretrained, features_only=True, feature_location="", out_indices=(1,)
    )
    last = cast(nn.Sequential, net.get_submodule("stage4"))[-1]
    fuse_layers = cast(nn.ModuleList, last.get_submodule("fuse_layers"))
    last.fuse_layers = fuse_layers[:1]
    return net


def _build(channels: int, spec: ModelSpec) -> HRNet:
    return HRNet(spec.keypoints, channels, spec.pretrained, spec.prior)


for _channels in WIDTHS:
    register(f"hrnet_w{_channels}")(partial(_build, _channels))
