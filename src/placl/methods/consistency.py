"""Training with a term on unlabelled images: what all consistency methods share.

    loss = L_labelled + weight * ramp(t) * term(all images of the batch, in two or more views)

A method is a :class:`Term`. Budget, augmentation of the first view and batch composition are those of every other
method: so many steps of so many images, ``train.labelled_share`` of them labelled. A term may also say what the
supervised loss is of, make pseudo-labels between epochs, and train parts of its own at another pace.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.lab import Lab
from placl.learn.checkpoint import Checkpoint, Progress
from placl.learn.course import TrainingSet, learning_rate
from placl.learn.device import autocast, pick_device, thread_count
from placl.learn.inner_loop import OnEpoch, Trained, make_optimizer
from placl.learn.label import make_codec
from placl.learn.losses import heatmap_loss
from placl.learn.network import fresh_network
from placl.learn.training import Learned, Training
from placl.methods.batches import Batches
from placl.methods.method import Method
from placl.methods.views import View
from placl.models.weights import weights_bytes
from placl.models.zoo import KeypointNet
from placl.stages import FINAL, Stage, Unit, train_stage


@dataclass(frozen=True)
class Seen:
    """A batch as a term gets it."""

    outputs: Tensor  # (B, K, H, W) what the network says of the first view, with gradient
    first: View  # the view that the supervised loss is of
    others: tuple[View, ...]  # as many as the term asks for
    labelled: Tensor  # (B,) bool
    keypoints: Tensor  # (B, K, 2) labels in pixels of the first view; zeros where there are none
    targets: Tensor  # (B, K, H, W) heatmaps of the labels
    weights: Tensor  # (B, K) 0 where there is no label
    place: float  # in [0, 1): how far the training is


class Term(nn.Module):
    """What a method adds to the supervised loss. Parameters of its own are trained beside the network's."""

    others = 1  # views beside the first
    weight = 1.0
    ramp = 0.0  # share of the training over which the weight rises, as exp(-5 (1 - t)^2)

    def __init__(self, config: Config, net: KeypointNet, skeleton: Skeleton, seed: int) -> None:
        super().__init__()
        self.config = config
        self.codec = make_codec(config, net.stride)
        self.flip_order = torch.from_numpy(skeleton.flip_order)

    def loss(self, net: KeypointNet, seen: Seen) -> Tensor:
        """The term, without its weight."""
        raise NotImplementedError

    def supervised(self, outputs: Tensor) -> Tensor:
        """What the supervised loss is of, from the network's outputs."""
        return outputs

    def begin_epoch(self, net: KeypointNet, data: TrainingSet, place: float) -> None:
        """Look at all images, where a method makes labels of its own; what it keeps is part of its state."""

    def labels(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(N, K, 2) keypoints in crop pixels and (N, K) weights of all unlabelled images, where a method has any."""
        return None

    def groups(self, net: KeypointNet) -> list[dict[str, Any]]:
        """What an optimiser is to train; ``pace`` is the share of the learning rate that a group is trained at."""
        return [{"params": [*net.parameters(), *self.parameters()], "pace": 1.0}]

    def after_step(self, net: KeypointNet) -> None:
        """Follow the network, where a method has a second one."""

    def result(self, net: KeypointNet) -> KeypointNet:
        """What is kept in the end."""
        return net

    def strength(self, place: float) -> float:
        if place >= self.ramp:
            return self.weight
        return self.weight * math.exp(-5 * (1 - place / self.ramp) ** 2)


MakeTerm = Callable[[Config, KeypointNet, Skeleton, int], Term]


def train_consistently(
    config: Config,
    data: TrainingSet,
    make_term: MakeTerm,
    seed: int,
    *,
    threads: int,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """A network trained on labelled and unlabelled images together: a pure function of the arguments."""
    device = pick_device(config.execute.device)
    with thread_count(threads), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        skeleton = data.labelled.skeleton
        net = fresh_network(config, len(skeleton), seed, device)
        term = make_term(config, net, skeleton, seed).to(device)
        both = nn.ModuleList([net, term])
        optimizer = make_optimizer(term.groups(net), config)
        source = Batches(config, data, seed, device, net.stride)
        steps = source.steps
        progress = Progress(checkpoint, both, optimizer, source)  # the beginning, or where it was interrupted
        diverged = False
        for epoch in range(progress.epoch, config.train.epochs):
            if progress.step == 0:
                term.begin_epoch(net, data, epoch / config.train.epochs)
            both.train()
            for step in range(progress.step, steps):
                place = (epoch + step / steps) / config.train.epochs
                for group in optimizer.param_groups:
                    group["lr"] = group["pace"] * learning_rate(config, epoch + step / steps)
                loss = _loss(config, net, term, source, place, device)
                optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimizer.step()
                term.after_step(net)
                progress.add(loss.detach(), config.train.batch)
            mean = float(progress.end_epoch()) / steps
            if on_epoch:
                on_epoch(epoch + 1, config.train.epochs, mean)
            if not math.isfinite(mean):
                diverged = True
                break
        return Trained(term.result(net).eval(), progress.seen, (), diverged, progress.earlier)


def _loss(config: Config, net: KeypointNet, term: Term, source: Batches, place: float, device: torch.device) -> Tensor:
    first, others, labelled, keypoints, weights = source.next(term.others, term.labels())
    targets, weights = term.codec.encode(keypoints.to(device), weights.to(device))
    with autocast(config.train.precision, device):
        outputs = net(first.images)
    outputs = outputs.float()
    supervised = heatmap_loss(config.train.loss, term.supervised(outputs), targets, weights)
    seen = Seen(outputs, first, others, labelled.to(device), keypoints.to(device), targets, weights, place)
    return supervised + term.strength(place) * term.loss(net, seen)


@dataclass(frozen=True)
class ConsistentTrainings:
    """The task of such trainings, for an executor."""

    make_term: MakeTerm  # a class: it travels by name

    def run(self, job: Training, on_progress: Callable[[int, int], None]) -> Learned:
        start = time.monotonic()
        trained = train_consistently(
            job.config,
            job.data,
            self.make_term,
            job.seed,
            threads=job.config.execute.final_threads,
            on_epoch=lambda done, total, _: on_progress(done, total),
            checkpoint=job.checkpoint,
        )
        seconds = trained.earlier + time.monotonic() - start
        return Learned(weights_bytes(trained.net), trained.images, trained.selected, trained.diverged, seconds)


def consistent(make_term: MakeTerm) -> Method:
    """A method of one training, with a term on all images."""

    def run(lab: Lab) -> Iterator[Stage]:
        data = TrainingSet(lab.problem.labelled, lab.problem.unlabelled)
        yield train_stage(lab, Unit(FINAL, lab.config, data), ConsistentTrainings(make_term))

    return Method(run, lambda config: {FINAL: config})
