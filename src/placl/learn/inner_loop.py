"""Algorithm 1: train a fresh network on labelled and selected pseudo-labelled data under a curriculum.

The outcome is a pure function of the arguments: every random number comes from ``seed``. Batch order and augmentation
do not depend on what is selected more than they must, so that candidates with one seed differ by their curricula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.augment import augmented
from placl.data.pool import Pool, concatenate
from placl.learn.device import pick_device, thread_count
from placl.learn.label import PseudoLabels, make_codec
from placl.learn.losses import heatmap_loss
from placl.learn.network import fresh_network
from placl.learn.select import scores, selected
from placl.models import zoo

OnEpoch = Callable[[int, int, float], None]  # epochs done, of how many, mean loss


@dataclass(frozen=True)
class TrainingSet:
    """D_l and, from round 1 on, the images of D_u with their pseudo-labels."""

    labelled: Pool
    unlabelled: Pool | None = None
    pseudo: PseudoLabels | None = None

    def joined(self) -> Pool:
        """One pool: labelled instances first, then the unlabelled ones with pseudo-labels for keypoints."""
        if self.unlabelled is None or self.pseudo is None or not len(self.unlabelled):
            return self.labelled
        return concatenate([self.labelled, replace(self.unlabelled, keypoints=self.pseudo.keypoints)])


@dataclass(frozen=True)
class Trained:
    net: zoo.KeypointNet
    images: int  # how many training images went through the network
    selected: tuple[float, ...]  # share of the pseudo-labels selected, per group
    diverged: bool  # the loss was not finite


def inner_loop(
    config: Config,
    data: TrainingSet,
    curriculum: Curriculum,
    seed: int,
    *,
    threads: int = 1,
    on_epoch: OnEpoch | None = None,
) -> Trained:
    """omega*(Gamma): the network trained on ``data`` under ``curriculum``."""
    device = pick_device(config.execute.device)
    # Dropout and stochastic depth draw from torch's own generators: they are the seed's too, and given back afterwards.
    with thread_count(threads), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        return _train(config, data, curriculum, seed, device, on_epoch)


def _train(
    config: Config,
    data: TrainingSet,
    curriculum: Curriculum,
    seed: int,
    device: torch.device,
    on_epoch: OnEpoch | None,
) -> Trained:
    settings = config.train
    pool = data.joined()
    known = len(data.labelled)
    net = fresh_network(config, len(pool.skeleton), seed, device)  # random initialisation
    optimizer = _optimizer(net, config)
    codec = make_codec(config, net.stride)
    keypoints = torch.from_numpy(pool.keypoints)
    weights = (pool.visibility > 0).astype(np.float32)  # (N, K); rows of pseudo-labels are filled per group
    trust = data.pseudo.confidence if data.pseudo is not None else np.zeros((0, len(pool.skeleton)))
    score = scores(trust, config.select)  # (N_u, K)
    flip_order = torch.from_numpy(pool.skeleton.flip_order).to(device)
    draw = torch.Generator().manual_seed(seed)

    group, shares, seen, total, diverged = -1, [], 0, torch.zeros(()), False
    stream: Iterator[np.ndarray] = iter(())
    for epoch in range(settings.epochs):
        if curriculum.group(epoch, settings.epochs) != group:
            group = curriculum.group(epoch, settings.epochs)
            chosen = selected(score, curriculum.thresholds[group])  # g, Eq. 1
            weights[known:] = chosen
            members = np.concatenate([np.arange(known), known + np.flatnonzero(chosen.any(axis=1))])  # D_train, Eq. 2
            stream = batches(members, known, len(pool), settings.batch, settings.labelled_share, [seed, group])
            shares.append(float(chosen.mean()) if chosen.size else 0.0)
        steps = settings.steps_per_epoch if settings.epoch == "steps" else max(1, len(members) // settings.batch)
        net.train()
        losses = torch.zeros((), device=device)
        for step in range(steps):
            index = next(stream)
            for parameters in optimizer.param_groups:
                parameters["lr"] = learning_rate(config, epoch + step / steps)
            images, places, weight = augmented(
                torch.from_numpy(pool.images(index)).to(device),
                keypoints[index].to(device),
                torch.from_numpy(weights[index]).to(device),
                settings=config.augment,
                view=pool.view,
                size=config.model.input_size,
                flip_order=flip_order,
                generator=draw,
            )
            targets, weight = codec.encode(places, weight)
            outputs = net(images.contiguous(memory_format=torch.channels_last))
            loss = heatmap_loss(settings.loss, outputs, targets, weight)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()
            losses += loss.detach()
            seen += len(index)
        total = losses / steps
        if on_epoch:
            on_epoch(epoch + 1, settings.epochs, float(total))
        if not torch.isfinite(total):
            diverged = True
            break
    net.eval()
    return Trained(net, seen, tuple(shares), diverged)


def batches(
    members: np.ndarray, known: int, everyone: int, batch: int, share: float | None, seed: list[int]
) -> Iterator[np.ndarray]:
    """Index batches for ever, in passes. The order is that of a shuffle of all instances, members or not."""
    if share is None or len(members) == known:
        yield from _passes(members, everyone, batch, [*seed, 0])
    of_labelled = min(batch, max(1, round(share * batch))) if share is not None else batch
    labelled = _passes(members[:known], everyone, of_labelled, [*seed, 0])
    pseudo = _passes(members[known:], everyone, batch - of_labelled, [*seed, 1])
    while True:
        yield np.concatenate([next(labelled), next(pseudo)])


def _passes(members: np.ndarray, everyone: int, batch: int, seed: list[int]) -> Iterator[np.ndarray]:
    if not len(members):
        raise ValueError("there is nothing to make batches of")
    is_member = np.zeros(everyone, bool)
    is_member[members] = True
    left = np.zeros(0, np.int64)
    number = 0
    while True:
        while len(left) < batch:
            order = np.random.default_rng([*seed, number]).permutation(everyone)
            left = np.concatenate([left, order[is_member[order]]])
            number += 1
        yield left[:batch]
        left = left[batch:]


def learning_rate(config: Config, epoch: float) -> float:
    """The rate at a (fractional) epoch, from 0."""
    settings = config.train
    place = epoch / settings.epochs
    rate = settings.lr
    if place < settings.warmup:
        return rate * max(place / settings.warmup, 1e-3)
    if settings.schedule == "step":
        return rate * 0.1 ** sum(int(epoch) >= milestone for milestone in settings.milestones)
    return rate * 0.5 * (1 + float(np.cos(np.pi * (place - settings.warmup) / (1 - settings.warmup))))


def _optimizer(net: nn.Module, config: Config) -> torch.optim.Optimizer:
    kind = torch.optim.Adam if config.train.optimizer == "adam" else torch.optim.AdamW
    return kind(net.parameters(), lr=config.train.lr, weight_decay=config.train.weight_decay, fused=True)
