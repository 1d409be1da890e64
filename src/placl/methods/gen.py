"""Gen (Jakab et al. 2018), semi-supervised: keypoints are good if an image can be drawn from them.

    L = L_labelled + w * mean over i of |Phi_i(D(A(x), G(L(x')))) - Phi_i(x')|^2 / |Phi_i(x')|^2

x and x' are the first and the hard view of an image. A sees what the object looks like in x, G draws a Gaussian at the
soft-argmax L of each heatmap of x', and D must draw x' from both: of the geometry of x' it knows no more than K places.
Phi_0 are the pixels, Phi_1 and Phi_2 perceptual features. All layers count alike, as in the paper, which divides each
by a running mean of its error. Left open, or chosen otherwise:

- The paper's Phi is a VGG trained on ImageNet, which would have to be downloaded; ours is a small random network, which
  is never trained. Random convolutions see edges and textures at several scales (Zhang et al. 2018 find untrained
  features a better metric than pixels), and unlike the keypoint network's own they cannot learn to see nothing.
- Images are drawn at half the input's side by 16 to 32 channels, for the sake of CPUs.
- The paper has no labels; Moskvyak et al. 2021 use it beside a supervised loss, and do not state a weight. Ours was
  chosen on synthetic animals so as not to fall below supervised training by a point: of 0.01 to 0.3, 0.1 did best.
- Labels are used in both views, as in PoseCons: unlabelled images take the place of labelled ones in a batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.learn.device import autocast
from placl.methods.consistency import Seen, Term, consistent
from placl.methods.elt import labels_again, soft_argmax
from placl.methods.posecons import outputs_of
from placl.methods.views import View
from placl.models.tiny import conv_bn_relu
from placl.models.zoo import KeypointNet

WEIGHT = 0.1
FINE, COARSE = 16, 32  # channels: few where pixels are many
EMPTY = 1e-6  # the least mean square of an image that can be divided by


class Painter(nn.Module):
    """D(A(x), G): half-size images from a half-size view and (B, K, H, W) Gaussians of a quarter of the side."""

    def __init__(self, keypoints: int) -> None:
        super().__init__()
        self.appearance = nn.Sequential(
            *conv_bn_relu(3, FINE, stride=2), *conv_bn_relu(FINE, COARSE, stride=2), *conv_bn_relu(COARSE, COARSE)
        )
        self.geometry = nn.Conv2d(keypoints, COARSE, 1)
        self.compose = nn.Sequential(*conv_bn_relu(COARSE, FINE), *conv_bn_relu(FINE, FINE))
        self.paint = nn.Sequential(nn.Conv2d(FINE, 4 * 3, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, image: Tensor, gaussians: Tensor) -> Tensor:
        looks = F.interpolate(self.appearance(image), size=gaussians.shape[-2:], mode="nearest")  # (B, C, H, W)
        painted: Tensor = self.paint(self.compose(looks + self.geometry(gaussians)))
        return painted


class RandomFeatures(nn.Module):
    """Phi: an image, and what two random convolutions without bias make of it. They are never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(into, out, 3, stride=2, padding=1, bias=False) for into, out in ((3, FINE), (FINE, COARSE))
        )
        self.requires_grad_(False)

    def forward(self, image: Tensor) -> list[Tensor]:
        features = [image]
        for layer in self.layers:
            features.append(F.relu(layer(features[-1])))
        return features


class Gen(Term):
    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__(config, net, skeleton, seed)
        self.painter = Painter(len(skeleton))
        self.features = RandomFeatures()
        self.to(memory_format=torch.channels_last)

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        target = seen.others[0]
        outputs = outputs_of(self, net, target)
        return labels_again(self, outputs, seen, target) + WEIGHT * self.generation(outputs, seen.first, target)

    def generation(self, outputs: Tensor, source: View, target: View) -> Tensor:
        """How far off ``target`` is, as drawn from the looks of ``source`` and the network's outputs of ``target``."""
        places = soft_argmax(self.config.train.loss, outputs, self.codec)  # (B, K, 2)
        gaussians, _ = self.codec.encode(places, torch.ones(places.shape[:2], device=places.device))
        side = 2 * self.codec.heatmap_size
        looks, image = (F.adaptive_avg_pool2d(view.images, side) for view in (source, target))
        with autocast(self.config.train.precision, image.device):
            painted = self.features(self.painter(looks, gaussians))
            real = self.features(image)
        return relative_error(painted, real)


def relative_error(painted: list[Tensor], real: list[Tensor]) -> Tensor:
    """The mean over layers of |painted - real|^2 / |real|^2: 1 for an image of nothing but the mean colour."""
    pairs = [(drawn.float(), shown.float()) for drawn, shown in zip(painted, real, strict=True)]
    return torch.stack([F.mse_loss(a, b) / b.square().mean().clamp(min=EMPTY) for a, b in pairs]).mean()


METHOD = consistent(Gen)
