"""A network of half a million parameters that trains on one CPU core at 64 px.

Plain 3x3 convolutions with channels in multiples of 16 are what oneDNN is fastest at, best in channels-last memory.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from placl.errors import InputError
from placl.models.zoo import KeypointNet, ModelSpec, heatmap_head, register

STEM = 16  # channels at stride 2
STAGES = ((32, 1), (64, 1), (112, 2))  # (channels, residual blocks) at strides 4, 8 and 16
DECODER = (32, 48)  # channels on the way back up, at strides 4 and 8


class TinyNet(KeypointNet):
    """Down to stride 16, where two blocks see all of a 64 px image, and back up to stride 4 with lateral connections.

    Parameters sit in the coarse stages, where one costs 16 multiplications an image against 256 at stride 4.
    """

    stride = 4
    feature_layers = ("up.0", "up.1", "final_layer")

    def __init__(self, keypoints: int, width: float = 1.0, prior: float | None = None) -> None:
        super().__init__()
        stem = scaled(STEM, width)
        channels = [scaled(c, width) for c, _ in STAGES]
        fine, coarse = (scaled(c, width) for c in DECODER)
        self.stem = nn.Sequential(*conv_bn_relu(3, stem, stride=2))
        self.stages = nn.ModuleList(
            nn.Sequential(Residual(into, out, stride=2), *(Residual(out, out) for _ in range(blocks - 1)))
            for into, out, (_, blocks) in zip([stem, *channels], channels, STAGES, strict=False)
        )
        self.up = nn.ModuleList([Up(channels[2], channels[1], coarse), Up(coarse, channels[0], fine)])
        self.final_layer = heatmap_head(fine, keypoints, prior)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)  # (B, C, H / 2, W / 2)
        pyramid = []
        for stage in self.stages:
            x = stage(x)  # strides 4, 8, 16
            pyramid.append(x)
        for up, lateral in zip(self.up, (pyramid[1], pyramid[0]), strict=True):
            x = up(x, lateral)  # strides 8, 4
        heatmaps: Tensor = self.final_layer(x)  # (B, K, H / 4, W / 4)
        return heatmaps


class Residual(nn.Module):
    """Two 3x3 convolutions beside a shortcut, as in ResNet-18."""

    def __init__(self, into: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *conv_bn_relu(into, out, stride), nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or into != out:
            self.shortcut = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


class Up(nn.Module):
    """Twice the resolution, plus what the encoder saw there, then one 3x3 convolution over the sum."""

    def __init__(self, below: int, lateral: int, out: int) -> None:
        super().__init__()
        self.below = nn.Conv2d(below, out, 1, bias=False)
        self.lateral = nn.Conv2d(lateral, out, 1, bias=False)
        self.refine = nn.Sequential(nn.BatchNorm2d(out), nn.ReLU(inplace=True), *conv_bn_relu(out, out))

    def forward(self, x: Tensor, lateral: Tensor) -> Tensor:
        x = F.interpolate(self.below(x), scale_factor=2.0, mode="nearest")
        refined: Tensor = self.refine(x + self.lateral(lateral))
        return refined


def conv_bn_relu(into: int, out: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(into, out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]


def scaled(channels: int, width: float) -> int:
    """``channels * width`` to the nearest multiple of 16, at least 16."""
    return max(16, 16 * round(channels * width / 16))


@register("tiny", "width")
def build(spec: ModelSpec) -> TinyNet:
    if spec.pretrained:
        raise InputError("model.init=pretrained: there are no pretrained weights for tiny. Use model.init=random.")
    return TinyNet(spec.keypoints, spec.width, spec.prior)
