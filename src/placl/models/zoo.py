"""The registry of keypoint networks: a name and a number of keypoints in, a network out.

Every network takes normalised images and returns one heatmap per keypoint; what a value means (a logit or a height)
is the loss's affair.
"""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from placl.errors import InputError
from placl.models.weights import load_into

logger = logging.getLogger(__name__)

INITS = ("random", "pretrained")
SIMPLE_BASELINE = "simple_baseline"


class KeypointNet(nn.Module):
    """(B, 3, H, W) normalised images -> (B, K, H / stride, W / stride) heatmaps.

    ``feature_layers`` are the modules that features go into, from coarse to fine (:mod:`placl.models.features`), and
    ``fresh`` is how names of tensors begin that an ImageNet backbone does not bring, beside the head.
    """

    stride: int
    feature_layers: tuple[str, ...] = ("final_layer",)
    fresh: tuple[str, ...] = ()

    def forward(self, images: Tensor) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class ModelSpec:
    """What a builder is told. ``prior`` is the probability that a fresh network's heatmaps start from."""

    keypoints: int
    width: float = 1.0
    backbone: str | None = None
    pretrained: bool = False
    prior: float | None = None


Builder = Callable[[ModelSpec], KeypointNet]


@dataclass(frozen=True)
class _Entry:
    build: Builder
    takes: frozenset[str]


_REGISTRY: dict[str, _Entry] = {}


def register(name: str, *takes: str) -> Callable[[Builder], Builder]:
    """Put a builder into the registry; ``takes`` says which of ``width`` and ``backbone`` mean something to it."""

    def add(build: Builder) -> Builder:
        if name in _REGISTRY:
            raise ValueError(f"a network named {name!r} is registered already")
        _REGISTRY[name] = _Entry(build, frozenset(takes))
        return build

    return add


def names() -> tuple[str, ...]:
    """The registered names, sorted."""
    return tuple(sorted(_REGISTRY))


def heatmap_head(channels: int, keypoints: int, prior: float | None = None, kernel: int = 1) -> nn.Conv2d:
    """The convolution to K heatmaps, starting flat.

    Nearly every heatmap pixel is background. With bce, a bias at the logit of a small ``prior`` (0.01, say) spares the
    network the steps in which it would learn nothing else; with mse the bias stays at zero.
    """
    head = nn.Conv2d(channels, keypoints, kernel, padding=kernel // 2)
    nn.init.normal_(head.weight, std=0.001)
    logit = 0.0 if prior is None else math.log(prior / (1.0 - prior))
    head.bias = nn.Parameter(torch.full((keypoints,), logit))
    return head


def create(
    name: str,
    keypoints: int,
    *,
    width: float = 1.0,
    backbone: str | None = None,
    init: str = "random",
    weights: Path | None = None,
    prior: float | None = None,
) -> KeypointNet:
    """Build the network ``name``; ``simple_baseline_X`` is ``simple_baseline`` with ``backbone="X"``.

    ``weights`` is a file for :func:`placl.models.weights.load_into` and spares the download that
    ``init="pretrained"`` would otherwise make.
    """
    name, backbone = _resolve(name, backbone)
    _check(name, keypoints, width, backbone, init, prior)
    pretrained = init == "pretrained" and weights is None
    net = _REGISTRY[name].build(ModelSpec(keypoints, width, backbone, pretrained, prior))
    if weights is not None:
        report = load_into(net, Path(weights))
        logger.info(
            "%s: %d tensors loaded; not in the file: %s; not used: %s",
            weights, report.loaded, report.missing[:4], report.unexpected[:4],
        )  # fmt: skip
    return net


def check_known(name: str, backbone: str | None) -> None:
    """Refuse the name of no network, before time goes into anything else."""
    _resolve(name, backbone)


def _resolve(name: str, backbone: str | None) -> tuple[str, str | None]:
    """The registered name and the backbone that a possibly longer name stands for."""
    if name in _REGISTRY:
        return name, backbone
    if name.startswith(SIMPLE_BASELINE + "_"):
        named = name.removeprefix(SIMPLE_BASELINE + "_")
        if backbone not in (None, named):
            raise InputError(f"model.name={name} and model.backbone={backbone} disagree. Keep one of them.")
        return SIMPLE_BASELINE, named
    near = difflib.get_close_matches(name, names(), n=1, cutoff=0.0)[0]
    raise InputError(f'model.name={name}: no such network. Did you mean "{near}"? There are {", ".join(names())}.')


def _check(name: str, keypoints: int, width: float, backbone: str | None, init: str, prior: float | None) -> None:
    takes = _REGISTRY[name].takes
    if keypoints < 1:
        raise InputError(f"a network needs at least one keypoint, not {keypoints}. Check the skeleton.")
    if init not in INITS:
        raise InputError(f"model.init={init}: must be one of {', '.join(INITS)}.")
    if width <= 0:
        raise InputError(f"model.width={width:g}: must be positive.")
    if width != 1.0 and "width" not in takes:
        raise InputError(f"model.width={width:g}: {name} comes in one width. Leave it at 1.")
    if backbone is not None and "backbone" not in takes:
        raise InputError(f"model.backbone={backbone}: {name} has its own. Leave it out or use {SIMPLE_BASELINE}.")
    if prior is not None and not 0.0 < prior < 1.0:
        raise InputError(f"prior={prior:g}: must lie between 0 and 1.")
