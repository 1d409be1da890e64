"""What runs on the nodes of a cluster: one job of a task, in a worker process."""

from __future__ import annotations

import socket
import traceback
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
import torch

from placl.errors import InputError, PlaclError
from placl.execute.ray_parcel import unpack
from placl.execute.ray_progress import Address, teller
from placl.version import VERSION

Answer = tuple[Literal["done", "refused", "failed"], Any]
VERSIONS = (VERSION, torch.__version__, cv2.__version__)  # on which results depend


@dataclass(frozen=True)
class Order:
    """Which job this is, and what the worker must know beyond it."""

    address: Address
    task: str  # a key: a worker that has unpacked the task keeps it
    task_arrays: int  # how many of the arrays are the task's; the others are the job's
    versions: tuple[str, str, str]


_task: tuple[str, Any] = ("", None)  # the one that this process has unpacked


def work(order: Order, task: bytes, job: bytes, board: Any, *arrays: np.ndarray) -> Answer:
    """Run a job of a task. Ray calls this in a worker, with the arrays mapped from the node's object store.

    A worker sees the GPUs that Ray gave it: with more than one, a training shares its batches among them.
    """
    global _task
    try:
        _refuse_other_versions(order.versions)
        if _task[0] != order.task:
            _task = ("", None)  # so that its arrays are free before the next are unpacked
            _task = (order.task, unpack(task, arrays[: order.task_arrays]))
        given = unpack(job, arrays[order.task_arrays :])
        return "done", _task[1].run(given, teller(board, order.address))
    except PlaclError as error:
        return "refused", error
    except Exception:  # noqa: BLE001 - whatever it is, the driver must hear of it
        return "failed", traceback.format_exc()


def _refuse_other_versions(wanted: tuple[str, str, str]) -> None:
    if wanted != VERSIONS:
        here, there = (f"placl {own}, torch {torch_} and OpenCV {opencv}" for own, torch_, opencv in (VERSIONS, wanted))
        raise InputError(
            f"node {socket.gethostname()} of the cluster has {here}, the driver {there}: results would differ. "
            "Install the same on both."
        )
