"""Pseudo-labelling as jobs for an executor: a network and a pool go to the workers once, then pieces of the pool.

Pieces are whole batches, so a network sees the batches of an undivided pool and says the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors.torch

from placl.config import Config
from placl.data.pool import Pool
from placl.errors import MachineError
from placl.execute.executor import Executor
from placl.learn.device import pick_device, thread_count
from placl.learn.label import label
from placl.learn.network import network_with
from placl.learn.pseudo_labels import PseudoLabels, labels_into, read_labels
from placl.models.weights import weights_bytes
from placl.models.zoo import KeypointNet

PIECE = 1024  # instances, about


@dataclass(frozen=True)
class Piece:
    start: int
    stop: int


@dataclass(frozen=True)
class Labelling:
    """The task: what one network says of one pool, from all views."""

    config: Config
    weights: bytes  # safetensors
    pool: Pool
    _made: dict[str, KeypointNet] = field(default_factory=dict, compare=False)  # once in each process

    def run(self, job: Piece, on_progress: Callable[[int, int], None]) -> PseudoLabels:
        with thread_count(self.config.execute.final_threads):
            if "net" not in self._made:
                device = pick_device(self.config.execute.device)
                state = safetensors.torch.load(self.weights)
                self._made["net"] = network_with(self.config, len(self.pool.skeleton), state, device)
            return label(self._made["net"], self.pool.take(np.arange(job.start, job.stop)), self.config, all_views=True)


def label_with(
    executor: Executor,
    net: KeypointNet,
    pool: Pool,
    config: Config,
    *,
    model: str,
    folder: Path,
    on_progress: Callable[[int, int], None],
) -> PseudoLabels:
    """Predict every instance of a pool on all workers; the answers go to the folder as they come, and are mapped."""
    task = Labelling(config, weights_bytes(net), pool)
    size = config.label.batch * max(1, PIECE // config.label.batch)
    pieces = {start: Piece(start, min(start + size, len(pool))) for start in range(0, len(pool), size)}
    shape = len(pool), len(pool.skeleton)
    done = 0
    with labels_into(folder, *shape) as put:

        def on_done(start: int, found: PseudoLabels) -> None:
            nonlocal done
            put(start, found.keypoints, found.confidence)
            done += len(found.confidence)
            on_progress(done, len(pool))

        executor.run(task, pieces, on_done, lambda *_: None)
    labels = read_labels(folder, model, shape)
    if labels is None:
        raise MachineError(f"{folder}: the pseudo-labels vanished while in use. Run again.")
    return labels
