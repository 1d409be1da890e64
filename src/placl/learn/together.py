"""Several candidates of a task at once, as one network whose tensors (M, ...) hold the weights of all of them.

A small network leaves most of a GPU idle, and M of them in lockstep launch as many kernels as one. Each has its own
batches, BatchNorm statistics and optimiser state, so outcomes are those of ``run_candidate`` up to float noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from placl.config import Config
from placl.data.pool import Pool
from placl.learn.candidate import Job, OnProgress, Outcome, Task, make_folds, outcome_of, over_folds
from placl.learn.course import Batch, Course, Crops, TrainingSet
from placl.learn.device import autocast, pick_device, thread_count
from placl.learn.inner_loop import Trained, make_optimizer
from placl.learn.label import label
from placl.learn.losses import LossKind, heatmap_loss
from placl.learn.network import first_network
from placl.learn.score import score
from placl.models.zoo import KeypointNet


def can_run_together(config: Config, net: KeypointNet) -> bool:
    """Whether candidates can go in lockstep: as many steps each, and a network that torch can batch.

    A pass over what is selected (``train.epoch=data``) is longer for one candidate than for another. Networks are
    tried out: what is random (dropout, stochastic depth) or looks at values cannot be batched with the same results.
    """
    if config.train.epoch != "steps":
        return False
    device, size = next(net.parameters()).device, config.model.input_size
    images = torch.zeros(2, 2, 3, size, size, device=device)
    try:
        with autocast(config.train.precision, device):
            together = Stack([net, net], config)(images)
            alone = deepcopy(net).train()(images[0])
        torch.autograd.backward(together.sum())
    except (RuntimeError, TypeError, ValueError):
        return False
    return bool(together.dtype == alone.dtype)  # on CPUs, autocast does not reach convolutions under vmap


def run_together(task: Task, jobs: Sequence[Job], on_progress: OnProgress | None = None) -> list[Outcome]:
    """What ``run_candidate`` gives for each of the jobs. ``on_progress`` hears of the epochs that all have done."""
    if task.config.reward.source == "val":
        return _train_and_score(task, task.data, task.val, jobs, 0, on_progress)
    outcomes, sizes = [], []  # (folds, M), (folds,)
    for number, (train, held_out) in enumerate(make_folds(task)):
        outcomes.append(_train_and_score(task, train, held_out, jobs, number, on_progress))
        sizes.append(int((held_out.visibility > 0).sum()))
    return [over_folds(of_job, sizes) for of_job in zip(*outcomes, strict=True)]


def _train_and_score(
    task: Task, data: TrainingSet, truth: Pool, jobs: Sequence[Job], number: int, on_progress: OnProgress | None
) -> list[Outcome]:
    config = task.config

    def on_epoch(done: int, epochs: int) -> None:
        if on_progress:
            on_progress(number * epochs + done, task.cost)

    with thread_count(config.execute.threads):
        outcomes = []
        for trained in train_together(config, data, jobs, on_epoch):
            reward = score(label(trained.net, truth, config), truth, config.reward).value
            outcomes.append(outcome_of(task, trained, reward))
    return outcomes


@dataclass
class _Member:
    """One candidate on its way."""

    place: int  # among the jobs
    net: KeypointNet  # has its weights before and after
    course: Course
    seen: int = 0


def train_together(
    config: Config, data: TrainingSet, jobs: Sequence[Job], on_epoch: OnProgress | None = None
) -> list[Trained]:
    """``inner_loop`` for several curricula and seeds. One whose loss is not finite leaves after that epoch."""
    device = pick_device(config.execute.device)
    members = []
    crops = Crops(data, device)  # once for all of them: a GPU may hold them
    for place, job in enumerate(jobs):
        net = first_network(config, data, job.seed, device)
        course = Course(config, data, job.curriculum, job.seed, device, net.stride, crops=crops)
        members.append(_Member(place, net, course))
    stack = Stack([member.net for member in members], config)
    finished: dict[int, Trained] = {}
    for epoch in range(config.train.epochs):
        means = _epoch(config, stack, members, epoch)
        if on_epoch:
            on_epoch(epoch + 1, config.train.epochs)
        last = epoch + 1 == config.train.epochs
        leaving = [row for row, mean in enumerate(means) if last or not math.isfinite(mean)]
        for row in leaving:
            stack.write(row, members[row].net)
            member, diverged = members[row], not math.isfinite(means[row])
            selected = tuple(member.course.selected)
            finished[member.place] = Trained(member.net.eval(), member.seen, selected, diverged)
        staying = [row for row in range(len(members)) if row not in leaving]
        if not staying:
            break
        if leaving:
            stack.keep(staying)
            members = [members[row] for row in staying]
    return [finished[place] for place in range(len(jobs))]


def _epoch(config: Config, stack: Stack, members: Sequence[_Member], epoch: int) -> list[float]:
    """Go through one epoch of all courses; the mean loss of each."""
    steps = {member.course.begin(epoch) for member in members}
    if len(steps) != 1:
        raise ValueError(f"candidates together need as many steps each, not {sorted(steps)}")
    (count,) = steps
    device = next(members[0].net.parameters()).device
    losses = torch.zeros(len(members), device=device)
    for step in range(count):
        batches = [member.course.batch(step) for member in members]
        with autocast(config.train.precision, device):
            outputs = stack(torch.stack([batch.images for batch in batches]))
        loss = _losses(config.train.loss, outputs.float(), batches)  # (M,)
        # The sum's gradient is each loss's own: no weight of one candidate takes part in the loss of another.
        stack.step(loss.sum(), batches[0].rate)
        losses += loss.detach()
        for member, batch in zip(members, batches, strict=True):
            member.seen += batch.size
    means: list[float] = (losses / count).tolist()  # the only word from a GPU in an epoch
    return means


def _losses(kind: LossKind, outputs: Tensor, batches: Sequence[Batch]) -> Tensor:
    """(M, B, K, H, W) outputs -> (M,)"""
    targets, weights, total = (
        torch.stack([getattr(batch, name) for batch in batches]) for name in ("targets", "weights", "total")
    )
    losses: Tensor = vmap(partial(heatmap_loss, kind))(outputs, targets, weights, total)
    return losses


class Stack:
    """M networks of one architecture as one. Its tensors are (M, ...): a row is a network.

    Adam works on each number by itself and Muon on each row, so one optimiser over the stacked weights is M optimisers.
    BatchNorm updates its running statistics in place, which under ``vmap`` goes into the rows of the stacked buffers.
    """

    def __init__(self, nets: Sequence[KeypointNet], config: Config) -> None:
        self._config = config
        self._form = deepcopy(nets[0]).to("meta").train()  # what it computes, without weights of its own
        # torch.stack keeps the channels-last memory of every row.
        weights, self._buffers = stack_module_state(list[nn.Module](nets))
        self._names = tuple(weights)
        self._weights = nn.ParameterList(weights.values())
        for weight, stacked in zip(self._weights, weights.values(), strict=True):
            weight.requires_grad_(stacked.requires_grad)
        self._optimizer = make_optimizer(self._weights, config, stacked=True)

    def __call__(self, images: Tensor) -> Tensor:
        """(M, B, 3, S, S) images -> (M, B, K, H, W)"""

        def one(weights: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor) -> Tensor:
            heatmaps: Tensor = functional_call(self._form, (weights, buffers), (images,))
            return heatmaps

        weights = dict(zip(self._names, self._weights, strict=True))
        heatmaps: Tensor = vmap(one, randomness="error")(weights, self._buffers, images)
        return heatmaps

    def step(self, loss: Tensor, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self._optimizer.step()

    @torch.no_grad()
    def write(self, row: int, net: KeypointNet) -> None:
        """The weights and statistics of a row, into a network."""
        stacked = dict(zip(self._names, self._weights, strict=True)) | self._buffers
        for name, tensor in (*net.named_parameters(), *net.named_buffers()):
            tensor.copy_(stacked[name][row])

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the networks."""

        def of(tensor: Tensor) -> Tensor:
            return torch.stack([tensor.detach()[row] for row in rows])

        before, states = list(self._weights), self._optimizer.state
        self._buffers = {name: of(buffer) for name, buffer in self._buffers.items()}
        self._weights = nn.ParameterList(nn.Parameter(of(weight), weight.requires_grad) for weight in before)
        self._optimizer = make_optimizer(self._weights, self._config, stacked=True)
        for old, new in zip(before, self._weights, strict=True):
            if old in states:  # all but the count of steps, which they share, have a row a network
                state = {name: of(value) if value.ndim else value for name, value in states[old].items()}
                self._optimizer.state[new] = state
