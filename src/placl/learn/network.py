"""A network as a configuration asks for it, with weights that its seed decides."""

from __future__ import annotations

import safetensors.torch
import torch

from placl.config import Config
from placl.learn.course import TrainingSet
from placl.models import zoo

PRIOR = 0.01  # the answer a fresh bce network gives everywhere: most of a heatmap is empty


def network_with(
    config: Config, keypoints: int, state: dict[str, torch.Tensor], device: torch.device
) -> zoo.KeypointNet:
    """The configuration's network with given weights, ready to be read."""
    model = config.model.model_copy(update={"init": "random", "weights": None})  # all weights are the given ones
    net = fresh_network(config.model_copy(update={"model": model}), keypoints, 0, device)
    net.load_state_dict(state)
    return net.eval()


def first_network(config: Config, data: TrainingSet, seed: int, device: torch.device) -> zoo.KeypointNet:
    """What a training begins with: random weights, or those that its data brings."""
    keypoints = len(data.labelled.skeleton)
    if data.start is None:
        return fresh_network(config, keypoints, seed, device)
    return network_with(config, keypoints, safetensors.torch.load(data.start), device)


def fresh_network(config: Config, keypoints: int, seed: int, device: torch.device) -> zoo.KeypointNet:
    settings = config.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = zoo.create(
            settings.name,
            keypoints,
            width=settings.width,
            backbone=settings.backbone,
            init=settings.init,
            weights=settings.weights,
            prior=PRIOR if config.train.loss == "bce" else None,
        )
    return net.to(device).to(memory_format=torch.channels_last)
