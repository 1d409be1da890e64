"""Pseudo-labels of pools that are too large for one machine, by Ray Data: shards go in, parts of a table come out.

Shards are packed pools (``placl data import --to pool``), on a disk that all nodes see or behind any fsspec address. A
worker holds the network once and a batch of crops at a time, and writes each part itself: nothing large comes back.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import safetensors.torch
import torch

from placl.config import Config
from placl.data.packed import skeleton_from
from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.learn.device import pick_device, thread_count
from placl.learn.label import label
from placl.learn.network import network_with
from placl.learn.pseudo_labels import label_table
from placl.models.weights import weights_bytes
from placl.models.zoo import KeypointNet

PART = 4096  # instances of a part, about: whole batches, so that networks see the batches of an undivided pool


@dataclass(frozen=True)
class Labelled:
    instances: int
    parts: tuple[str, ...]  # files, in the order of the shards and of their instances


def _files(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path within it."""
    found: tuple[Any, str] = import_module("fsspec.core").url_to_fs(address)
    return found


class Shard:
    """A packed pool behind any address. Of its crops, only what is asked for is read."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            self._files, self._root = _files(address)
            facts = json.loads(self._files.cat_file(f"{self._root}/pool.json"))
            self.ids, self.view = tuple(facts["ids"]), float(facts["view"])
            self.skeleton: Skeleton = skeleton_from(facts["skeleton"])
            self._to_image = np.load(io.BytesIO(self._files.cat_file(f"{self._root}/to_image.npy")), allow_pickle=False)
            head = io.BytesIO(self._files.cat_file(f"{self._root}/crops.npy", 0, 4096))
            np.lib.format.read_magic(head)
            shape, _, dtype = np.lib.format.read_array_header_1_0(head)
            self._first, self._crop = head.tell(), shape[1:]
            if dtype != np.uint8 or shape[0] != len(self.ids) or self._to_image.shape != (len(self.ids), 3):
                raise ValueError("its files do not fit together")
        except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
            raise InputError(
                f"{address}: is not a packed pool ({error}). Make it again: placl data import --to pool."
            ) from error

    def pool(self, start: int, stop: int) -> Pool:
        """Some instances, without labels."""
        n, k, size = stop - start, len(self.skeleton), int(np.prod(self._crop))
        content = self._files.cat_file(f"{self._root}/crops.npy", self._first + start * size, self._first + stop * size)
        if len(content) != n * size:
            raise InputError(f"{self.address}: crops.npy is cut off. Copy it again.")
        return Pool(
            skeleton=self.skeleton,
            crops=np.frombuffer(bytearray(content), np.uint8).reshape(n, *self._crop),
            rows=np.arange(n),
            keypoints=np.zeros((n, k, 2), np.float32),
            visibility=np.zeros((n, k), np.uint8),
            length=np.ones(n, np.float32),
            area=np.ones(n, np.float32),
            to_image=self._to_image[start:stop],
            image=np.arange(start, stop),
            ids=self.ids[start:stop],
            view=self.view,
        )


class Labeller:
    """What an actor of Ray Data does: a network, made once, that labels pieces of shards."""

    def __init__(self, config: Config, keypoints: int, weights: Any, model: str, out: str) -> None:
        import ray

        self._config, self._model, self._out = config, model, out
        self._net = network_with(
            config, keypoints, safetensors.torch.load(ray.get(weights)), pick_device(config.execute.device)
        )
        self._shard: Shard | None = None

    def __call__(self, pieces: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        refusals = [self._refusal(**{key: pieces[key][i] for key in pieces}) for i in range(len(pieces["part"]))]
        return {"instances": list(pieces["stop"] - pieces["start"]), "refusal": refusals}

    def _refusal(self, shard: str, start: int, stop: int, part: str) -> str:
        """What is wrong with the piece; empty where nothing is, and its part is written."""
        try:
            self._label(str(shard), int(start), int(stop), str(part))
        except InputError as error:  # as a value: an exception would come out of Ray Data as many lines
            return str(error)
        return ""

    def _label(self, shard: str, start: int, stop: int, part: str) -> None:
        if self._shard is None or self._shard.address != shard:
            self._shard = Shard(shard)
        tables, batch = [], self._config.label.batch
        with thread_count(self._config.execute.final_threads):
            for first in range(start, stop, batch):
                pool = self._shard.pool(first, min(first + batch, stop))
                found = label(self._net, pool, self._config, model=self._model, all_views=True)
                tables.append(label_table(pool, found))
        files, root = _files(self._out)
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pa.concat_tables(tables), sink)
        files.pipe_file(f"{root}/.{part}.writing", sink.getvalue())
        files.mv(f"{root}/.{part}.writing", f"{root}/{part}")  # a part is whole or not there


def label_sharded(
    net: KeypointNet,
    shards: Sequence[str | Path],
    out: str | Path,
    config: Config,
    *,
    model: str = "",
    on_progress: Callable[[int, int], None] | None = None,
) -> Labelled:
    """Label every instance of the shards on the cluster of ``config.ray``; ``out`` is a folder or an fsspec address."""
    from placl.execute.ray_connection import Connection, import_ray

    import_ray()
    weights = weights_bytes(net)
    pieces, skeleton = _pieces([str(shard) for shard in shards], config)
    try:
        network_with(config, len(skeleton), safetensors.torch.load(weights), torch.device("cpu"))  # fails in one place
    except RuntimeError:
        raise InputError(f"{shards[0]}: has {len(skeleton)} keypoints, and the network was made for others.") from None
    files, root = _files(str(out))
    files.makedirs(root, exist_ok=True)
    total = sum(piece["stop"] - piece["start"] for piece in pieces)
    done = 0
    connection = Connection(config.execute, config.ray)
    try:
        arguments = (config, len(skeleton), connection.ray.put(weights), model, str(out))
        for row in _labelled(pieces, arguments, config).iter_rows():
            if row["refusal"]:
                raise InputError(row["refusal"])
            done += row["instances"]
            if on_progress:
                on_progress(done, total)
    finally:
        connection.close()
    return Labelled(total, tuple(f"{out}/{piece['part']}" for piece in pieces))


def _pieces(shards: list[str], config: Config) -> tuple[list[dict[str, Any]], Skeleton]:
    """What there is to label, a part each. Reads what the shards say of themselves, and no crops."""
    if not shards:
        raise InputError("no shard to label: name packed pools, which placl data import --to pool makes.")
    size = config.label.batch * max(1, PART // config.label.batch)
    first, pieces = Shard(shards[0]), []
    for number, address in enumerate(shards):
        shard = Shard(address)
        if shard.skeleton.keypoints != first.skeleton.keypoints:
            raise InputError(f"{address}: has other keypoints than {shards[0]}. Label them one after the other.")
        for start in range(0, len(shard.ids), size):
            part = f"shard_{number:05d}_from_{start:09d}.parquet"
            stop = min(start + size, len(shard.ids))
            pieces.append({"shard": address, "start": start, "stop": stop, "part": part})
    return pieces, first.skeleton


def _labelled(pieces: list[dict[str, Any]], arguments: tuple[Any, ...], config: Config) -> Any:
    """The dataset of finished pieces, worked off while it is read by as many actors as the cluster has room for."""
    ray: Any = import_module("ray")
    ray_data: Any = import_module("ray.data")
    resources, threads = ray.cluster_resources(), config.execute.final_threads
    gpus = int(config.execute.device != "cpu" and resources.get("GPU", 0) > 0)
    room = int(resources["GPU"] if gpus else resources.get("CPU", 0) // threads)
    ray_data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray_data.from_items(pieces, override_num_blocks=len(pieces)).map_batches(
        Labeller,
        fn_constructor_args=arguments,
        batch_size=1,
        concurrency=(1, max(1, min(room, len(pieces)))),
        num_cpus=threads,
        num_gpus=gpus,
    )
