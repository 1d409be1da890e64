"""A network with everything around it, as one graph: pixels go in, keypoints and their confidence come out.

Whoever loads the file elsewhere has neither placl's normalisation nor its decoding, and a second version of either
would be wrong by half a pixel before long. So both are in the graph, from the code that ``placl predict`` runs.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from placl.config import Config
from placl.data.augment import normalisation
from placl.learn.label import make_codec, read_heatmaps
from placl.learn.losses import answer
from placl.models.zoo import KeypointNet


class Reader(nn.Module):
    """(B, 3, S, S) float32 RGB crops in 0 to 255 -> (B, K, 2) keypoints in crop pixels and (B, K) confidence.

    Floats and not bytes, since every runtime takes them, and crops that were resized in floats need no rounding. The
    plain image is read once, in float32: mirrored and turned views are for pseudo-labels alone.
    """

    gain: Tensor  # (3, 1, 1)
    bias: Tensor

    def __init__(self, net: KeypointNet, config: Config) -> None:
        super().__init__()
        # A copy: the caller's network stays where it is, in the memory format that training is fast in.
        self.net = copy.deepcopy(net).to("cpu").to(memory_format=torch.contiguous_format).eval()
        self.net.requires_grad_(False)
        self.codec = make_codec(config, net.stride)
        self.loss = config.train.loss
        gain, bias = normalisation()
        self.register_buffer("gain", gain[:, None, None], persistent=False)
        self.register_buffer("bias", bias[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return read_heatmaps(self.codec, self.heatmaps(images))

    def heatmaps(self, images: Tensor) -> Tensor:
        """(B, K, H, W) what keypoints are read from."""
        return answer(self.loss, self.net(images * self.gain + self.bias))
