"""The heatmap codec: geometry, Gaussians by hand, and what the round trip loses under each decoding."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from placl.models.codec import Decoding, HeatmapCodec

SIZE, STRIDE = 128, 4  # a 32 x 32 heatmap
DECODINGS: list[Decoding] = ["argmax", "quarter", "dark"]


def point(x: float, y: float) -> Tensor:
    return torch.tensor([[[x, y]]])  # (1, 1, 2)


def round_trip(codec: HeatmapCodec, x: float, y: float) -> tuple[float, float]:
    targets, _ = codec.encode(point(x, y), torch.ones(1, 1))
    found = codec.decode(targets)[0][0, 0]
    return found[0].item(), found[1].item()


# --- geometry ---


def test_heatmap_pixel_zero_covers_the_first_stride_pixels() -> None:
    codec = HeatmapCodec(SIZE, STRIDE, 2.0)
    assert codec.heatmap_size == 32
    assert codec.to_input(torch.tensor([0.0, 31.0])).tolist() == [1.5, 125.5]
    assert codec.to_heatmap(torch.tensor([-0.5, 1.5, 127.5])).tolist() == [-0.5, 0.0, 31.5]


@given(x=st.floats(-50, 200), stride=st.sampled_from([1, 2, 4, 8]))
def test_geometry_round_trip(x: float, stride: int) -> None:
    codec = HeatmapCodec(SIZE, stride, 2.0)
    assert codec.to_input(codec.to_heatmap(torch.tensor(x))).item() == pytest.approx(x, abs=1e-4)


# --- encode ---


def test_gaussian_by_hand() -> None:
    codec = HeatmapCodec(16, 2, 1.5)
    # Input (7.0, 4.5) is heatmap (3.25, 2.0); pixel (5, 3) lies 1.75 right and 1 down of it.
    targets, weights = codec.encode(point(7.0, 4.5), torch.ones(1, 1))
    assert targets.shape == (1, 1, 8, 8)
    assert targets.dtype == torch.float32
    assert targets[0, 0, 3, 5].item() == pytest.approx(math.exp(-(1.75**2 + 1**2) / (2 * 1.5**2)), rel=1e-6)
    assert targets[0, 0, 2, 3].item() == pytest.approx(math.exp(-(0.25**2) / 4.5), rel=1e-6) == targets.max().item()
    assert weights.tolist() == [[1.0]]


def test_the_peak_is_one_only_on_a_pixel() -> None:
    codec = HeatmapCodec(16, 2, 1.0)
    assert codec.encode(point(4.5, 8.5), torch.ones(1, 1))[0].max().item() == 1.0
    assert codec.encode(point(5.0, 8.5), torch.ones(1, 1))[0].max().item() < 1.0


@pytest.mark.parametrize(
    ("x", "y", "weight"),
    [(-0.5, -0.5, 1), (15.5, 15.5, 1), (-0.6, 8, 0), (8, 15.6, 0), (math.nan, 8, 0), (8, -math.inf, 0)],
)
def test_what_lies_outside_the_input_gets_no_weight(x: float, y: float, weight: int) -> None:
    targets, weights = HeatmapCodec(16, 2, 2.0).encode(point(x, y), torch.ones(1, 1))
    assert weights.item() == weight
    assert torch.isfinite(targets).all()
    assert (targets.max().item() > 0) == bool(weight)


def test_weights_pass_through_and_leave_the_gaussian_alone() -> None:
    keypoints = torch.full((1, 3, 2), 6.5)
    targets, weights = HeatmapCodec(16, 2, 2.0).encode(keypoints, torch.tensor([[1.0, 0.3, 0.0]]))
    assert weights[0].tolist() == pytest.approx([1.0, 0.3, 0.0])
    assert torch.equal(targets[0, 0], targets[0, 1])
    assert targets[0, 2].max().item() == 0.0


@settings(max_examples=30, deadline=None)
@given(x=st.floats(0, 127), y=st.floats(0, 127), sigma=st.floats(0.5, 4))
def test_heatmaps_fall_with_the_distance_from_the_centre(x: float, y: float, sigma: float) -> None:
    codec = HeatmapCodec(SIZE, STRIDE, sigma)
    heatmap = codec.encode(point(x, y), torch.ones(1, 1))[0][0, 0]
    centre = codec.to_heatmap(torch.tensor([x, y], dtype=torch.float32))
    pixels = torch.arange(32.0)
    squared = (pixels[None, :] - centre[0]) ** 2 + (pixels[:, None] - centre[1]) ** 2  # (H, W)
    ordered = heatmap.flatten()[squared.flatten().argsort()]
    assert (ordered.diff() <= 1e-6).all()
    assert heatmap.max() <= 1
    assert ordered[0] >= math.exp(-0.25 / sigma**2) - 1e-4  # half a pixel away in x and in y at most


def test_keypoints_of_a_batch_do_not_mix() -> None:
    generator = torch.Generator().manual_seed(0)
    codec = HeatmapCodec(SIZE, STRIDE, 2.0)
    keypoints = torch.rand(3, 5, 2, generator=generator) * 127
    targets, _ = codec.encode(keypoints, torch.ones(3, 5))
    decoded, _ = codec.decode(targets)
    alone, _ = codec.encode(keypoints[2:, 4:], torch.ones(1, 1))
    assert torch.equal(targets[2, 4], alone[0, 0])
    assert torch.allclose(decoded[2, 4], codec.decode(alone)[0][0, 0], atol=1e-4)


# --- decode ---

ANYWHERE = st.floats(0, SIZE - 1)
INTERIOR = st.floats(36, SIZE - 37)  # the blur of sigma 2 sees no border
NOT_AT_BORDER = st.floats(4, SIZE - 5)


@settings(max_examples=100, deadline=None)
@given(x=ANYWHERE, y=ANYWHERE)
def test_argmax_is_within_half_a_heatmap_pixel(x: float, y: float) -> None:
    found = round_trip(HeatmapCodec(SIZE, STRIDE, 2.0, "argmax"), x, y)
    assert max(abs(found[0] - x), abs(found[1] - y)) <= 0.5 * STRIDE + 1e-3


@settings(max_examples=100, deadline=None)
@given(x=NOT_AT_BORDER, y=NOT_AT_BORDER)
def test_quarter_is_within_a_quarter_of_a_heatmap_pixel(x: float, y: float) -> None:
    found = round_trip(HeatmapCodec(SIZE, STRIDE, 2.0, "quarter"), x, y)
    assert max(abs(found[0] - x), abs(found[1] - y)) <= 0.25 * STRIDE + 1e-2


@settings(max_examples=100, deadline=None)
@given(x=INTERIOR, y=INTERIOR, sigma=st.sampled_from([0.8, 1.0, 1.5, 2.0]))
def test_dark_is_within_a_twentieth_of_a_heatmap_pixel(x: float, y: float, sigma: float) -> None:
    found = round_trip(HeatmapCodec(SIZE, STRIDE, sigma, "dark"), x, y)
    assert max(abs(found[0] - x), abs(found[1] - y)) <= 0.05 * STRIDE


@settings(max_examples=50, deadline=None)
@given(x=INTERIOR, y=INTERIOR)
def test_dark_recovers_the_centre_of_an_exact_gaussian(x: float, y: float) -> None:
    found = round_trip(HeatmapCodec(SIZE, STRIDE, 2.0, "dark"), x, y)
    assert found == pytest.approx((x, y), abs=1e-3 * STRIDE)


def test_dark_recovers_an_oblique_gaussian() -> None:
    pixels = torch.arange(32.0)
    dx, dy = pixels[None, :] - 15.3, pixels[:, None] - 16.4
    heatmap = torch.exp(-0.5 * (dx**2 / 6 + dy**2 / 4 + dx * dy / 5))
    found = HeatmapCodec(32, 1, 2.0, "dark").decode(heatmap[None, None])[0]
    assert found[0, 0].tolist() == pytest.approx([15.3, 16.4], abs=0.01)


def test_quarter_by_hand() -> None:
    heatmap = torch.zeros(1, 1, 8, 8)
    heatmap[0, 0, 3, 5] = 0.9
    heatmap[0, 0, 3, 4] = 0.2  # left of the peak is larger than right; above equals below
    keypoints, peak = HeatmapCodec(16, 2, 2.0, "quarter").decode(heatmap)
    assert keypoints.tolist() == [[[(4.75 + 0.5) * 2 - 0.5, 6.5]]]
    assert peak.item() == pytest.approx(0.9)


@pytest.mark.parametrize("decoding", ["quarter", "dark"])
def test_no_offset_at_the_border(decoding: Decoding) -> None:
    heatmap = torch.zeros(1, 1, 8, 8)
    heatmap[0, 0, 0, 0], heatmap[0, 0, 0, 1], heatmap[0, 0, 1, 0] = 1.0, 0.9, 0.8
    assert HeatmapCodec(8, 1, 1.0, decoding).decode(heatmap)[0].tolist() == [[[0.0, 0.0]]]


@pytest.mark.parametrize("decoding", DECODINGS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_offset_is_bounded_on_noise_and_the_peak_is_the_largest_pixel(decoding: Decoding, seed: int) -> None:
    heatmaps = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
    keypoints, peak = HeatmapCodec(16, 1, 1.0, decoding).decode(heatmaps)
    assert torch.equal(peak, heatmaps.amax(dim=(-2, -1)))
    plain, _ = HeatmapCodec(16, 1, 1.0, "argmax").decode(heatmaps)
    limit = {"argmax": 0.0, "quarter": 0.25, "dark": 1.0}[decoding]
    assert (keypoints - plain).abs().max().item() <= limit + 1e-6


@pytest.mark.parametrize("decoding", DECODINGS)
@pytest.mark.parametrize("value", [0.0, -1.0, 1.0, 1e-30, math.nan])
def test_a_flat_or_broken_heatmap_gives_finite_keypoints(decoding: Decoding, value: float) -> None:
    keypoints, _ = HeatmapCodec(32, 2, 2.0, decoding).decode(torch.full((1, 2, 16, 16), value))
    assert torch.isfinite(keypoints).all()


def test_half_precision_heatmaps_decode_as_float32() -> None:
    codec = HeatmapCodec(SIZE, STRIDE, 2.0)
    targets, _ = codec.encode(point(60.0, 71.0), torch.ones(1, 1))
    keypoints, peak = codec.decode(targets.half())
    assert keypoints.dtype == peak.dtype == torch.float32
    assert keypoints[0, 0].tolist() == pytest.approx([60.0, 71.0], abs=0.05)


@pytest.mark.parametrize(("size", "stride", "sigma"), [(30, 4, 2.0), (32, 0, 2.0), (32, 4, 0.0), (32, 4, math.nan)])
def test_impossible_codecs_are_refused(size: int, stride: int, sigma: float) -> None:
    with pytest.raises(ValueError, match=r"does not divide|must be positive"):
        HeatmapCodec(size, stride, sigma)


def test_unknown_decoding_is_refused() -> None:
    with pytest.raises(ValueError, match="quarter, dark or argmax, got 'soft'"):
        HeatmapCodec(32, 4, 2.0, "soft")  # type: ignore[arg-type]
