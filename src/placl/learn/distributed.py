"""One training on several devices of this machine: a process (rank) for each, which share every batch by DDP.

Gradients are those of the whole batch, so the outcome is that of one device up to the order of sums. BatchNorm sees
the whole batch on GPUs, too (SyncBatchNorm). Torch has none for CPUs: there each rank normalises its own images, and
the statistics that are kept are the first rank's.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from placl import stopping
from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.errors import InputError, MachineError, PlaclError
from placl.learn.checkpoint import Checkpoint
from placl.learn.course import Course, TrainingSet
from placl.learn.device import pick_device, thread_count
from placl.learn.inner_loop import OnEpoch, Trained, inner_loop, train_network
from placl.learn.network import first_network, network_with
from placl.models.weights import weights_bytes, weights_sha256
from placl.models.zoo import KeypointNet
from placl.stopping import Stopped

START: Final = "spawn"  # CUDA does not survive a fork
GRACE = 1.0  # seconds in which a rank's death shows that the others only lost their connection to it
LOOK_EVERY = 1.0  # seconds, whether all shall come to an end
FAREWELL = 10.0  # seconds that ranks may take to leave


def devices_for(config: Config) -> list[torch.device]:
    """Every GPU that this process sees, or the one device that there is."""
    gpus = torch.cuda.device_count() if config.execute.device != "cpu" else 0
    return [torch.device("cuda", n) for n in range(gpus)] if gpus > 1 else [pick_device(config.execute.device)]


def devices_of_candidate(config: Config) -> list[torch.device]:
    """One; or all that Ray lets a worker see, where candidates were promised several."""
    several = config.execute.where == "ray" and (config.ray.gpus_per_candidate or 1) > 1
    return devices_for(config) if several else [pick_device(config.execute.device)]


def inner_loop_distributed(
    config: Config,
    data: TrainingSet,
    curriculum: Curriculum,
    seed: int,
    *,
    devices: Sequence[torch.device],
    threads: int = 1,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """What :func:`~placl.learn.inner_loop.inner_loop` gives, from several devices; ``threads`` are each rank's."""
    if list(devices) == [pick_device(config.execute.device)]:
        return inner_loop(config, data, curriculum, seed, threads=threads, on_epoch=on_epoch, checkpoint=checkpoint)
    if not 1 <= len(devices) <= config.train.batch:
        raise InputError(
            f"train.batch={config.train.batch} cannot be shared by {len(devices)} devices: each needs an image. "
            f"Set train.batch to at least {len(devices)} or use fewer devices."
        )
    with TemporaryDirectory(prefix="placl-ranks-", ignore_cleanup_errors=True) as folder:
        meeting = str(Path(folder) / "meeting")
        order = _Order(config, _mapped(data, folder), curriculum, seed, tuple(devices), threads, meeting, checkpoint)
        answers = _run_ranks(order, on_epoch)
    if len({answer.sha256 for answer in answers}) > 1:
        logging.getLogger("placl").warning("%d devices ended with different weights: kept the first's.", len(devices))
    first = answers[0]
    state = safetensors.torch.load(first.weights)
    net = network_with(config, len(data.labelled.skeleton), state, devices[0])
    return Trained(net, first.images, first.selected, first.diverged, first.earlier)


def _mapped(data: TrainingSet, folder: str) -> TrainingSet:
    """With crops that lie in a file: ranks map it, where a pickle of crops in memory would be a copy for each."""
    crops, unlabelled = data.labelled.crops, data.unlabelled
    if isinstance(crops, np.memmap):
        return data
    np.save(Path(folder) / "crops.npy", crops)
    crops = np.load(Path(folder) / "crops.npy", mmap_mode="r")
    if unlabelled is not None:
        unlabelled = replace(unlabelled, crops=crops)
    return replace(data, labelled=replace(data.labelled, crops=crops), unlabelled=unlabelled)


# --- the process that asks for the training


@dataclass(frozen=True)
class _Order:
    config: Config
    data: TrainingSet
    curriculum: Curriculum
    seed: int
    devices: tuple[torch.device, ...]  # one for each rank
    threads: int
    meeting: str  # a file through which the ranks find each other: no port that another process could take first
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True)
class _Answer:
    weights: bytes  # safetensors, of rank 0 only
    sha256: str  # of the weights
    images: int
    selected: tuple[float, ...]
    diverged: bool
    earlier: float


@dataclass(frozen=True)
class _Rank:
    process: BaseProcess
    link: Connection


def _run_ranks(order: _Order, on_epoch: OnEpoch | None) -> list[_Answer]:
    """Start the ranks and hear them out. Whatever happens, none is left behind."""
    crew: list[_Rank] = []
    try:
        for number in range(len(order.devices)):
            crew.append(_start(number))
        for rank in crew:
            with suppress(BrokenPipeError, ConnectionResetError):  # it has died: listening finds out
                rank.link.send(order)
        return _listen(crew, on_epoch)
    except BaseException:
        for rank in crew:
            rank.process.kill()
        raise
    finally:
        for rank in crew:
            rank.link.close()
        for rank in crew:
            rank.process.join(timeout=FAREWELL)
            rank.process.kill()


def _start(number: int) -> _Rank:
    context = multiprocessing.get_context(START)
    ours, theirs = context.Pipe()
    process = context.Process(target=_rank, args=(theirs, number), daemon=True, name=f"placl-rank-{number}")
    process.start()
    theirs.close()
    return _Rank(process, ours)


