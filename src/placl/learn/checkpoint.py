"""How far a training is, kept in a file from time to time: one that is interrupted goes on there, to the same bits.

The file holds all that the rest of a training depends on (weights, optimiser, random generators, position) as
safetensors, with a hash: one that is damaged, or of another training, counts as none.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import safetensors.torch
import torch
from torch import Tensor, nn

from placl import stopping
from placl.files import write_atomic
from placl.models.weights import weights_sha256

EVERY = 120.0  # seconds


class Source(Protocol):
    """Where a training's batches come from."""

    generator: torch.Generator  # of augmentation

    def skip_to(self, epoch: int, step: int) -> None:
        """The next batch is this one; the generator is the caller's to set."""
        ...


@dataclass(frozen=True)
class Checkpoint:
    """A place for one training. Where its folder is not, as on nodes that share no disk, nothing is kept."""

    file: Path
    key: str  # a hash of all that decides the training
    every: float = field(default_factory=lambda: EVERY)
    writes: bool = True  # of several processes with one training, the first

    def read(self) -> dict[str, Tensor] | None:
        try:
            with safetensors.safe_open(self.file, "pt") as content:
                told = content.metadata() or {}
                state = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
        except (OSError, ValueError, safetensors.SafetensorError):
            return None
        return state if told == {"key": self.key, "sha256": weights_sha256(state)} else None

    def write(self, state: dict[str, Tensor]) -> None:
        if self.writes and self.file.parent.is_dir():
            told = {"key": self.key, "sha256": weights_sha256(state)}
            write_atomic(self.file, safetensors.torch.save(state, told))

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)


class Progress:
    """Where a training is: at its beginning, or where it was interrupted."""

    def __init__(
        self, checkpoint: Checkpoint | None, trained: nn.Module, optimizer: torch.optim.Optimizer, source: Source
    ) -> None:
        self.epoch = self.step = self.seen = 0  # epochs done, steps done of the next, images
        self.earlier = 0.0  # seconds, of other sessions
        self._device = next(trained.parameters()).device
        self.losses = torch.zeros((), device=self._device)  # of this epoch, summed
        self._checkpoint, self._trained, self._optimizer, self._source = checkpoint, trained, optimizer, source
        self._began = self._saved = time.monotonic()
        known = checkpoint.read() if checkpoint else None
        if known is not None:
            self._restore(known)

    def add(self, loss: Tensor, images: int) -> None:
        """A step is done. Now and then, and when all shall come to an end, it is kept how far the training is."""
        self.losses += loss
        self.step += 1
        self.seen += images
        if self._checkpoint is None:
            return
        if stopping.asked() or time.monotonic() - self._saved >= self._checkpoint.every:
            self._checkpoint.write(self._state())
            self._saved = time.monotonic()
            stopping.check()

    def end_epoch(self) -> Tensor:
        """The sum of its losses."""
        losses, self.losses = self.losses, torch.zeros_like(self.losses)
        self.epoch, self.step = self.epoch + 1, 0
        return losses

    def _state(self) -> dict[str, Tensor]:
        state = {f"trained.{name}": value for name, value in self._trained.state_dict().items()}
        for number, parameter in enumerate(self._parameters()):
            for name, value in self._optimizer.state.get(parameter, {}).items():
                state[f"optimizer.{number}.{name}"] = value
        state["position"] = torch.tensor([self.epoch, self.step, self.seen])
        state["seconds"] = torch.tensor(self.earlier + time.monotonic() - self._began, dtype=torch.float64)
        state["losses"] = self.losses
        state["random.augment"] = self._source.generator.get_state()
        state["random.torch"] = torch.get_rng_state()
        if self._device.type == "cuda":
            state["random.cuda"] = torch.cuda.get_rng_state(self._device)
        return {name: value.detach().cpu().contiguous() for name, value in state.items()}

    def _restore(self, state: dict[str, Tensor]) -> None:
        self._trained.load_state_dict(_below("trained.", state))
        for number, parameter in enumerate(self._parameters()):
            for name, value in _below(f"optimizer.{number}.", state).items():
                # A fused step reads moments in their parameter's order of memory, channels last.
                self._optimizer.state[parameter][name] = (
                    torch.empty_like(parameter, requires_grad=False).copy_(value)
                    if value.shape == parameter.shape and value.ndim
                    else value.to(self._device)
                )
        self.epoch, self.step, self.seen = (int(number) for number in state["position"])
        self.earlier = float(state["seconds"])
        self.losses = state["losses"].to(self._device)
        self._source.skip_to(self.epoch, self.step)
        self._source.generator.set_state(state["random.augment"])
        if self._checkpoint is None or not self._checkpoint.writes:  # of other images, whose dropout is to be another
            return
        torch.set_rng_state(state["random.torch"])
        if "random.cuda" in state and self._device.type == "cuda":
            torch.cuda.set_rng_state(state["random.cuda"], self._device)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]


def _below(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
