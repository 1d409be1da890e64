"""Heatmaps and points carried from one view of an image to another."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from placl.config import Augment
from placl.data.augment import draw_views, move_keypoints
from placl.methods.views import View, between, carry, carry_pairs, carry_points, visible
from placl.models.codec import HeatmapCodec

SIZE, STRIDE, CROP = 64, 4, 96
CODEC = HeatmapCodec(SIZE, STRIDE, sigma=1.0)
PAIR = torch.tensor([1, 0, 2])  # left, right and one that is neither
seeds = st.integers(0, 2**31)


def views(seed: int, count: int = 3, number: int = 2, **changes: float) -> list[View]:
    """Random views of the same crops."""
    generator = torch.Generator().manual_seed(seed)
    kind = Augment(**{"rotate": 60.0, "rotate_share": 1.0, "scale": 0.25, "shift": 0.1, **changes})
    drawn = [draw_views(count, kind, SIZE, SIZE, generator) for _ in range(number)]
    return [View(torch.zeros(count, 3, SIZE, SIZE), one.matrix, one.mirrored) for one in drawn]


def shown_by(view: View, points: Tensor) -> Tensor:
    """Points of the crops as the augmentation places them in a view."""
    moved = move_keypoints(points, view.matrix, CROP, SIZE)
    return torch.where(view.mirrored[:, None, None], moved[:, PAIR], moved)


def middle_points(seed: int, count: int = 3) -> Tensor:
    """(B, 3, 2) crop pixels that hardly any view leaves out."""
    generator = torch.Generator().manual_seed(seed)
    return (CROP - 1) / 2 + 24 * (torch.rand(count, 3, 2, generator=generator) - 0.5)


@given(seed=seeds)
@settings(deadline=None)
def test_points_are_carried_to_where_the_other_view_shows_them(seed: int) -> None:
    source, target = views(seed)
    points = middle_points(seed)
    carried = carry_points(shown_by(source, points), source, target, PAIR)
    torch.testing.assert_close(carried, shown_by(target, points), atol=1e-3, rtol=0)


@given(seed=seeds)
@settings(deadline=None)
def test_there_and_back_is_the_identity(seed: int) -> None:
    source, target = views(seed)
    points = SIZE * torch.rand(3, 3, 2, generator=torch.Generator().manual_seed(seed))
    there = carry_points(points, source, target, PAIR)
    torch.testing.assert_close(carry_points(there, target, source, PAIR), points, atol=2e-3, rtol=0)
    through = between(source, target)[:, :, :2] @ between(target, source)[:, :, :2]
    torch.testing.assert_close(through, torch.eye(2).expand(3, 2, 2), atol=1e-5, rtol=0)


@given(seed=seeds)
@settings(deadline=None)
def test_a_carried_gaussian_is_the_gaussian_of_the_carried_point(seed: int) -> None:
    source, target = views(seed, scale=0.0)  # in a closer view it would be wider
    inside = shown_by(source, middle_points(seed))
    there = carry_points(inside, source, target, PAIR)
    before, _ = CODEC.encode(inside, torch.ones(3, 3))
    expected, _ = CODEC.encode(there, torch.ones(3, 3))
    carried = carry(before, source, target, PAIR)
    known = visible(source, target, SIZE // STRIDE)
    assert float(((carried - expected).abs() * known).max()) < 0.03
    # Linear interpolation would have taken a sixth off some of the peaks.
    clear = (inside > 12).all(2) & (inside < SIZE - 12).all(2) & (there > 8).all(2) & (there < SIZE - 8).all(2)
    lost = (expected - carried).flatten(2).amax(2)
    swapped = (source.mirrored != target.mirrored)[:, None]
    clear = torch.where(swapped, clear[:, PAIR], clear) & clear
    assert float((lost * clear).max()) < 0.03


@given(seed=seeds)
@settings(deadline=None)
def test_heatmaps_come_back_as_they_were(seed: int) -> None:
    source, target = views(seed, scale=0.0)
    heatmaps, _ = CODEC.encode(shown_by(source, middle_points(seed)), torch.ones(3, 3))
    back = carry(carry(heatmaps, source, target, PAIR), target, source, PAIR)
    known = visible(target, source, SIZE // STRIDE)
    assert float(((back - heatmaps).abs() * known).max()) < 0.06


def test_opencv_carries_them_to_the_same_place() -> None:
    source, target = views(7, count=1, scale=0.2)
    heatmaps = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    # From heatmap pixels of the target to those of the source, through the pixels of the views.
    to_pixels = np.array([[STRIDE, 0, 1.5], [0, STRIDE, 1.5], [0, 0, 1]])
    centre = np.array([[1, 0, -31.5], [0, 1, -31.5], [0, 0, 1]])
    maps = [np.vstack([one.matrix[0].double().numpy(), [0, 0, 1]]) @ centre @ to_pixels for one in (source, target)]
    place = np.linalg.inv(maps[0]) @ maps[1]
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    expected = np.stack([cv2.warpAffine(one, place[:2], (16, 16), flags=flags) for one in heatmaps[0].numpy()])
    if bool(source.mirrored[0] != target.mirrored[0]):
        expected = expected[[1, 0, 2]]
    carried = carry(heatmaps, source, target, PAIR)[0].numpy()
    inside = visible(source, target, 16)[0, 0].numpy()
    inside = cv2.erode(inside, np.ones((5, 5), np.uint8), borderValue=0) > 0  # where no zeros from outside take part
    assert inside.sum() > 30
    # OpenCV reads its cubic from a table of 32 steps a pixel.
    assert np.abs(carried - expected)[:, inside].max() < 0.08


@pytest.mark.parametrize("both", [False, True])
def test_left_becomes_right_where_one_view_is_mirrored(both: bool) -> None:
    plain, mirror = torch.eye(2, 3)[None], torch.tensor([[[-1.0, 0, 0], [0, 1, 0]]])
    source = View(torch.zeros(1, 3, SIZE, SIZE), mirror if both else plain, torch.tensor([both]))
    target = View(torch.zeros(1, 3, SIZE, SIZE), mirror, torch.tensor([True]))
    points = torch.tensor([[[10.0, 20.0], [30.0, 40.0], [5.0, 6.0]]])
    expected = points if both else torch.tensor([[[33.0, 40.0], [53.0, 20.0], [58.0, 6.0]]])
    torch.testing.assert_close(carry_points(points, source, target, PAIR), expected)
    values = carry_pairs(torch.tensor([[1.0, 2.0, 3.0]]), source, target, PAIR)
    assert values.tolist() == [[1.0, 2.0, 3.0] if both else [2.0, 1.0, 3.0]]
    heatmaps = torch.rand(1, 3, 16, 16)
    expected = heatmaps if both else heatmaps[:, PAIR].flip(3)
    torch.testing.assert_close(carry(heatmaps, source, target, PAIR), expected, atol=1e-5, rtol=0)


def test_visible_is_what_the_source_shows() -> None:
    still = View(torch.zeros(1, 3, SIZE, SIZE), torch.eye(2, 3)[None], torch.tensor([False]))
    right = View(still.images, torch.tensor([[[1.0, 0, 10], [0, 1, 0]]]), still.mirrored)  # 2.5 heatmap pixels
    assert visible(still, still, 16).eq(1).all()
    shown = visible(still, right, 16)
    assert shown.shape == (1, 1, 16, 16)
    assert shown[0, 0, 5].tolist() == [1.0] * 13 + [0.0] * 3
    assert carry(torch.ones(1, 3, 16, 16), still, right, PAIR)[0, 0, 5, 15] == 0


@given(seed=seeds)
@settings(deadline=None)
def test_visible_agrees_with_the_pixels_own_places(seed: int) -> None:
    source, target = views(seed)
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    pixels = CODEC.to_input(torch.stack([x, y], -1)).reshape(1, -1, 2).expand(3, -1, 2)
    places = (pixels - 31.5) @ between(source, target)[:, :, :2].mT + between(source, target)[:, None, :, 2] + 31.5
    within = ((places > 1.5 - 1e-2) & (places < 61.5 + 1e-2)).all(2).view(3, 1, 16, 16)
    surely = ((places > 1.5 + 1e-2) & (places < 61.5 - 1e-2)).all(2).view(3, 1, 16, 16)
    shown = visible(source, target, 16) > 0
    assert not (shown & ~within).any()
    assert not (surely & ~shown).any()
