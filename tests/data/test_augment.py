"""Random views: pixels and keypoints move together, left and right change places, draws depend on the seed alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from placl.config import Augment
from placl.data.augment import (
    DEVIATION,
    MEAN,
    _covered,
    augmented,
    change_colour,
    cut_out,
    draw,
    draw_views,
    mirror_pairs,
    move_keypoints,
    normalise,
    plain_view,
    sample,
    warp,
)

CROP, VIEW = 80, 64.0
NOTHING = Augment(flip=0, rotate=0, scale=0, shift=0, colour=0, cutout=0)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dot(x: float, y: float, width: float = 2.0, side: int = CROP) -> Tensor:
    """(1, 1, side, side) a Gaussian at (x, y), pixel centres at integers."""
    pixels = torch.arange(side, dtype=torch.float32)
    along_x, along_y = (torch.exp(-((pixels - centre) ** 2) / (2 * width**2)) for centre in (x, y))
    return (along_y[:, None] * along_x[None, :])[None, None]


def centroid(image: Tensor) -> tuple[float, float]:
    """x and y of the centre of mass of an (H, W) image."""
    rows, columns = torch.arange(image.shape[0]), torch.arange(image.shape[1])
    total = image.sum()
    return float((image.sum(0) * columns).sum() / total), float((image.sum(1) * rows).sum() / total)


def view_matrix(angle: float, zoom: float, shift: tuple[float, float], flip: bool, size: int) -> Tensor:
    """(1, 2, 3) from pixels of the view to crop pixels, both from their centres, written out by hand."""
    step = VIEW / size / zoom
    cos, sin, sign = math.cos(angle) * step, math.sin(angle) * step, -1.0 if flip else 1.0
    return torch.tensor([[[cos * sign, -sin, shift[0]], [sin * sign, cos, shift[1]]]])


# --- geometry


@settings(max_examples=60, deadline=None)
@given(angle=st.floats(-math.pi, math.pi), zoom=st.floats(0.7, 1.4), dx=st.floats(-6, 6), dy=st.floats(-6, 6),
       flip=st.booleans(), size=st.sampled_from([48, 64, 96]), x=st.floats(30, 50), y=st.floats(30, 50))  # fmt: skip
def test_a_dot_lands_where_its_keypoint_does(
    angle: float, zoom: float, dx: float, dy: float, flip: bool, size: int, x: float, y: float
) -> None:
    matrix = view_matrix(angle, zoom, (dx, dy), flip, size)
    seen = warp(dot(x, y), matrix, size)[0, 0]
    moved = move_keypoints(torch.tensor([[[x, y]]]), matrix, CROP, size)[0, 0]
    assert seen.shape == (size, size)
    reach = 3.5 * 2.0 * zoom * size / VIEW  # a dot that the border cuts has its centre of mass elsewhere
    assume(reach < moved.min() and moved.max() < size - 1 - reach)
    assert centroid(seen) == pytest.approx(moved.tolist(), abs=0.05)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_drawn_views_move_pixels_and_keypoints_together(seed: int) -> None:
    drawn = Augment(flip=0.5, rotate=180, rotate_share=0.8, scale=0.3, shift=0.05)
    views = draw_views(4, drawn, VIEW, 64, seeded(seed))
    seen = warp(dot(44, 33).expand(4, 1, CROP, CROP), views.matrix, 64)
    moved = move_keypoints(torch.tensor([[[44.0, 33.0]]]).expand(4, 1, 2), views.matrix, CROP, 64)
    for i in range(4):
        assert centroid(seen[i, 0]) == pytest.approx(moved[i, 0].tolist(), abs=0.05)
        handed = torch.linalg.det(views.matrix[i, :, :2]) > 0
        assert bool(views.mirrored[i]) is not bool(handed)


def test_a_quarter_turn_and_a_mirror_by_hand() -> None:
    keypoint = torch.tensor([[[49.5, 39.5]]])  # ten pixels right of the crop's centre at 39.5
    turned = move_keypoints(keypoint, view_matrix(math.pi / 2, 1, (0, 0), False, 64), CROP, 64)
    assert turned[0, 0].tolist() == pytest.approx([31.5, 21.5], abs=1e-4)  # the view is turned, so the image turns back
    mirrored = move_keypoints(keypoint, view_matrix(0, 1, (0, 0), True, 64), CROP, 64)
    assert mirrored[0, 0].tolist() == pytest.approx([21.5, 31.5], abs=1e-4)
    nearer = move_keypoints(keypoint, view_matrix(0, 2, (0, 0), False, 64), CROP, 64)
    assert nearer[0, 0].tolist() == pytest.approx([51.5, 31.5], abs=1e-4)


def test_resizing_maps_pixels_by_their_edges() -> None:
    # x' = (x + 0.5) * s - 0.5, here from the view's corner at 8 of 80 and with s = 1/2.
    matrix = view_matrix(0, 1, (0, 0), False, 32)
    moved = move_keypoints(torch.tensor([[[20.0, 30.0]]]), matrix, CROP, 32)
    assert moved[0, 0].tolist() == pytest.approx([(20 - 8 + 0.5) / 2 - 0.5, (30 - 8 + 0.5) / 2 - 0.5], abs=1e-5)


def photograph(image: Tensor) -> Tensor:
    """(1, 1, H, W) in [0, 1] -> (1, H, W, 3) uint8 grey."""
    return (255 * image).round().to(torch.uint8).permute(0, 2, 3, 1).expand(-1, -1, -1, 3)


@pytest.mark.parametrize("size", [32, 64, 96])
def test_the_plain_view_is_the_centre_of_the_crop(size: int) -> None:
    seen = plain_view(photograph(dot(41.3, 36.7)), VIEW, size)
    assert seen.shape == (1, 3, size, size)
    assert seen.is_contiguous(memory_format=torch.channels_last)
    scale = size / VIEW
    assert centroid(seen[0, 0] - seen.min()) == pytest.approx(
        ((41.3 - 8 + 0.5) * scale - 0.5, (36.7 - 8 + 0.5) * scale - 0.5), abs=0.05
    )


def test_nothing_to_resize_is_a_slice() -> None:
    images = torch.randint(0, 256, (2, CROP, CROP, 3), dtype=torch.uint8, generator=seeded())
    assert torch.equal(plain_view(images, VIEW, 64), normalise(images)[:, :, 8:72, 8:72])


def test_what_lies_outside_the_crop_is_the_mean_colour() -> None:
    matrix = torch.tensor([[[1.0, 0, 8.0], [0, 1.0, 0]]])
    assert warp(torch.ones(1, 1, 8, 8), matrix, 8).abs().max() == 0.0
    half_a_grey_level = 0.5 / 255 / min(DEVIATION)
    assert sample(torch.full((1, 8, 8, 3), 255, dtype=torch.uint8), matrix, 8).abs().max() <= half_a_grey_level


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), size=st.sampled_from([32, 64, 96]))
def test_what_a_cpu_samples_is_what_a_gpu_would(seed: int, size: int) -> None:
    """OpenCV image by image against torch's grid for the batch, which any device has."""
    noise = torch.rand(6, 3, 20, 20, generator=seeded(seed))
    smooth = torch.nn.functional.interpolate(noise, size=(CROP, CROP), mode="bicubic").clamp(0, 1)
    images = (255 * smooth).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    views = draw_views(6, Augment(rotate=40, rotate_share=1, scale=0.3, shift=0.1), VIEW, size, seeded(seed))
    found, expected = sample(images, views.matrix, size), warp(normalise(images), views.matrix, size)
    assert found.shape == expected.shape
    # A grey level of rounding, and some more where versions of OpenCV place pixels on a grid of 1/32.
    assert (found - expected).abs().max() <= 0.12
    assert (found - expected).abs().mean() <= 0.006


