"""Pseudo-labels by an executor: the bits of one process, whoever does which piece."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from placl import labelling
from placl.config import Config
from placl.data.pool import Pool
from placl.execute.pool import PoolExecutor
from placl.execute.serial import SerialExecutor
from placl.labelling import label_with
from placl.learn.label import label
from placl.learn.network import fresh_network

MakeConfig = Callable[..., Config]


@pytest.mark.parametrize("workers", [1, 2])
def test_pieces_say_what_the_whole_says(
    tiny: MakeConfig, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(labelling, "PIECE", 17)
    config = tiny({"label.batch": 8, "label.flip": True})
    net = fresh_network(config, len(pool.skeleton), 3, torch.device("cpu"))
    before = torch.get_num_threads()
    torch.set_num_threads(config.execute.final_threads)
    expected = label(net, pool, config, all_views=True)
    torch.set_num_threads(before)
    executor = SerialExecutor() if workers == 1 else PoolExecutor(workers)
    seen: list[tuple[int, int]] = []
    try:
        found = label_with(
            executor, net, pool, config, model="m", folder=tmp_path, on_progress=lambda *at: seen.append(at)
        )
    finally:
        executor.close()
    assert isinstance(found.keypoints, np.memmap)
    np.testing.assert_array_equal(found.keypoints, expected.keypoints)
    np.testing.assert_array_equal(found.confidence, expected.confidence)
    assert found.model == "m"
    assert seen[-1] == (len(pool), len(pool))
    assert len(seen) == -(-len(pool) // 16)
