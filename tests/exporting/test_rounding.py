"""A network that has learned nothing: its heatmaps are flat, and which pixel is the largest hangs on the last digit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from placl.config import Config
from placl.errors import MachineError
from placl.exporting.agreement import compare, drawn
from placl.exporting.programs import Answer, OnnxReader, TorchReader, exported, onnx_bytes
from placl.exporting.reader import Reader
from placl.exporting.rounding import other_peaks
from placl.learn.network import fresh_network


@pytest.fixture(scope="module")
def reader(tiny: Callable[..., Config]) -> Reader:
    config = tiny()
    return Reader(fresh_network(config, 14, 0, torch.device("cpu")), config)


@pytest.fixture(scope="module")
def onnx(reader: Reader) -> OnnxReader:
    return OnnxReader(onnx_bytes(exported(reader, 32), "{}"))


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.ascontiguousarray(drawn(100, 32).transpose(0, 3, 1, 2), dtype=np.float32)


def changed(read: Callable[[np.ndarray], Answer], change: Callable[[np.ndarray], np.ndarray]) -> Any:
    def other(images: np.ndarray) -> Answer:
        keypoints, confidence = read(images)
        return change(keypoints), confidence

    return other


def test_an_untrained_network_is_exported_and_what_hangs_on_rounding_is_counted(
    reader: Reader, onnx: OnnxReader, images: np.ndarray
) -> None:
    plain = TorchReader(reader)
    assert np.abs(plain(images)[0] - onnx(images)[0]).max() > 4  # pixels: else there is nothing to excuse
    found = compare(plain, onnx, images, "drawn", "m", partial(other_peaks, reader))
    assert found.pixels <= 1e-4
    assert 0 < found.undecided < 0.3 * found.keypoints


@pytest.mark.parametrize(
    "change",
    [
        lambda keypoints: keypoints + 0.5,
        lambda keypoints: keypoints + 4,  # a pixel of the heatmap
        lambda keypoints: keypoints[..., ::-1].copy(),
        lambda keypoints: 31 - keypoints,
        lambda keypoints: np.full_like(keypoints, np.nan),
    ],
    ids=["half a pixel", "a heatmap pixel", "x for y", "turned round", "nan"],
)
def test_wrong_places_are_refused_even_on_flat_heatmaps(
    reader: Reader, onnx: OnnxReader, images: np.ndarray, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    with pytest.raises(MachineError, match="does not agree with PyTorch"):
        compare(TorchReader(reader), changed(onnx, change), images, "drawn", "m", partial(other_peaks, reader))


class TwoPeaks(Reader):
    """Two peaks, the second lower by a millionth for every grey level."""

    def __init__(self, like: Reader) -> None:
        torch.nn.Module.__init__(self)
        self.codec = like.codec

    def heatmaps(self, images: torch.Tensor) -> torch.Tensor:
        maps = torch.zeros(len(images), 1, 8, 8)
        maps[:, 0, 2, 3] = 0.5
        maps[:, 0, 5, 4] = 0.5 - images[:, 0, 0, 0] * 1e-6
        return maps


@pytest.mark.parametrize(("grey", "excused"), [(0, True), (0.5, True), (2, False), (100, False)])
def test_the_other_peak_has_to_be_as_high_to_rounding(reader: Reader, grey: float, excused: bool) -> None:
    image = np.full((1, 3, 32, 32), grey, np.float32)
    two = TwoPeaks(reader)
    second = two.codec.refine(two.heatmaps(torch.from_numpy(image)), torch.tensor([[[4, 5]]])).numpy()
    assert other_peaks(two, image, second, 1e-6).tolist() == [[excused]]
    assert other_peaks(two, image, second + 0.01, 1e-6).tolist() == [[False]]
