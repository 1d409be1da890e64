"""The graph: what it decodes is what placl decodes, in PyTorch and through ONNX."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from placl import config as configuration
from placl.config import Config
from placl.data.synthetic import animals
from placl.exporting.programs import OnnxReader, TorchReader, exported, onnx_bytes, torch_bytes
from placl.exporting.reader import Reader
from placl.learn.label import label, make_codec
from placl.learn.network import fresh_network
from placl.models.codec import Decoding
from placl.models.zoo import KeypointNet

SIZE = 32
DECODINGS: list[Decoding] = ["argmax", "quarter", "dark"]


class Through(KeypointNet):
    """The image is the heatmaps."""

    stride = 1

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images: Tensor) -> Tensor:
        return images


def config_of(**settings: Any) -> Config:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return configuration.load(None, {"model.input_size": SIZE, "train.precision": "float32", **given})


@cache
def decoders(decoding: Decoding) -> tuple[Config, OnnxReader, TorchReader]:
    config = config_of(label__decode=decoding, train__loss="mse")
    reader = Reader(Through(), config)
    reader.gain.fill_(1.0)
    reader.bias.zero_()
    program = exported(reader, SIZE)
    return config, OnnxReader(onnx_bytes(program, "")), TorchReader(torch_bytes(program))


def peaks(random: np.random.Generator, count: int) -> np.ndarray:
    """(B, 3, S, S) Gaussians anywhere, also beyond the border, on noise of any height."""
    y, x = np.mgrid[:SIZE, :SIZE]
    centre = random.uniform(-3, SIZE + 3, (count, 3, 2, 1, 1))
    width = random.uniform(0.8, 4, (count, 3, 1, 1))
    maps = np.exp(-((x - centre[:, :, 0]) ** 2 + (y - centre[:, :, 1]) ** 2) / (2 * width**2))
    noise = random.choice([0, 0.01, 0.3], (count, 1, 1, 1)) * random.standard_normal(maps.shape)
    return (random.uniform(0.05, 1.5, (count, 3, 1, 1)) * maps + noise).astype(np.float32)


@pytest.mark.parametrize("decoding", DECODINGS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 9))
def test_heatmaps_are_read_as_placl_reads_them(decoding: Decoding, seed: int, count: int) -> None:
    maps = peaks(np.random.default_rng(seed), count)
    config, by_onnx, by_torch = decoders(decoding)
    places, peak = make_codec(config, 1).decode(torch.from_numpy(maps))
    for read in (by_onnx, by_torch):
        keypoints, confidence = read(maps)
        assert np.abs(keypoints - places.numpy()).max() <= 1e-4
        assert np.array_equal(confidence, peak.clamp(0, 1).numpy())


@pytest.mark.parametrize("decoding", DECODINGS)
def test_of_equal_peaks_the_first_is_taken_everywhere(decoding: Decoding) -> None:
    maps = np.zeros((2, 3, SIZE, SIZE), np.float32)
    maps[0, :, [4, 4, 20], [9, 25, 5]] = 1.0
    config, *readers = decoders(decoding)
    places, _ = make_codec(config, 1).decode(torch.from_numpy(maps))
    assert places[0, 0].tolist() == [9.0, 4.0]
    assert places[1, 0].tolist() == [0.0, 0.0]
    for read in readers:
        assert np.array_equal(read(maps)[0], places.numpy())


@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_a_network_is_read_as_label_reads_it(loss: str) -> None:
    config = config_of(train__loss=loss, label__decode="dark", teacher__input_size=None, label__flip=True)
    pool = animals(20, 5, size=SIZE)
    net = fresh_network(config, len(pool.skeleton), 3, torch.device("cpu"))
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(3)  # heatmaps of a fresh network are flat
    edge = (pool.crop_size - SIZE) // 2
    crops = pool.images(np.arange(20))[:, edge : edge + SIZE, edge : edge + SIZE]
    images = np.ascontiguousarray(crops.transpose(0, 3, 1, 2), dtype=np.float32)
    keypoints, confidence = TorchReader(Reader(net.eval(), config))(images)
    found = label(net, pool, config)
    assert np.median(np.abs(keypoints + edge - found.keypoints)) < 1e-4
    assert np.quantile(np.abs(keypoints + edge - found.keypoints), 0.95) < 1e-3  # the others hang on rounding
    assert np.abs(confidence - found.confidence).max() < 1e-4
    assert found.confidence.std() > 1e-3


def test_the_callers_network_is_left_as_it_is() -> None:
    config = config_of()
    net = fresh_network(config, 3, 0, torch.device("cpu")).train()
    Reader(net, config)
    first = next(net.parameters())
    assert net.training
    assert first.requires_grad
    assert first.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("tiny", {"model.width": 0.5}),
        ("simple_baseline", {"model.backbone": "resnet18"}),
        ("simple_baseline", {"model.backbone": "vit_tiny_patch16_224"}),
    ],
)
def test_networks_of_the_zoo_go_through_one_file_in_any_number(name: str, settings: dict[str, Any]) -> None:
    overrides = {"model.name": name, "model.input_size": 32, "label.decode": "argmax", "train.loss": "mse"}
    config = configuration.load(None, {**overrides, **settings})
    net = fresh_network(config, 4, 0, torch.device("cpu"))
    images = np.random.default_rng(0).uniform(0, 255, (7, 3, 32, 32)).astype(np.float32)
    with torch.no_grad():  # heatmaps of a fresh network are flat
        net.final_layer.weight.mul_(0.2 / net.eval()(torch.from_numpy(images) / 255).std())
    reader = Reader(net, config)
    by_onnx = OnnxReader(onnx_bytes(exported(reader, 32), ""))
    reference = TorchReader(reader)(images)
    assert reference[1].std() > 0.01
    for count in (7, 1):
        keypoints, confidence = by_onnx(images[:count])
        assert keypoints.shape == (count, 4, 2)
        assert np.abs(keypoints - reference[0][:count]).max() < 1e-4
        assert np.abs(confidence - reference[1][:count]).max() < 1e-4
