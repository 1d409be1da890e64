"""Ray: the same bits as one process on a cluster of several nodes, whoever dies or joins on the way."""

from __future__ import annotations

import csv
import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placl.api import Result, train
from placl.config import Config, Execute, Ray
from placl.curriculum.curriculum import Curriculum
from placl.data.load import Dataset
from placl.data.pool import Pool, concatenate
from placl.errors import InputError, MachineError
from placl.execute import ray as ray_module
from placl.execute.executor import make_executor
from placl.execute.ray import RayExecutor
from placl.execute.ray_connection import Connection, _is_here
from placl.execute.serial import SerialExecutor
from placl.learn.candidate import Job, Task
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels
from placl.learn.training import Training
from placl.watch import Level, Silent

ray = pytest.importorskip("ray")
from placl.execute.ray_parcel import KEPT, Packer, unpack  # noqa: E402 - these need Ray
from placl.execute.ray_worker import VERSIONS, Order, work  # noqa: E402

pytestmark = pytest.mark.ray

MakeConfig = Callable[..., Config]
JOBS = {number: Job(Curriculum((0.2 * number, 0.1)), seed=7) for number in range(2)}
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
SMALL_RUN = {
    **{"data.label_fraction": 0.4, "train.epochs": 4, "train.steps_per_epoch": 10, "search.group_size": 2},
    **{"rounds.count": 1, "rounds.finish": "last"},
}


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    head = {"num_cpus": 0, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    # A lost node is found out by asking it, here more often than every 3 s.
    asking = {"health_check_period_ms": 500, "health_check_timeout_ms": 5000, "health_check_failure_threshold": 4}
    cluster = Cluster(initialize_head=True, head_node_args={**head, "_system_config": asking})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def cluster(_cluster: Any) -> Any:
    """A head without CPUs and two nodes with one each."""
    while len(_cluster.worker_nodes) < 2:
        _cluster.add_node(**NODE)
    return _cluster


@pytest.fixture
def connected(cluster: Any) -> Any:
    """The program's own connection, which executors use and leave alone; workers live on between them."""
    if not ray.is_initialized():
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    return cluster


@pytest.fixture
def task(tiny: MakeConfig, pool: Pool, tmp_path: Path) -> Task:
    """On a memory map, as every dataset that comes from files is."""
    np.save(tmp_path / "crops.npy", pool.crops)
    mapped = replace(pool, crops=np.load(tmp_path / "crops.npy", mmap_mode="r"))
    labelled, hidden, val = (mapped.take(part) for part in np.split(np.arange(5, 60), [16, 40]))
    pseudo = PseudoLabels(hidden.keypoints, np.full((24, 14), 0.5, np.float32), "m")
    return Task(tiny({"train.epochs": 4}), TrainingSet(labelled, hidden.without_labels(), pseudo), val)


@pytest.fixture(scope="module")
def serial(tiny: MakeConfig, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return train(tiny(SMALL_RUN), tmp_path_factory.mktemp("serial") / "run", dataset=dataset)


def silent(*arguments: Any) -> None:
    pass


def results_of(executor: Any, task: Any, jobs: dict[int, Any]) -> dict[int, Any]:
    done: dict[int, Any] = {}
    executor.run(task, jobs, done.__setitem__, silent)
    return done


def facts(result: Result) -> dict[str, Any]:
    """All that a run found, but for what the clock says."""
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in result.rows]
    search = list(csv.DictReader((result.run / "round_1" / "search.csv").read_text().splitlines()))
    return {"rows": rows, "search": search, "best": json.loads((result.run / "round_1/curriculum.json").read_text())}


# --- whole runs


def test_two_nodes_give_the_bits_of_one_process(
    cluster: Any, serial: Result, tiny: MakeConfig, dataset: Dataset, tmp_path: Path
) -> None:
    ray.shutdown()
    settings = {"execute.where": "ray", "ray.address": cluster.address}
    found = train(tiny({**SMALL_RUN, **settings}), tmp_path / "run", dataset=dataset)
    assert facts(found) == facts(serial)
    assert len({row["reward"] for row in facts(found)["search"]}) > 1
    assert not ray.is_initialized()  # the connection was the training's own


class Killer(Silent):
    """Kills a node in the middle of the second step, with a candidate on it."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.step, self.killed = cluster, 0.0, 0

    def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
        if level == "step":
            self.step = done
        if level == "epoch" and note.startswith("candidate") and self.step == 1 and not self.killed:
            node, workers = next((node, busy) for node in self.cluster.worker_nodes if (busy := busy_workers(node)))
            self.killed = len(workers)
            raylet = node.all_processes["raylet"][0].process.pid
            for process in (raylet, *workers):
                os.kill(process, signal.SIGKILL)
            self.cluster.remove_node(node, allow_graceful=False)  # what is left of it


def busy_workers(node: Any) -> list[int]:
    """Workers of a node that run a job: Ray names them after it."""
    raylet, found = node.all_processes["raylet"][0].process.pid, []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == raylet and (status.parent / "cmdline").read_bytes().startswith(b"ray::work"):
                found.append(int(status.parent.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds workers in /proc")
def test_a_node_killed_in_the_middle_of_a_step_changes_nothing(
    connected: Any, serial: Result, tiny: MakeConfig, dataset: Dataset, tmp_path: Path
) -> None:
    killer = Killer(connected)
    found = train(tiny({**SMALL_RUN, "execute.where": "ray"}), tmp_path / "run", killer, dataset)
    assert killer.killed == 1
    assert facts(found) == facts(serial)
    until = time.monotonic() + 60  # the cluster takes a while to notice, and the training need not wait for it
    while sum(node["Alive"] for node in ray.nodes()) > 2 and time.monotonic() < until:
        time.sleep(0.2)
    assert sum(node["Alive"] for node in ray.nodes()) == 2
    assert ray.is_initialized()  # the connection was not the training's


# --- one call of the executor


def test_a_node_that_joins_gets_the_work(
    connected: Any, task: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Candidates of two threads, for which no node has room before another one joins."""
    monkeypatch.setattr(ray_module, "LOOK_EVERY", 0.5)
    settings = task.config.execute.model_copy(update={"threads": 2, "where": "ray"})
    task = replace(task, config=task.config.model_copy(update={"execute": settings}))
    executor = make_executor(settings, Ray())
    assert executor.workers == 1
    joined: list[Any] = []

    class Join(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            joined.append(connected.add_node(**{**NODE, "num_cpus": 2}))

    handler = Join()
    logging.getLogger("placl").addHandler(handler)
    try:
        assert results_of(executor, task, JOBS) == results_of(SerialExecutor(), task, JOBS)
    finally:
        logging.getLogger("placl").removeHandler(handler)
        executor.close()
        for node in joined:
            connected.remove_node(node)
    assert [record.getMessage() for record in caplog.records] == [
        "No node of the Ray cluster has 2 CPUs: waiting for one to join."
    ]


def test_a_machine_joins_for_as_long_as_it_needs(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the address of a cluster that it is not part of: as a node without CPUs, which gets no candidates."""
    assert _is_here(connected.address.partition(":")[0])
    monkeypatch.setattr("placl.execute.ray_connection._is_here", lambda host: False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **arguments: None)

    def nodes() -> list[float]:
        return sorted(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])

    connection = Connection(Execute(where="ray"), Ray(address=connected.address))
    try:
        assert nodes() == [0, 0, 1, 1]
    finally:
        connection.close()
    until = time.monotonic() + 10
    while nodes() != [0, 1, 1] and time.monotonic() < until:
        time.sleep(0.1)
    assert nodes() == [0, 1, 1]


class Trouble:
    """A task whose jobs are what they do."""

    def run(self, job: str, on_progress: Callable[[int, int], None]) -> str:
        on_progress(1, 3)
        if job == "refuse":
            raise InputError("bad file")
        if job == "fail":
            raise ZeroDivisionError
        if job == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == "sleep":
            time.sleep(60)
        on_progress(3, 3)
        return job


def test_what_goes_wrong_reaches_the_caller(connected: Any) -> None:
    executor = RayExecutor(Execute(where="ray", device="cpu"), Ray(retries=1))
    try:
        assert executor.workers == 2
        assert results_of(executor, Trouble(), {4: "a", 2: "b"}) == {4: "a", 2: "b"}
        with pytest.raises(InputError, match=r"^bad file$"):
            results_of(executor, Trouble(), {0: "refuse"})
        with pytest.raises(RuntimeError, match=r"a training failed in a worker:\nTraceback[^$]*ZeroDivisionError"):
            results_of(executor, Trouble(), {0: "fail"})
        with pytest.raises(MachineError, match=r"^a training was lost with its worker or node 2 times \(Worker.*\)\."):
            results_of(executor, Trouble(), {0: "die"})
        with pytest.raises(InputError, match=r"^bad file$"):
            results_of(executor, Trouble(), {0: "sleep", 1: "refuse"})
        until = time.monotonic() + 30
        while any(map(busy_workers, connected.worker_nodes)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(map(busy_workers, connected.worker_nodes))  # the sleeper would sleep for a minute
    finally:
        executor.close()


def test_progress_comes_in_and_may_be_lost(connected: Any) -> None:
    executor = RayExecutor(Execute(where="ray", device="cpu"), Ray())
    seen: list[tuple[int, ...]] = []

    def interrupted(*progress: int) -> None:
        seen.append(progress)
        raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            executor.run(Trouble(), {7: "sleep"}, silent, interrupted)
        assert seen == [(7, 1, 3)]
        ray.kill(executor._listener.board)  # for good
        assert results_of(executor, Trouble(), {0: "a"}) == {0: "a"}
    finally:
        executor.close()


@dataclass(frozen=True)
class Look:
    """Says what arrived of its pools."""

    first: Pool
    second: Pool

    def run(self, job: TrainingSet, on_progress: Callable[[int, int], None]) -> dict[str, Any]:
        both = concatenate([self.first, self.second])  # refuses pools that do not share their crops
        return {
            "task": both.images(np.arange(len(both))).tobytes(),
            "job": job.labelled.images(np.arange(len(job.labelled))).tobytes(),
            "rows": len(both.crops),
            "kind": type(both.crops).__name__,
            "copied": both.crops.flags.writeable or both.crops.flags.owndata,
        }


def test_crops_are_arrays_on_other_machines(connected: Any, task: Task) -> None:
    executor = RayExecutor(Execute(where="ray", device="cpu"), Ray())
    first, second, job = task.data.labelled, task.val, TrainingSet(task.data.labelled)
    expected = [pool.images(np.arange(len(pool))).tobytes() for pool in (first, second)]
    assert isinstance(first.crops, np.memmap)
    Path(str(first.crops.filename)).unlink()  # this process has it mapped, a worker could not open it any more
    try:
        found = results_of(executor, Look(first, second), {0: job, 1: job})
    finally:
        executor.close()
    for seen in found.values():
        assert seen["task"] == b"".join(expected)
        assert seen["job"] == expected[0]
        assert (seen["rows"], seen["kind"], seen["copied"]) == (len(first) + len(second), "ndarray", False)


# --- without a cluster: what is packed, what a worker answers, what is refused


class Store(list[np.ndarray]):
    """Stands in for the object store: a reference is a place in it."""

    def put(self, array: np.ndarray) -> int:
        self.append(array)
        return len(self) - 1


def test_only_the_rows_in_use_are_put_and_once(task: Task) -> None:
    store = Store()
    packer = Packer(store.put)
    parcel = packer.pack(task)
    assert [len(array) for array in store] == [55]  # of the 60 of the memory map, and once for three pools
    assert type(store[0]) is np.ndarray
    found = unpack(parcel.content, [store[i] for i in parcel.arrays])
    assert found.config == task.config
    assert found.data.labelled.crops is found.data.unlabelled.crops is found.val.crops is store[0]
    for ours, theirs in ((task.data.labelled, found.data.labelled), (task.val, found.val)):
        assert theirs.ids == ours.ids
        np.testing.assert_array_equal(theirs.images(np.arange(len(theirs))), ours.images(np.arange(len(ours))))
        np.testing.assert_array_equal(theirs.keypoints, ours.keypoints)
        assert theirs.keypoints.flags.writeable
    # A full training on a part of it finds its rows in the store.
    again = packer.pack(Training(task.config, TrainingSet(task.data.labelled.take(np.array([3, 1]))), None, 0))
    assert (again.arrays, len(store)) == ((0,), 1)
    small = unpack(again.content, [store[0]]).data.labelled
    np.testing.assert_array_equal(small.images(np.arange(2)), task.data.labelled.images(np.array([3, 1])))
    # Of another crop array, nothing is there yet; after some of those, the first is forgotten.
    for _ in range(KEPT):
        packer.pack(replace(task.val, crops=np.array(task.val.crops)))
    assert len(store) == 1 + KEPT
    packer.pack(task.val)
    assert len(store) == 2 + KEPT


def test_mapped_pseudo_labels_are_arrays_too(task: Task, tmp_path: Path) -> None:
    labels, mapped = task.data.pseudo, {}
    assert labels is not None
    for name in ("keypoints", "confidence"):
        np.save(tmp_path / f"{name}.npy", getattr(labels, name))
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    store = Store()
    packer = Packer(store.put)
    data = replace(task.data, pseudo=PseudoLabels(**mapped, model="m"))
    parcel = packer.pack(replace(task, data=data))
    assert parcel.arrays == (0, 1, 2)
    assert b".npy" not in parcel.content
    assert [type(array) for array in store] == [np.ndarray] * 3
    found = unpack(parcel.content, store).data.pseudo
    np.testing.assert_array_equal(found.keypoints, labels.keypoints)
    np.testing.assert_array_equal(found.confidence, labels.confidence)
    assert found.model == "m"
    assert packer.pack(Training(task.config, data, None, 0)).arrays == (0, 1, 2)  # again, and nothing put


def test_a_file_of_weights_travels(tiny: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.safetensors").write_bytes(b"weights")
    settings = {"model.init": "pretrained", "model.weights": str(tmp_path / "own.safetensors")}
    parcel = Packer(Store().put).pack([tiny(settings)])
    (tmp_path / "own.safetensors").unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there"))
    (config,) = unpack(parcel.content, [])
    assert config.model.weights.name == "own.safetensors"
    assert config.model.weights.is_relative_to(tmp_path / "there")
    assert config.model.weights.read_bytes() == b"weights"


def test_nodes_with_other_versions_are_refused(task: Task) -> None:
    parcel = Packer(Store().put).pack(Trouble())
    order = Order((1, 0), "key", 0, VERSIONS)
    job = Packer(Store().put).pack("a")
    assert work(order, parcel.content, job.content, None) == ("done", "a")
    kind, error = work(replace(order, versions=("0.0.1", "1.0", "4.0")), parcel.content, job.content, None)
    assert kind == "refused"
    assert isinstance(error, InputError)
    theirs = r"the driver placl 0\.0\.1, torch 1\.0 and OpenCV 4\.0: "
    assert re.search(rf"node .* has placl .*, torch .* and OpenCV .*, {theirs}", str(error))


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("somewhere", "ray.address=somewhere: is not auto, HOST:PORT or ray://HOST:PORT"),
        (
            "127.0.0.1:1",
            "ray.address=127.0.0.1:1: nothing answers there (Connection refused). Is the",
        ),
        ("ray://127.0.0.1:1", "ray.address=ray://127.0.0.1:1: nothing answers there (Connection refused)."),
    ],
)
def test_addresses_where_no_cluster_is(address: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InputError) as refused:
        make_executor(Execute(where="ray"), Ray(address=address))
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_a_machine_that_is_part_of_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**arguments: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError, match=r"^ray\.address=auto: this machine is not part of a Ray cluster\. Start one"):
        make_executor(Execute(where="ray"), Ray())


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"^execute=ray needs Ray: pip install 'placl\[ray\]'\.$"):
        make_executor(Execute(where="ray"), Ray())


def test_nodes_without_placl() -> None:
    cause = ModuleNotFoundError("No module named 'placl'")
    trace = f"Traceback (most recent call last):\n  ...\nModuleNotFoundError: {cause}"

    def get(reference: Any) -> None:
        raise ray.exceptions.RayTaskError("work", trace, cause)

    executor = RayExecutor.__new__(RayExecutor)
    executor._ray = SimpleNamespace(get=get, exceptions=ray.exceptions)
    with pytest.raises(InputError, match=r"^a node of the cluster cannot run placl \(ModuleNotFoundError: No mod"):
        executor._answered(None, 0, Counter(), silent)


def test_parts_of_gpus() -> None:
    with pytest.raises(InputError, match=r"^ray\.gpus_per_candidate=1\.5: above 1 it is a whole number of GPUs\.$"):
        make_executor(Execute(where="ray"), Ray(gpus_per_candidate=1.5))


@pytest.mark.parametrize(
    ("settings", "per_candidate", "workers"),
    [
        (Execute(device="cpu", threads=3), None, 2 + 1),
        (Execute(threads=1), None, 4 + 1),  # a GPU each
        (Execute(threads=1), 0.5, 8 + 2),
        (Execute(threads=1), 3, 1),
        (Execute(threads=1, workers=2), None, 2),
    ],
)
def test_how_many_run_at_once(settings: Execute, per_candidate: float | None, workers: int) -> None:
    executor = RayExecutor.__new__(RayExecutor)
    nodes = [({"CPU": 8.0, "GPU": 4.0}, True), ({"CPU": 4.0, "GPU": 1.0}, True), ({}, True), ({"CPU": 64.0}, False)]
    listed = [{"Resources": resources, "Alive": alive} for resources, alive in nodes]
    executor._ray = SimpleNamespace(nodes=lambda: listed)
    executor._settings, executor._cluster = settings, Ray(gpus_per_candidate=per_candidate)
    assert executor._places(settings.threads) == workers
