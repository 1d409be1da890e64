"""Ratios measured side by side: the two things take turns, and the median of the repeats is what counts."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Seconds of several things, one row a repeat."""

    seconds: dict[str, list[float]]

    def ratio(self, of: str, to: str) -> float:
        """How many times as fast ``of`` is as ``to``: the median over repeats."""
        pairs = zip(self.seconds[to], self.seconds[of], strict=True)
        return statistics.median(slow / fast for slow, fast in pairs)

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])


def side_by_side(things: Mapping[str, Callable[[], object]], repeats: int, warm_up: bool = True) -> Measured:
    """Time each thing ``repeats`` times, in turns; a first round that does not count lets caches and threads settle."""
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for repeat in range(repeats + warm_up):
        for name, thing in things.items():
            start = time.perf_counter()
            thing()
            if repeat >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return Measured(seconds)


def machine() -> str:
    """``x86_64, 2 cores, Python 3.11, torch 2.9``"""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = f", {torch.cuda.device_count()} GPUs" if torch.cuda.is_available() else ""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.machine()}, {cores} cores{gpus}, Python {python}, torch {torch.__version__}"
