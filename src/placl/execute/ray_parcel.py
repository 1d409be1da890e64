"""What travels to the nodes of a cluster: mapped arrays by the object store, everything else as one pickle.

Crops and large pseudo-labels are memory maps, whose paths mean nothing on another machine, and of the crops a task
needs some rows only. So they travel apart, as arrays, once for all tasks that need them.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from placl.config import Config
from placl.data.pool import Pool
from placl.learn.pseudo_labels import PseudoLabels

KEPT = 8  # arrays that stay in the object store after their task: rounds come back to the same halves


@dataclass(frozen=True)
class Parcel:
    """A task or a job, ready to be sent."""

    content: bytes
    arrays: tuple[Any, ...]  # references into the object store, for the places that `content` names


@dataclass(frozen=True)
class _Stored:
    array: np.ndarray  # what it was taken from: compared by identity, and kept so that no other takes its place
    rows: np.ndarray  # (R,) ascending: the rows of `array` that were stored
    reference: Any


class Packer:
    """Puts arrays into the object store, once for all tasks that ask for the same rows or some of them."""

    def __init__(self, put: Callable[[np.ndarray], Any]) -> None:
        self._put = put
        self._stored: list[_Stored] = []

    def pack(self, value: Any) -> Parcel:
        buffer, left_out = io.BytesIO(), _LeftOut()
        # Ray's pickler also takes classes that no node could import, such as those of a script.
        pickler = import_module("ray.cloudpickle").CloudPickler(buffer, protocol=5)
        pickler.persistent_id = left_out
        pickler.dump(value)
        groups: dict[int, list[Pool]] = {}
        for pool in left_out.pools:
            groups.setdefault(id(pool.crops), []).append(pool)
        stored: dict[int, _Stored] = {}  # by the array's id, in the order of the parcel's arrays
        for key, pools in groups.items():
            rows = np.unique(np.concatenate([pool.rows for pool in pools]))
            stored[key] = self._store(pools[0].crops, rows)
        for array in (array for labels in left_out.labels for array in (labels.keypoints, labels.confidence)):
            stored[id(array)] = self._store(array, np.arange(len(array)))
        place = {key: number for number, key in enumerate(stored)}
        pools_apart = [
            # Its own state, but for the crops, of which it has the place, and the rows, counted among those stored.
            pool.__getstate__()
            | {"crops": place[id(pool.crops)], "rows": np.searchsorted(stored[id(pool.crops)].rows, pool.rows)}
            for pool in left_out.pools
        ]
        labels_apart = [(place[id(p.keypoints)], place[id(p.confidence)], p.model) for p in left_out.labels]
        apart = _Apart(pools_apart, labels_apart, left_out.configs)
        content = pickle.dumps((buffer.getvalue(), apart), protocol=5)
        return Parcel(content, tuple(found.reference for found in stored.values()))

    def _store(self, array: np.ndarray, rows: np.ndarray) -> _Stored:
        found = next((s for s in self._stored if s.array is array and np.isin(rows, s.rows).all()), None)
        if found is None:
            # A plain array: a memory map of which every row is needed goes from the disk to the store without a copy.
            found = _Stored(array, rows, self._put(np.asarray(array if len(rows) == len(array) else array[rows])))
        self._stored = [found, *(s for s in self._stored if s is not found)][:KEPT]
        return found


@dataclass(frozen=True)
class _Apart:
    """What a pickle leaves out, with places among the parcel's arrays for the arrays."""

    pools: list[dict[str, Any]]  # states
    labels: list[tuple[int, int, str]]  # keypoints, confidence, model
    configs: list[tuple[Config, str, bytes]]  # with the name and the content of the file of weights


class _LeftOut:
    """Pools, pseudo-labels on a memory map, and configurations that name a file of weights, as a pickler meets them."""

    def __init__(self) -> None:
        self.pools: list[Pool] = []
        self.labels: list[PseudoLabels] = []
        self.configs: list[tuple[Config, str, bytes]] = []
        self._known: dict[int, tuple[str, int]] = {}

    def __call__(self, value: Any) -> tuple[str, int] | None:
        """``persistent_id`` of a pickler."""
        if id(value) not in self._known:
            if isinstance(value, Pool):
                self._known[id(value)] = ("pool", len(self.pools))
                self.pools.append(value)
            elif isinstance(value, PseudoLabels) and isinstance(value.keypoints, np.memmap):
                self._known[id(value)] = ("labels", len(self.labels))
                self.labels.append(value)
            elif isinstance(value, Config) and value.model.weights is not None:
                self._known[id(value)] = ("config", len(self.configs))
                self.configs.append((value, value.model.weights.name, value.model.weights.read_bytes()))
        return self._known.get(id(value))


def unpack(content: bytes, arrays: Sequence[np.ndarray]) -> Any:
    """The value again, on the machine it was sent to. Pools that shared their crops share them here too."""
    value, apart = pickle.loads(content)
    found: dict[str, list[Any]] = {
        "pool": [_pool({**state, "crops": arrays[state["crops"]]}) for state in apart.pools],
        "labels": [PseudoLabels(arrays[first], arrays[second], model) for first, second, model in apart.labels],
        "config": [_with_weights(*config) for config in apart.configs],
    }

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, identity: tuple[str, int]) -> Any:
            kind, number = identity
            return found[kind][number]

    return Unpickler(io.BytesIO(value)).load()


def _pool(state: dict[str, Any]) -> Pool:
    pool = Pool.__new__(Pool)
    pool.__setstate__(state)
    return pool


def _with_weights(config: Config, name: str, content: bytes) -> Config:
    """The configuration with its file of weights at a place of this machine."""
    folder = Path(tempfile.gettempdir()) / f"placl-weights-{hashlib.sha256(content).hexdigest()[:24]}"
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{os.getpid()}.part"
        part.write_bytes(content)
        part.replace(path)
    return config.model_copy(update={"model": config.model.model_copy(update={"weights": path})})