# --- drawing


def test_views_stay_within_their_settings() -> None:
    drawn = Augment(flip=0.3, rotate=30, rotate_share=0.6, scale=0.25, shift=0.1)
    views = draw_views(4000, drawn, VIEW, 32, seeded())
    linear = views.matrix[:, :, :2]
    zoom = torch.linalg.det(linear).abs().sqrt() / (VIEW / 32)  # of the view: more than 1 shows more
    angle = torch.rad2deg(torch.atan2(-linear[:, 0, 1], linear[:, 1, 1]))
    shift = views.matrix[:, :, 2]
    assert views.mirrored.float().mean() == pytest.approx(0.3, abs=0.03)
    assert 0.75 <= zoom.min() <= 0.76
    assert 1.24 <= zoom.max() <= 1.25
    assert angle.abs().max() == pytest.approx(30, abs=0.2)
    assert (angle.abs() > 1e-3).float().mean() == pytest.approx(0.6, abs=0.03)
    assert shift.abs().max() == pytest.approx(6.4, abs=0.05)
    assert shift.mean(0).abs().max() < 0.2


def test_the_same_seed_draws_the_same_views_whatever_their_range() -> None:
    narrow, wide = (
        draw_views(5, Augment(rotate=angle, rotate_share=1, flip=0), VIEW, 64, seeded()) for angle in (10, 20)
    )
    angle = [torch.atan2(-v.matrix[:, 0, 1], v.matrix[:, 1, 1]) for v in (narrow, wide)]
    torch.testing.assert_close(2 * angle[0], angle[1])


