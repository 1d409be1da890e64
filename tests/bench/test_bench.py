"""Each bench on a budget of nothing: what it measures, and that its ratios are those of what it timed."""

from __future__ import annotations

import mmap
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from placl.bench import memory
from placl.bench.executor import bench_executor
from placl.bench.importing import bench_import
from placl.bench.inner_loop import Setting, _heatmaps, bench_inner_loop, drawn_files, files_below
from placl.bench.label import bench_label
from placl.bench.measure import Measured, side_by_side
from placl.data.synthetic import write_animals
from placl.errors import InputError
from placl.models.codec import HeatmapCodec


def test_the_ratio_is_the_median_over_turns() -> None:
    measured = Measured({"fast": [1.0, 2.0, 4.0], "slow": [2.0, 2.0, 40.0]})
    assert measured.ratio("fast", "slow") == 2.0
    assert measured.median("slow") == 2.0


def test_things_take_turns_and_the_first_turn_does_not_count() -> None:
    turns: list[str] = []

    def slow() -> None:
        turns.append("slow")
        time.sleep(0.02)

    found = side_by_side({"fast": lambda: turns.append("fast"), "slow": slow}, 3)
    assert turns == ["fast", "slow"] * 4
    assert len(found.seconds["fast"]) == 3
    assert found.ratio("fast", "slow") > 10


def test_inner_loop() -> None:
    found = bench_inner_loop(1, setting=Setting(steps=2, batch=8))
    assert {"ratio", "versus_loader", "versus_loader_large", "machine"} <= set(found)
    assert 0 < found["ratio"] < 2
    assert found["versus_loader"] < found["versus_loader_large"]


def test_the_loaders_heatmaps_are_those_of_the_codec() -> None:
    points = np.array([[3.0, 4.0], [7.0, 0.0], [40.0, 2.0]])
    ours, _ = HeatmapCodec(64, 4, 1.0).encode(torch.tensor(4 * points + 1.5)[None].float(), torch.ones(1, 3))
    np.testing.assert_allclose(_heatmaps(points, 16, 1.0), ours[0].numpy(), atol=0.012)  # cut off at three sigma


def test_files_for_the_loader(tmp_path: Path) -> None:
    assert all(file.startswith(b"\xff\xd8") for file in drawn_files(64, 2))
    with pytest.raises(InputError, match="no JPEG"):
        files_below(tmp_path)


def test_label() -> None:
    found = bench_label(1, instances=32)
    assert 0 < found["ratio"] < 2


def test_import(tmp_path: Path) -> None:
    write_animals(tmp_path, 40, seed=0)
    found = bench_import(1, tmp_path, 2)
    assert found["images"] == 40
    assert found["ratio"] > 0
    assert found["second_start_seconds"] < 1


def test_executor() -> None:
    found = bench_executor(1, 2, 2, steps=1)
    assert found["speedup"] > 0
    assert found["workers"] == 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_in_a_process_of_its_own", lambda count: memory.peak_of(count))
    found = memory.bench_memory(1, (20, 40))
    assert found["ratio"] == pytest.approx(1, abs=0.2)
    assert found["mapped_megabytes"] == {"20": 1, "40": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_mapped_file_does_not_count(tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", np.ones(20_000_000, np.uint8))
    mapped = np.load(tmp_path / "big.npy", mmap_mode="r")
    assert mapped.sum() == 20_000_000  # every page is in memory now
    without = memory.resident_but(str(tmp_path / "big.npy"))
    assert memory.resident_but("") - without == pytest.approx(20_000_000, rel=0.01)
    taken = mmap.mmap(-1, 30_000_000)  # not from what malloc has kept
    for page in range(0, len(taken), mmap.PAGESIZE):
        taken[page] = 1
    assert memory.resident_but(str(tmp_path / "big.npy")) - without == pytest.approx(len(taken), rel=0.05)
