"""Pictures whose keypoints are a red, a green and a blue dot, and a network that finds them without training.

Prediction and evaluation can be held against known places, through every step from the file to the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from placl import api
from placl import config as configuration
from placl.data.skeleton import Skeleton
from placl.learn.score import Score
from placl.models import zoo
from placl.models.weights import weights_sha256

DOTS = Skeleton(("left_red", "green", "right_blue"), edges=((0, 1), (1, 2)), flip_pairs=((0, 2),))
WIDTH, HEIGHT, BOX, APART = 160, 64, 48, 96  # boxes are so far apart that no view shows two


class DotNet(zoo.KeypointNet):
    """Heatmap k is where colour k is bright and the others are not."""

    stride = 2

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, images: Tensor) -> Tensor:
        pure = 2 * images - images.sum(dim=1, keepdim=True) + images
        return self.gain * F.avg_pool2d(pure, 2) - 4


@contextmanager
def dot_network() -> Iterator[None]:
    """``model.name=dots`` within."""
    zoo.register("dots")(lambda spec: DotNet())
    try:
        yield
    finally:
        del zoo._REGISTRY["dots"]


def dot_config(**overrides: Any) -> configuration.Config:
    settings = {"model.name": "dots", "model.input_size": 64, "train.loss": "bce", "label.decode": "quarter"}
    return configuration.load(None, {**settings, "label.flip": False, "select.score": "peak", **overrides})


def write_dot_model(folder: Path) -> Path:
    """A run folder with nothing but ``best/``."""
    config, net = dot_config(), DotNet()
    val = Score(50.0, "PCK@0.1", {}, 0.0, 1, 3)
    stage = SimpleNamespace(name="round_1", net=net, sha256=weights_sha256(net), val=val)
    problem = SimpleNamespace(labelled=SimpleNamespace(skeleton=DOTS))
    api._keep_best(SimpleNamespace(path=folder), stage, config, problem)
    return folder


def dot_picture(places: np.ndarray) -> np.ndarray:
    """(HEIGHT, WIDTH, 3) uint8 RGB with a dot at each of (N, 3, 2) places."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for instance in places:
        for colour, (x, y) in enumerate(instance.astype(int)):
            image[y - 2 : y + 3, x - 2 : x + 3, colour] = 255
    return image


def write_dots(folder: Path, images: int = 3, seed: int = 0) -> Path:
    """Pictures of two instances side by side; returns the annotation file. Image ids start at 11."""
    random = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    records, annotations = [], []
    for i in range(images):
        corners = np.array([[8, 8], [8 + APART, 8]])
        places = corners[:, None] + random.integers(4, BOX - 4, (2, 3, 2))  # (2, 3, 2)
        cv2.imwrite(str(folder / f"images/{i}.png"), dot_picture(places)[:, :, ::-1])
        records.append({"id": 11 + i, "file_name": f"images/{i}.png", "width": WIDTH, "height": HEIGHT})
        annotations += [
            {
                "id": 2 * i + n + 1,
                "image_id": 11 + i,
                "category_id": 7,
                "bbox": [*corners[n].tolist(), BOX, BOX],
                "area": BOX * BOX,
                "iscrowd": 0,
                "num_keypoints": 3,
                "keypoints": np.column_stack([places[n], np.full(3, 2)]).ravel().tolist(),
            }
            for n in range(2)
        ]
    category = {"id": 7, "name": "dots", "keypoints": list(DOTS.keypoints), "skeleton": [[1, 2], [2, 3]]}
    path = folder / "annotations.json"
    path.write_text(json.dumps({"images": records, "annotations": annotations, "categories": [category]}))
    return path


def true_places(path: Path) -> np.ndarray:
    """(N, 3, 2) of an annotation file."""
    content = json.loads(path.read_text())
    return np.array([a["keypoints"] for a in content["annotations"]], float).reshape(-1, 3, 3)[:, :, :2]
