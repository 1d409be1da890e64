"""Reading a network: pseudo-labels and their confidence (3.2), and predictions of any kind.

Heatmaps of several views of an image (mirrored, rotated, scaled) are brought back to the plain view and averaged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from placl.config import Config
from placl.data.augment import mirror_pairs, plain_view, sample, warp
from placl.data.pool import Pool
from placl.learn.device import autocast
from placl.learn.losses import answer
from placl.learn.pseudo_labels import PseudoLabels
from placl.models.codec import HeatmapCodec
from placl.models.zoo import KeypointNet


def make_codec(config: Config, stride: int) -> HeatmapCodec:
    return HeatmapCodec(config.model.input_size, stride, config.train.sigma, config.label.decode)


def _view_matrices(config: Config, all_views: bool) -> list[tuple[Tensor, bool]]:
    """(2, 3) maps from view to plain view, and whether they mirror. The plain view comes first."""
    settings = config.label
    if not all_views:
        return [(torch.eye(2), False)]
    turns = [(0.0, 1.0), *((a, 1.0) for a in settings.rotations), *((0.0, s) for s in settings.scales)]
    views = []
    for angle, zoom in turns:
        radians = torch.tensor(angle * torch.pi / 180)
        cos, sin = torch.cos(radians) / zoom, torch.sin(radians) / zoom
        for sign in (1.0, -1.0) if settings.flip else (1.0,):
            views.append((torch.stack([torch.stack([cos * sign, -sin]), torch.stack([sin * sign, cos])]), sign < 0))
    return views


def label(
    net: KeypointNet,
    pool: Pool,
    config: Config,
    *,
    model: str = "",
    all_views: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> PseudoLabels:
    """Predict every instance of a pool. Labels of the pool are not looked at.

    ``all_views`` averages over mirrored, rotated and scaled images as ``config.label`` has it: for pseudo-labels, which
    are made once and learned from often. Scores and predictions read the plain image: the paper tests without tricks.
    """
    codec = make_codec(config, net.stride)
    device = next(net.parameters()).device
    flip_order = torch.from_numpy(pool.skeleton.flip_order).to(device)
    views = _view_matrices(config, all_views)
    scale = pool.view / config.model.input_size  # crop pixels per input pixel
    centre = (pool.crop_size - 1) / 2 - scale * (config.model.input_size - 1) / 2
    shape = len(pool), len(pool.skeleton)
    found = PseudoLabels(np.zeros((*shape, 2), np.float32), np.zeros(shape, np.float32), model)
    net.eval()
    with torch.inference_mode():
        for start in range(0, len(pool), config.label.batch):
            index = np.arange(start, min(start + config.label.batch, len(pool)))
            images = torch.from_numpy(pool.images(index)).to(device)
            seen, trust = _read(net, images, pool.view, codec, config, flip_order, views)
            found.keypoints[index] = (seen * scale + centre).cpu().numpy()
            found.confidence[index] = trust.cpu().numpy()
            if on_progress:
                on_progress(int(index[-1]) + 1, len(pool))
    return found


def _read(
    net: KeypointNet,
    images: Tensor,
    view: float,
    codec: HeatmapCodec,
    config: Config,
    flip_order: Tensor,
    views: list[tuple[Tensor, bool]],
) -> tuple[Tensor, Tensor]:
    """(B, S, S, 3) crops -> (B, K, 2) keypoints in input pixels and (B, K) confidence."""
    size = config.model.input_size
    agreement = config.select.score == "agreement" and len(views) > 1
    total: Tensor | None = None
    places = []
    for number, (linear, mirrored) in enumerate(views):
        shifted = torch.cat([linear * (view / size), torch.zeros(2, 1)], 1)[None]
        seen = plain_view(images, view, size) if number == 0 else sample(images, shifted, size)
        with autocast(config.train.precision, images.device):
            outputs = net(seen)
        heatmaps = answer(config.train.loss, outputs.float())
        if number > 0:
            back = torch.cat([torch.linalg.inv(linear), torch.zeros(2, 1)], 1)[None]
            heatmaps = warp(heatmaps, back, heatmaps.shape[-1])
            if mirrored:
                everyone = torch.ones(len(heatmaps), dtype=torch.bool, device=heatmaps.device)
                heatmaps = mirror_pairs(heatmaps, everyone, flip_order)
        total = heatmaps if total is None else total + heatmaps
        if agreement:
            places.append(codec.decode(heatmaps)[0])
    assert total is not None
    keypoints, confidence = read_heatmaps(codec, total / len(views))
    if agreement:
        # exp(-d^2 / 2 s^2) with d the views' rms distance from the common answer and s the target Gaussian's width.
        spread = (torch.stack(places) - keypoints).square().sum(-1).mean(0)
        confidence = torch.exp(-spread / (2 * (codec.sigma * codec.stride) ** 2))
    return keypoints, confidence


def read_heatmaps(codec: HeatmapCodec, heatmaps: Tensor) -> tuple[Tensor, Tensor]:
    """(B, K, H, W) -> (B, K, 2) keypoints in input pixels and (B, K) confidence: the peak."""
    keypoints, peak = codec.decode(heatmaps)
    return keypoints, peak.clamp(0, 1)  # an mse network may answer outside
