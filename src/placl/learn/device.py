"""Where a network runs, in which precision, and with how many CPU threads."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import Literal

import cv2
import torch

Precision = Literal["auto", "float32", "bfloat16"]
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def pick_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


@cache
def keep_freed_memory() -> None:
    """Large tensors come and go with every step: on Linux, let malloc keep their memory instead of giving it back.

    A page that is given back is zeroed when it is used again, which costs a fifth of the time of inference.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # not glibc
            libc = ctypes.CDLL(None)
            libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
            libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """For torch, and for OpenCV, which cuts views out of crops."""
    keep_freed_memory()
    before, of_opencv = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(threads)
    cv2.setNumThreads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        cv2.setNumThreads(of_opencv)


def precision_on(precision: Precision, device: torch.device) -> Literal["float32", "bfloat16"]:
    """``auto``: bfloat16 where the hardware multiplies it faster: GPUs since Ampere, CPUs with AMX."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        fast = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)  # not in every version of torch
        fast = device.type == "cpu" and has_amx()
    return "bfloat16" if fast else "float32"


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    mixed = precision_on(precision, device) == "bfloat16"
    return torch.autocast(device.type, torch.bfloat16, enabled=mixed)