def _listen(crew: list[_Rank], on_epoch: OnEpoch | None) -> list[_Answer]:
    answers: dict[int, _Answer] = {}
    while len(answers) < len(crew):
        if stopping.asked():
            crew[0].process.terminate()  # it keeps how far they are, and says so
        for link in wait([rank.link for number, rank in enumerate(crew) if number not in answers], LOOK_EVERY):
            number = next(n for n, rank in enumerate(crew) if rank.link is link)
            try:
                kind, content = crew[number].link.recv()
            except (EOFError, ConnectionResetError):
                raise _death(crew, number) from None
            if kind == "epoch" and on_epoch:
                on_epoch(*content)
            elif kind == "done":
                answers[number] = content
            elif kind == "refused":
                raise content
            elif kind == "stopped":
                stopping.ask()
                stopping.check()
            elif kind == "failed":
                if dead := wait([rank.process.sentinel for rank in crew], timeout=GRACE):
                    raise _death(crew, next(n for n, rank in enumerate(crew) if rank.process.sentinel in dead))
                raise RuntimeError(f"a training failed in one of its {len(crew)} processes:\n{content}")
    return [answers[number] for number in range(len(crew))]


def _death(crew: list[_Rank], number: int) -> MachineError:
    process = crew[number].process
    process.join(timeout=GRACE)
    return MachineError(
        f"process {number + 1} of the {len(crew)} of one training died (exit code {process.exitcode}). The machine may "
        "be out of memory: use fewer devices or a smaller train.batch. In a script, call placl.train under "
        'if __name__ == "__main__":'
    )


# --- a rank


def _rank(link: Connection, number: int) -> None:
    """The life of a rank: an order, an answer, and patience until the others are done too."""
    stopping.heed_in_worker()
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        with stopping.finishing():
            link.send(("done", _train(link.recv(), number, lambda *epoch: link.send(("epoch", epoch)))))
    except Stopped:
        link.send(("stopped", None))
    except PlaclError as error:
        link.send(("refused", error))
    except Exception:  # noqa: BLE001 - whatever it is, the parent must hear of it
        link.send(("failed", traceback.format_exc()))
    with suppress(EOFError, ConnectionResetError):
        link.recv()  # leaving now would break the connections of others, who would then report that
    if dist.is_initialized():
        dist.destroy_process_group()


def _end_with_parent() -> None:
    """A rank that waits for others in the middle of a step would not notice, and keep its GPU."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _train(order: _Order, number: int, on_epoch: OnEpoch) -> _Answer:
    config, seed, device, ranks = order.config, order.seed, order.devices[number], len(order.devices)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.FileStore(order.meeting, ranks), rank=number, world_size=ranks)
    with thread_count(order.threads):
        net = first_network(config, order.data, seed, device)
        trained = shared_network(net, config.model.input_size)
        # Dropout and stochastic depth: from the seed, and other for other images.
        torch.manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
        # All read it before one of them can be a step further.
        checkpoint = replace(order.checkpoint, writes=number == 0) if order.checkpoint else None
        course = Course(config, order.data, order.curriculum, seed, device, net.stride, rank=number, ranks=ranks)
        outcome = train_network(
            config, net, trained, course, on_epoch if number == 0 else None, _of_all_ranks, checkpoint
        )
    for buffer in net.buffers():  # DDP does so before every step: this is for the last one
        dist.broadcast(buffer, 0)
    weights = weights_bytes(net) if number == 0 else b""
    return _Answer(weights, weights_sha256(net), outcome.images, outcome.selected, outcome.diverged, outcome.earlier)


def shared_network(net: KeypointNet, size: int) -> DistributedDataParallel:
    """The network with gradients that are summed over the ranks; on GPUs, its BatchNorms see all their images."""
    device = next(net.parameters()).device
    on_gpu = device.type == "cuda"
    unused = _has_unused(net, size)
    shared = DistributedDataParallel(
        with_whole_batches(net) if on_gpu else net,
        device_ids=[device] if on_gpu else None,
        find_unused_parameters=unused,
    )
    shared.register_comm_hook(None, lambda _, bucket: _sum_of_ranks(bucket))
    return shared


def with_whole_batches(net: KeypointNet) -> KeypointNet:
    """The same network, whose BatchNorms take statistics of all ranks."""
    # Not torch's own function, which would drop the activation in timm's BatchNormAct2d. timm takes seconds to import.
    converted: KeypointNet = import_module("timm.layers").convert_sync_batchnorm(net)
    return converted


def _has_unused(net: KeypointNet, size: int) -> bool:
    """Whether parameters take no part in the answer, as in some backbones without their heads. DDP must know."""
    images = torch.zeros(1, 3, size, size, device=next(net.parameters()).device)
    torch.autograd.backward(net.eval()(images).sum())
    unused = any(parameter.grad is None for parameter in net.parameters() if parameter.requires_grad)
    net.zero_grad(set_to_none=True)
    return unused


def _sum_of_ranks(bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """DDP would take the mean of the ranks' gradients, but their losses are parts of a sum."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    summed: torch.futures.Future[Tensor] = work.get_future().then(lambda future: future.value()[0])
    return summed


def _of_all_ranks(losses: Tensor) -> float:
    dist.all_reduce(losses)
    return float(losses)
