"""Pseudo-labelling against bare inference: the same network on tensors that are ready, with nothing read out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from placl.bench.inner_loop import Setting
from placl.bench.measure import machine, side_by_side
from placl.data.augment import plain_view
from placl.data.synthetic import animals
from placl.learn.device import thread_count
from placl.learn.label import label
from placl.learn.network import fresh_network


def bench_label(repeats: int = 5, threads: int = 1, instances: int = 1024) -> dict[str, Any]:
    """``ratio``: instances per second of labelling (plain view) over those of bare inference."""
    config = Setting().config()
    pool = animals(instances, seed=0, size=config.model.input_size)
    net = fresh_network(config, len(pool.skeleton), 0, torch.device("cpu")).eval()
    size = config.label.batch
    ready = [
        plain_view(torch.from_numpy(pool.images(index)), pool.view, config.model.input_size)
        for index in np.split(np.arange(instances), range(size, instances, size))
    ]

    def bare() -> None:
        with torch.inference_mode():
            for images in ready:
                net(images)

    with thread_count(threads):
        found = side_by_side({"label": lambda: label(net, pool, config), "bare": bare}, repeats)
    return {
        "ratio": round(found.ratio("label", "bare"), 3),
        "label_images_per_second": round(instances / found.median("label")),
        "bare_images_per_second": round(instances / found.median("bare")),
        "threads": threads,
        "repeats": repeats,
        "machine": machine(),
    }
