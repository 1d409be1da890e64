"""Algorithm 1: train a fresh network on labelled and selected pseudo-labelled data under a curriculum.

The outcome is a pure function of the arguments: every random number comes from ``seed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.learn.checkpoint import Checkpoint, Progress
from placl.learn.course import Course, TrainingSet
from placl.learn.device import autocast, pick_device, thread_count
from placl.learn.losses import heatmap_loss
from placl.learn.muon import Muon
from placl.learn.network import first_network
from placl.models import zoo

OnEpoch = Callable[[int, int, float], None]  # epochs done, of how many, mean loss


@dataclass(frozen=True)
class Trained:
    net: zoo.KeypointNet
    images: int  # how many training images went through the network
    selected: tuple[float, ...]  # share of the pseudo-labels selected, per group
    diverged: bool  # the loss was not finite
    earlier: float = 0.0  # seconds that it had taken when it was interrupted


def inner_loop(
    config: Config,
    data: TrainingSet,
    curriculum: Curriculum,
    seed: int,
    *,
    threads: int = 1,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """omega*(Gamma): the network trained on ``data`` under ``curriculum``."""
    device = pick_device(config.execute.device)
    # Dropout and stochastic depth draw from torch's own generators: they are the seed's too, and given back afterwards.
    with thread_count(threads), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        net = first_network(config, data, seed, device)
        course = Course(config, data, curriculum, seed, device, net.stride)
        return train_network(config, net, net, course, on_epoch, checkpoint=checkpoint)


def train_network(
    config: Config,
    net: zoo.KeypointNet,
    trained: nn.Module,
    course: Course,
    on_epoch: OnEpoch | None = None,
    whole: Callable[[Tensor], float] = float,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Go through a course. ``trained`` is the network, or what stands around it to share it with other processes.

    Then ``whole`` makes a sum of losses that of all processes, so that they are of one mind on whether to go on.
    """
    device = next(net.parameters()).device
    optimizer = make_optimizer(net, config)
    progress = Progress(checkpoint, net, optimizer, course)  # the beginning, or where it was interrupted
    diverged = False
    for epoch in range(progress.epoch, config.train.epochs):
        steps = course.begin(epoch)
        net.train()
        for step in range(progress.step, steps):
            batch = course.batch(step)
            for parameters in optimizer.param_groups:
                parameters["lr"] = batch.rate
            with autocast(config.train.precision, device):
                outputs = trained(batch.images)
            loss = heatmap_loss(config.train.loss, outputs.float(), batch.targets, batch.weights, batch.total)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()
            progress.add(loss.detach(), batch.size)
        mean = whole(progress.end_epoch()) / steps  # the only word from a GPU in an epoch
        if on_epoch:
            on_epoch(epoch + 1, config.train.epochs, mean)
        if not math.isfinite(mean):
            diverged = True
            break
    net.eval()
    return Trained(net, progress.seen, tuple(course.selected), diverged, progress.earlier)


def make_optimizer(
    net: nn.Module | list[dict[str, Any]], config: Config, *, stacked: bool = False
) -> torch.optim.Optimizer:
    """Of a network, or of groups of parameters with settings of their own; ``stacked``: of several networks in one."""
    trained: Iterable[Any] = net.parameters() if isinstance(net, nn.Module) else net
    lr, decay = config.train.lr, config.train.weight_decay
    if config.train.optimizer == "muon":
        return Muon(trained, lr, decay, stacked=stacked)
    kind = torch.optim.Adam if config.train.optimizer == "adam" else torch.optim.AdamW
    return kind(trained, lr=lr, weight_decay=decay, fused=True)