# --- colour and cut-out


def test_colour_is_what_is_drawn() -> None:
    images = torch.randn(3, 3, 8, 8, generator=seeded(1))
    one, other = (change_colour(images, torch.rand(3, 5, generator=seeded(seed)), 0.5) for seed in (2, 3))
    assert not torch.equal(one, other)
    torch.testing.assert_close(change_colour(images, torch.full((3, 5), 0.5), 0.5), images)


def test_colour_changes_each_channel_by_one_affine_map() -> None:
    images = torch.randn(4, 3, 8, 8, generator=seeded(1))
    changed = change_colour(images, torch.rand(4, 5, generator=seeded(2)), 0.4)
    for image, new in zip(images.flatten(0, 1).flatten(1), changed.flatten(0, 1).flatten(1), strict=True):
        slope, offset = torch.linalg.lstsq(torch.stack([image, torch.ones(64)], 1), new[:, None]).solution[:, 0]
        torch.testing.assert_close(new, slope * image + offset, atol=1e-4, rtol=0)
        assert 0.6 * 0.8 <= slope <= 1.4 * 1.2  # contrast within 1 +- 0.4, gain within 1 +- 0.2


def test_cut_out_pastes_grey_squares_of_bounded_size() -> None:
    images = torch.ones(200, 3, 40, 40)
    one, four = (torch.rand(200, count, 3, generator=seeded()) for count in (1, 4))
    holes = cut_out(images, one, 0.25) == 0
    assert torch.equal(holes[:, 0], holes[:, 1])
    height, width = holes[:, 0].any(2).sum(1), holes[:, 0].any(1).sum(1)
    assert torch.equal(holes[:, 0].sum((1, 2)), height * width)  # full rectangles
    assert 9 <= height.max() <= 10
    assert holes.float().mean() > 0.01
    assert images.all()
    assert (cut_out(images, four, 0.25) == 0).sum() > holes.sum()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(1, 4), largest=st.floats(0.05, 1.0))
def test_a_gpu_cuts_out_what_a_cpu_does(seed: int, count: int, largest: float) -> None:
    u = torch.rand(5, count, 3, generator=seeded(seed))
    holes = cut_out(torch.ones(5, 3, 24, 32), u, largest)[:, :1] == 0
    rows, columns = torch.arange(24) / 24, torch.arange(32) / 32
    half = u[:, :, :1] * largest / 2
    inside = [(axis - u[:, :, i : i + 1]).abs() < half for i, axis in ((1, rows), (2, columns))]
    assert torch.equal(holes, (inside[0][..., None] & inside[1][:, :, None]).any(1, keepdim=True))
    sides = torch.tensor([24, 32])
    first = ((u[:, :, 1:] - half) * sides).floor().long().add(1).clamp(min=0)
    end = ((u[:, :, 1:] + half) * sides).ceil().long().clamp(min=0)
    assert torch.equal(holes, _covered(first, end, torch.Size([24, 32])))


