"""The inner loop against the bare network, and its data path against a loader of the usual kind.

The bare loop is the same network, loss and optimiser on tensors that are ready. The usual loader works image by image:
decode a JPEG, warp it with cv2, draw heatmaps with numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from placl import config as configuration
from placl.bench.measure import machine, side_by_side
from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.data.augment import augmented, draw
from placl.data.pool import Pool
from placl.data.synthetic import animals
from placl.errors import InputError
from placl.learn.course import TrainingSet
from placl.learn.device import thread_count
from placl.learn.inner_loop import inner_loop
from placl.learn.label import make_codec
from placl.learn.losses import heatmap_loss
from placl.learn.network import fresh_network

INSTANCES = 1024
STRIDE = 4  # of `tiny`
FULL = {"augment.rotate": 40, "augment.scale": 0.25, "augment.shift": 0.05, "augment.colour": 0.2, "augment.cutout": 2}


@dataclass(frozen=True)
class Setting:
    """A candidate of the size that the documentation speaks of: tiny, 64 px, batches of 32, full augmentation."""

    steps: int = 60
    batch: int = 32
    size: int = 64

    def config(self) -> Config:
        fixed = {
            "model.input_size": self.size,
            "teacher.input_size": None,
            "train.batch": self.batch,
            "train.optimizer": "adamw",  # a step of it takes hardly any time of its own
            "train.epochs": 1,
            "train.steps_per_epoch": self.steps,
            "search.group_size": 1,
            "proxy.epochs": None,
            "execute.device": "cpu",
        }
        return configuration.load(None, {**FULL, **fixed})


def bench_inner_loop(
    repeats: int = 5,
    threads: int = 1,
    crops: Path | None = None,
    photographs: Path | None = None,
    setting: Setting | None = None,
) -> dict[str, Any]:
    """``ratio``: a candidate's speed over the bare loop's; ``versus_loader``: its data path's over a loader's.

    The loader reads the JPEGs below ``crops`` and, for ``versus_loader_large``, below ``photographs``; without them,
    drawn animals of 128 and of 500 pixels.
    """
    setting = setting or Setting()
    config = setting.config()
    pool = animals(INSTANCES, seed=0, size=setting.size)
    data = TrainingSet(pool)
    with thread_count(threads):
        bare = bare_loop(config, pool)
        found = side_by_side(
            {
                "candidate": lambda: inner_loop(config, data, constant(0), 0, threads=threads),
                "bare": bare,
            },
            repeats,
        )
    images = setting.steps * setting.batch
    result: dict[str, Any] = {
        "ratio": round(found.ratio("candidate", "bare"), 3),
        "candidate_images_per_second": round(images / found.median("candidate")),
        "bare_images_per_second": round(images / found.median("bare")),
        "threads": threads,
    }
    small = files_below(crops) if crops else drawn_files(128)
    large = files_below(photographs) if photographs else drawn_files(500)
    result["versus_loader"] = round(versus_loader(config, pool, small, repeats), 2)
    result["versus_loader_large"] = round(versus_loader(config, pool, large, repeats), 2)
    return {**result, "repeats": repeats, "machine": machine()}


def bare_loop(config: Config, pool: Pool) -> Callable[[], None]:
    """As many steps on batches that are ready."""
    net = fresh_network(config, len(pool.skeleton), 0, torch.device("cpu")).train()
    codec = make_codec(config, net.stride)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(4):
        images, points, weights = _batch(config, pool, np.arange(config.train.batch), generator)
        targets, weights = codec.encode(points, weights)
        batches.append((images, targets, weights))

    def run() -> None:
        for step in range(config.train.steps_per_epoch):
            images, targets, weights = batches[step % len(batches)]
            loss = heatmap_loss(config.train.loss, net(images), targets, weights)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()

    return run


def _batch(
    config: Config, pool: Pool, index: np.ndarray, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return augmented(
        torch.from_numpy(pool.images(index)),
        torch.from_numpy(pool.keypoints[index]),
        torch.from_numpy((pool.visibility[index] > 0).astype(np.float32)),
        draw(len(index), config.augment, pool.view, config.model.input_size, generator),
        settings=config.augment,
        size=config.model.input_size,
        flip_order=torch.from_numpy(pool.skeleton.flip_order),
    )


def drawn_files(side: int, count: int = 16) -> list[bytes]:
    """Drawn animals as JPEGs of ``side`` pixels."""
    images = animals(count, seed=1, size=side).images(np.arange(count))
    edge = (images.shape[1] - side) // 2
    images = images[:, edge : edge + side, edge : edge + side]
    return [cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes() for image in images]


def files_below(folder: Path, count: int = 256) -> list[bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not paths:
        raise InputError(f"{folder}: there is no JPEG below it.")
    return [path.read_bytes() for path in paths[:count]]


def versus_loader(config: Config, pool: Pool, files: list[bytes], repeats: int, batches: int = 8) -> float:
    """Augmented and encoded batches per second and core, over those of a loader that goes image by image."""
    batch, generator = config.train.batch, torch.Generator().manual_seed(0)
    codec = make_codec(config, STRIDE)
    random = np.random.default_rng(0)

    def ours() -> None:
        for _ in range(batches):
            _, points, weights = _batch(config, pool, random.integers(0, len(pool), batch), generator)
            codec.encode(points, weights)

    def theirs() -> None:
        for _ in range(batches):
            rows = random.integers(0, len(pool), batch)
            items = [_item(config, pool, int(row), files[int(row) % len(files)], random) for row in rows]
            torch.from_numpy(np.stack([image for image, _ in items]))
            torch.from_numpy(np.stack([target for _, target in items]))

    with thread_count(1):
        before = cv2.getNumThreads()
        cv2.setNumThreads(0)
        try:
            return side_by_side({"ours": ours, "theirs": theirs}, repeats).ratio("ours", "theirs")
        finally:
            cv2.setNumThreads(before)


def _item(
    config: Config, pool: Pool, row: int, file: bytes, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One training item as HRNet's and mmpose's loaders make it: (3, S, S) image and (K, H, H) heatmaps."""
    settings, size = config.augment, config.model.input_size
    decoded = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    image = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
    height, width = image.shape[:2]
    points = pool.keypoints[row] * (max(height, width) / pool.crop_size)
    if random.random() < settings.flip:
        image, points = image[:, ::-1], points[pool.skeleton.flip_order] * [-1, 1] + [width - 1, 0]
    angle = random.uniform(-settings.rotate, settings.rotate) if random.random() < settings.rotate_share else 0.0
    zoom = size / (max(height, width) * random.uniform(1 - settings.scale, 1 + settings.scale))
    affine = np.asarray(cv2.getRotationMatrix2D((width / 2, height / 2), angle, zoom), np.float64)
    affine[:, 2] += size / 2 - np.array([width / 2, height / 2])
    seen = cv2.warpAffine(image, affine, (size, size), flags=cv2.INTER_LINEAR)
    pixels = (seen.astype(np.float32) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    moved = points @ affine[:, :2].T + affine[:, 2]
    return pixels.transpose(2, 0, 1).astype(np.float32), _heatmaps(moved / STRIDE, size // STRIDE, config.train.sigma)


def _heatmaps(points: np.ndarray, side: int, sigma: float) -> np.ndarray:
    """(K, side, side) Gaussians of three sigma, patch by patch."""
    heatmaps = np.zeros((len(points), side, side), np.float32)
    reach = int(np.ceil(3 * sigma))
    offsets = np.arange(-reach, reach + 1)
    patch = np.exp(-(offsets[None] ** 2 + offsets[:, None] ** 2) / (2 * sigma**2))
    for heatmap, (x, y) in zip(heatmaps, points.round().astype(int), strict=True):
        left, right, top, bottom = x - reach, x + reach + 1, y - reach, y + reach + 1
        if right <= 0 or bottom <= 0 or left >= side or top >= side:
            continue
        rows = slice(max(-top, 0), patch.shape[0] - max(bottom - side, 0))
        columns = slice(max(-left, 0), patch.shape[1] - max(right - side, 0))
        heatmap[max(top, 0) : min(bottom, side), max(left, 0) : min(right, side)] = patch[rows, columns]
    return heatmaps
