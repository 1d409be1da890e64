"""What a network makes of images on the way to heatmaps, for losses that look at more than its answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from placl.models.zoo import KeypointNet


class FeatureTap:
    """The features of a network's latest answer, caught on their way into its ``feature_layers``.

    It is no module: a term that has one does not have the network's parameters.
    """

    def __init__(self, net: KeypointNet) -> None:
        self._latest: dict[str, Tensor] = {}
        self._layers = net.feature_layers
        self._hooks = [
            net.get_submodule(name).register_forward_pre_hook(partial(self._catch, name)) for name in self._layers
        ]

    def _catch(self, name: str, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        features = inputs[0]
        self._latest[name] = features if isinstance(features, Tensor) else features[-1]  # of branches, the coarsest

    @property
    def maps(self) -> list[Tensor]:
        """(B, C, H, W) each, from coarse to fine, in full precision."""
        return [self._latest[name].float() for name in self._layers]

    def pooled(self) -> list[Tensor]:
        """(B, C) each: the mean over pixels."""
        return [features.mean(dim=(2, 3)) for features in self.maps]

    def close(self) -> None:
        """Leave the network as it was."""
        for hook in self._hooks:
            hook.remove()
        self._latest.clear()


def feature_channels(net: KeypointNet, size: int) -> list[int]:
    """Of each of the ``feature_layers``, found by asking the network about one empty image."""
    tap, training = FeatureTap(net), net.training
    net.eval()  # running statistics stay as they are
    with torch.no_grad():
        net(torch.zeros(1, 3, size, size, device=next(net.parameters()).device))
    channels = [features.shape[1] for features in tap.maps]
    tap.close()
    net.train(training)
    return channels