# --- the whole


def batch(seed: int = 0, count: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    generator = seeded(seed)
    images = torch.randint(0, 256, (count, CROP, CROP, 3), dtype=torch.uint8, generator=generator)
    return images, 16 + 48 * torch.rand(count, 4, 2, generator=generator), torch.rand(count, 4, generator=generator)


def views_of(
    images: Tensor, keypoints: Tensor, weights: Tensor, settings: Augment, seed: int = 0, size: int = 64
) -> tuple[Tensor, Tensor, Tensor]:
    drawn = draw(len(images), settings, VIEW, size, seeded(seed))
    order = torch.tensor([0, 2, 1, 3])
    return augmented(images, keypoints, weights, drawn, settings=settings, size=size, flip_order=order)


def test_normalise_by_hand() -> None:
    pixel = normalise(torch.tensor([[[[255, 0, 51]]]], dtype=torch.uint8))
    expected = [(v - m) / d for v, m, d in zip((1.0, 0.0, 0.2), MEAN, DEVIATION, strict=True)]
    assert pixel.shape == (1, 3, 1, 1)
    assert pixel.flatten().tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("size", [32, 64])
def test_without_augmentation_it_is_the_plain_view(size: int) -> None:
    images, keypoints, weights = batch()
    seen, moved, weight = views_of(images, keypoints, weights, NOTHING, size=size)
    torch.testing.assert_close(seen, plain_view(images, VIEW, size), atol=1e-3, rtol=0)
    torch.testing.assert_close(moved, (keypoints - 8 + 0.5) * (size / VIEW) - 0.5, atol=1e-4, rtol=0)
    assert torch.equal(weight, weights)


def test_a_mirror_swaps_pairs_of_keypoints_and_of_weights() -> None:
    images, keypoints, weights = batch()
    _, plain, _ = views_of(images, keypoints, weights, NOTHING)
    seen, moved, weight = views_of(images, keypoints, weights, NOTHING.model_copy(update={"flip": 1.0}))
    order = [0, 2, 1, 3]
    expected = plain[:, order].clone()
    expected[..., 0] = 63 - expected[..., 0]
    torch.testing.assert_close(moved, expected, atol=1e-4, rtol=0)
    assert torch.equal(weight, weights[:, order])
    torch.testing.assert_close(seen, plain_view(images, VIEW, 64).flip(3), atol=1e-3, rtol=0)


def test_only_mirrored_images_are_swapped() -> None:
    values = torch.arange(8.0).view(2, 4)
    swapped = mirror_pairs(values, torch.tensor([False, True]), torch.tensor([0, 2, 1, 3]))
    assert swapped.tolist() == [[0, 1, 2, 3], [4, 6, 5, 7]]


def test_draws_do_not_depend_on_what_is_in_the_images() -> None:
    busy = Augment(flip=0.5, rotate=40, scale=0.3, shift=0.1, colour=0.4, cutout=2)
    images, keypoints, weights = batch()
    _, moved, weight = views_of(images, keypoints, weights, busy)
    _, again, same = views_of(torch.zeros_like(images), keypoints, weights, busy)
    assert torch.equal(moved, again)
    assert torch.equal(weight, same)


def test_processes_that_share_a_batch_see_their_rows_of_it() -> None:
    images, keypoints, weights = batch(count=5)
    settings = Augment(rotate=40, scale=0.2, shift=0.1, colour=0.3, cutout=2)
    whole = views_of(images, keypoints, weights, settings)
    drawn = draw(5, settings, VIEW, 64, seeded())
    order = torch.tensor([0, 2, 1, 3])
    for rank in range(2):
        rows = slice(rank, None, 2)
        seen, moved, weight = augmented(
            images[rows], keypoints, weights, drawn, settings=settings, size=64, flip_order=order, rows=rows
        )
        assert torch.equal(seen, whole[0][rows])
        assert torch.equal(moved, whole[1])
        assert torch.equal(weight, whole[2])
