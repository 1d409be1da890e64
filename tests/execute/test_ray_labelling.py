"""Labelling shards on a cluster: the pseudo-labels of one process, part by part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from placl.config import Config
from placl.data.packed import write_pool
from placl.data.pool import Pool
from placl.errors import InputError
from placl.execute import ray_labelling
from placl.execute.ray_labelling import Shard, label_sharded
from placl.learn.label import label
from placl.learn.network import fresh_network
from placl.learn.pseudo_labels import label_table
from placl.models.zoo import KeypointNet
from placl.run.folder import RunFolder

ray = pytest.importorskip("ray")
fsspec = pytest.importorskip("fsspec")
pytestmark = pytest.mark.ray

MakeConfig = Callable[..., Config]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a head without CPUs and two nodes with one each."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    nodes = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        nodes.add_node(**node)
    ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
    yield nodes.address
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def shards(pool: Pool, tmp_path: Path) -> list[Path]:
    """40 and 20 of the 60 animals."""
    parts = np.split(np.arange(60), [40])
    return [write_pool(pool.take(part), tmp_path / f"shard_{number}") for number, part in enumerate(parts)]


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"label.batch": 8, "label.flip": True, "execute.where": "ray"})


@pytest.fixture
def net(config: Config) -> KeypointNet:
    return fresh_network(config, 14, 3, torch.device("cpu"))


def test_two_shards_on_two_nodes(
    cluster: str, config: Config, net: KeypointNet, shards: list[Path], pool: Pool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(ray_labelling, "PART", 16)
    progress: list[tuple[int, int]] = []
    addresses: list[Any] = [shards[0], shards[1].as_uri()]
    out = (tmp_path / "labels").as_uri()
    found = label_sharded(net, addresses, out, config, model="m", on_progress=lambda *p: progress.append(p))
    names = [f"shard_00000_from_{n:09d}.parquet" for n in (0, 16, 32)]
    names += [f"shard_00001_from_{n:09d}.parquet" for n in (0, 16)]
    assert found.instances == 60
    assert found.parts == tuple(f"{out}/{name}" for name in names)
    assert sorted(path.name for path in (tmp_path / "labels").iterdir()) == names
    assert len(progress) == 5
    assert progress[-1] == (60, 60)
    tables = [pyarrow.parquet.read_table(tmp_path / "labels" / name) for name in names]
    halves = [pool.take(part) for part in np.split(np.arange(60), [40])]
    expected = [label_table(h, label(net, h, config, model="m", all_views=True)) for h in halves]
    assert pa.concat_tables(tables).equals(pa.concat_tables(expected))
    assert tables[0].schema.metadata == {b"model_sha256": b"m"}
    assert capfd.readouterr().out == ""  # which belongs to --json


def test_a_shard_that_breaks_on_the_way(
    cluster: str, config: Config, net: KeypointNet, shards: list[Path], tmp_path: Path
) -> None:
    content = (shards[1] / "crops.npy").read_bytes()
    (shards[1] / "crops.npy").write_bytes(content[:-100])
    with pytest.raises(InputError, match=r"^.*shard_1: crops\.npy is cut off\. Copy it again\.$"):
        label_sharded(net, shards, tmp_path / "labels", config)


def test_the_table_is_that_of_a_run(config: Config, net: KeypointNet, pool: Pool, tmp_path: Path) -> None:
    some = pool.take(np.arange(5))
    pseudo = label(net, some, config, model="m")
    RunFolder(tmp_path / "run", config).keep_pseudo_labels("round_1", some, pseudo)
    kept = pyarrow.parquet.read_table(tmp_path / "run" / "round_1" / "pseudo_labels.parquet")
    assert kept.equals(label_table(some, pseudo), check_metadata=True)


def test_a_shard_behind_an_address(shards: list[Path], pool: Pool) -> None:
    files = fsspec.filesystem("memory")
    files.put(str(shards[0]), "/bucket/shard", recursive=True)
    shard = Shard("memory://bucket/shard")
    assert shard.ids == pool.ids[:40]
    some = shard.pool(7, 12)
    np.testing.assert_array_equal(some.images(np.arange(5)), pool.images(np.arange(7, 12)))
    np.testing.assert_array_equal(some.to_image, pool.to_image[7:12])
    assert (some.skeleton, some.view, some.ids) == (pool.skeleton, pool.view, pool.ids[7:12])
    assert not some.labelled.any()


def test_what_is_refused_before_anything_starts(
    config: Config, net: KeypointNet, shards: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"^no shard to label: name packed pools"):
        label_sharded(net, [], tmp_path / "labels", config)
    with pytest.raises(InputError, match=r"nowhere: is not a packed pool \(.*\)\. Make it again"):
        label_sharded(net, [tmp_path / "nowhere"], tmp_path / "labels", config)
    with pytest.raises(InputError, match=r"shard_0: has 14 keypoints, and the network was made for others\.$"):
        label_sharded(fresh_network(config, 3, 0, torch.device("cpu")), shards, tmp_path / "labels", config)
    assert not (tmp_path / "labels").exists()
