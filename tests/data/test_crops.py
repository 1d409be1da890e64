"""Crops: where pixels and keypoints land."""

import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pictures import picture, save
from placl.data.crops import _blocks, crop_maps, crop_size, cut, cut_out
from placl.data.images import decode, decode_shrunk
from placl.errors import InputError


@pytest.mark.parametrize(("view", "margin", "size"), [(64, 1.25, 80), (64, 1.0, 64), (64, 1.01, 66), (7, 1.2, 9)])
def test_crop_size_leaves_the_same_margin_on_both_sides(view: int, margin: float, size: int) -> None:
    assert crop_size(view, margin) == size


def test_field_of_view_of_a_ready_made_crop_is_the_whole_crop() -> None:
    # By hand: 128 px onto 64 is x = 2 u + 0.5 in the view's own pixels, and the view begins at pixel 8 of 80.
    scale, tx, ty = crop_maps(np.array([[12.8, 20.0, 102.4, 88.0]]), view=64, context=1.25, size=80)[0]
    assert (scale, tx, ty) == pytest.approx((2.0, 0.5 - 16, 0.5 - 16))


@given(
    st.floats(-500, 500), st.floats(-500, 500), st.floats(1, 2000), st.floats(1, 2000),
    st.integers(8, 300), st.floats(1, 2), st.floats(1, 2),
)  # fmt: skip
def test_view_covers_context_times_the_box(
    x: float, y: float, w: float, h: float, view: int, context: float, margin: float
) -> None:
    size = crop_size(view, margin)
    scale, *shift = crop_maps(np.array([[x, y, w, h]]), view=view, context=context, size=size)[0]
    edge = (size - view) / 2 - 0.5  # left edge of the view's first pixel
    centre = np.array([x + w / 2, y + h / 2])
    half = context * max(w, h) / 2
    np.testing.assert_allclose(scale * edge + np.array(shift) + 0.5, centre - half, atol=1e-6)
    np.testing.assert_allclose(scale * (edge + view) + np.array(shift) + 0.5, centre + half, atol=1e-6)


def centroid(image: np.ndarray) -> np.ndarray:
    weight = image[..., 0].astype(np.float64)
    ys, xs = np.mgrid[: weight.shape[0], : weight.shape[1]]
    return np.array([(weight * xs).sum(), (weight * ys).sum()]) / weight.sum()


@pytest.mark.parametrize("shift", [0.0, 0.37, 7.81])
@pytest.mark.parametrize("scale", [0.3, 0.5, 0.77, 1.0, 1.3, 1.49, 1.51, 2.0, 2.5, 3.3, 6.0, 9.7])
def test_a_blob_lands_where_its_keypoint_does(scale: float, shift: float) -> None:
    sigma = 2.5 * max(1, scale)
    place = np.array([150.3, 118.6])
    ys, xs = np.mgrid[:256, :320]
    blob = 250 * np.exp(-((xs - place[0]) ** 2 + (ys - place[1]) ** 2) / (2 * sigma**2))
    image = np.repeat(blob.round().astype(np.uint8)[..., None], 3, axis=2)
    size = int(220 / scale) if scale < 1 else 80
    to_image = np.array([scale, *(place - scale * (size - 1) / 2 + shift)])
    expected = (place - to_image[1:]) / scale
    np.testing.assert_allclose(centroid(cut(image, to_image, size)), expected, atol=0.05)


def test_same_scale_copies_pixels() -> None:
    image = picture(128, 128)
    crop = cut(image, crop_maps(np.array([[12.8, 12.8, 102.4, 102.4]]), view=128, context=1.25, size=160)[0], 160)
    np.testing.assert_array_equal(crop[16:-16, 16:-16], image)
    assert not crop[:16].any()
    assert not crop[-16:].any()
    assert not crop[:, :16].any()
    assert not crop[:, -16:].any()


@pytest.mark.parametrize("view", [64, 32])
def test_shrinking_by_a_whole_number_is_the_mean_of_pixels(view: int) -> None:
    image = np.random.default_rng(1).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    margin = view // 8
    to_image = crop_maps(np.array([[12.8, 12.8, 102.4, 102.4]]), view=view, context=1.25, size=view + 2 * margin)[0]
    inner = cut(image, to_image, view + 2 * margin)[margin:-margin, margin:-margin]
    step = 128 // view
    mean = image.reshape(view, step, view, step, 3).mean(axis=(1, 3))
    assert np.abs(inner - mean).max() <= 1  # rounded once for each axis


@pytest.mark.parametrize("view", [160, 200])
def test_enlarging_is_bilinear_up_to_the_border(view: int) -> None:
    image = picture(128, 128)
    crop = cut(image, crop_maps(np.array([[12.8, 12.8, 102.4, 102.4]]), view=view, context=1.25, size=view)[0], view)
    expected = cv2.resize(image, (view, view), interpolation=cv2.INTER_LINEAR)
    assert np.abs(crop.astype(int) - expected).max() <= 4  # OpenCV interpolates at 1/32 pixels


def test_shrinking_does_not_alias() -> None:
    stripes = np.zeros((300, 300, 3), np.uint8)
    stripes[:, ::2] = 200
    to_image = crop_maps(np.array([[0.0, 0, 300, 300]]), view=48, context=1.0, size=48)[0]
    # 6.25 pixels become one; interpolated points would be anything from 0 to 200.
    assert np.abs(cut(stripes, to_image, 48).astype(int) - 100).max() <= 18


def test_outside_the_image_is_black() -> None:
    white = np.full((40, 60, 3), 255, np.uint8)
    crop = cut(white, crop_maps(np.array([[0.0, 0, 60, 40]]), view=60, context=1.0, size=80)[0], 80)
    expected = np.zeros((80, 80, 3), np.uint8)
    expected[20:60, 10:70] = 255
    np.testing.assert_array_equal(crop, expected)


def test_box_beside_the_image_is_black() -> None:
    white = np.full((40, 60, 3), 255, np.uint8)
    for x in (-500.0, 500.0):
        assert not cut(white, crop_maps(np.array([[x, 0, 60, 40]]), view=32, context=1.0, size=40)[0], 40).any()


def test_long_images_cost_no_more_than_themselves() -> None:
    # The square around it would be 40,000 x 40,000.
    strip = np.full((2, 40_000, 3), 255, np.uint8)
    tracemalloc.start()
    crop = cut(strip, crop_maps(np.array([[0.0, 0, 40_000, 2]]), view=32, context=1.0, size=32)[0], 32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert crop.shape == (32, 32, 3)
    assert peak < 3 * strip.nbytes


# --- straight from files


@pytest.mark.parametrize("scale", [1.0, 1.9, 2.0, 2.7, 4.0, 5.3, 8.0, 11.0])
@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_a_shrunk_file_gives_the_crops_of_the_whole_one(tmp_path: Path, scale: float, name: str) -> None:
    path = save(tmp_path / name, picture(643, 481), **({"quality": 95} if name == "a.jpg" else {}))
    maps = np.array([[scale, 12.3, -7.6], [1.3 * scale, 40.0, 30.5]])
    crops, extent = cut_out(path, maps, view=32, context=1.25, size=40)
    assert extent == (0, 0)
    for crop, to_image in zip(crops, maps, strict=True):
        expected = cut(decode(path), to_image, 40).astype(int)
        inside = (crop > 0).any(axis=2) & (expected > 0).any(axis=2)  # the border may be off by a pixel
        assert inside.sum() >= (expected > 0).any(axis=2).sum() - 80
        assert np.abs(crop.astype(int) - expected)[inside].mean() < 1.0


@pytest.mark.parametrize("scale", [2.0, 2.6, 4.4, 9.0])
def test_a_blob_in_a_shrunk_file_lands_where_its_keypoint_does(tmp_path: Path, scale: float) -> None:
    x, y = 311.4, 203.8
    columns, rows = np.arange(640), np.arange(480)
    blob = np.exp(-((columns[None] - x) ** 2 + (rows[:, None] - y) ** 2) / (2 * (4 * scale) ** 2))
    path = save(tmp_path / "a.jpg", np.repeat((255 * blob).astype(np.uint8)[..., None], 3, axis=2), quality=98)
    shift = np.array([x, y]) - 31 * scale + 0.3
    (crop,), _ = cut_out(path, np.array([[scale, *shift]]), view=64, context=1.25, size=64)
    np.testing.assert_allclose(centroid(crop), (np.array([x, y]) - shift) / scale, atol=0.08)


@pytest.mark.parametrize("scale", [1.0, 2.3, 4.4, 8.6])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_blob_in_a_turned_file_lands_where_its_keypoint_does(tmp_path: Path, orientation: int, scale: float) -> None:
    x, y = 311.4, 203.8  # in the upright image, whose sides no shrinking divides
    columns, rows = np.arange(643), np.arange(485)
    blob = np.exp(-((columns[None] - x) ** 2 + (rows[:, None] - y) ** 2) / (2 * (4 * scale) ** 2))
    upright = np.repeat((255 * blob).astype(np.uint8)[..., None], 3, axis=2)
    turns = {  # from the upright image to what is stored, the inverse of what EXIF tells
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
        5: lambda a: a.swapaxes(0, 1), 6: lambda a: np.rot90(a, 1), 7: lambda a: np.rot90(a, 2).swapaxes(0, 1),
        8: lambda a: np.rot90(a, -1),
    }  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "a.jpg", np.ascontiguousarray(turns[orientation](upright)), quality=98, exif=exif)
    assert decode(path).shape == upright.shape
    shift = np.array([x, y]) - 31 * scale + 0.3
    (crop,), _ = cut_out(path, np.array([[scale, *shift]]), view=64, context=1.25, size=64)
    np.testing.assert_allclose(centroid(crop), (np.array([x, y]) - shift) / scale, atol=0.08)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "turned.jpg"])
@pytest.mark.parametrize("extent", [(40, 30), (70, 50), (300, 200), (643, 481)])
def test_a_whole_image_is_its_explicit_box(tmp_path: Path, name: str, extent: tuple[int, int]) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6 if name == "turned.jpg" else 1
    path = save(tmp_path / name, picture(*extent), exif=exif)
    width, height = extent[::-1] if name == "turned.jpg" else extent
    maps = np.array([[np.nan, np.nan, np.nan], [6.0, 0.0, 0.0]])
    crops, found = cut_out(path, maps, view=32, context=1.0, size=32)
    assert found == (width, height)
    explicit = crop_maps(np.array([[0.0, 0, width, height]]), view=32, context=1.0, size=32)
    np.testing.assert_array_equal(crops[0], cut_out(path, explicit, view=32, context=1.0, size=32)[0][0])


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_a_crop_does_not_depend_on_its_neighbours(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / name, np.random.default_rng(0).integers(0, 256, (481, 643, 3), dtype=np.uint8))
    maps = np.array([[np.nan] * 3, [9.0, 5.3, 2.1], [1.0, 30, 40], [4.2, 7.7, 3], [2.5, 60, 3.3], [9.5, 0.1, 0.2]])
    together, _ = cut_out(path, maps, view=32, context=1.0, size=40)
    for crop, own in zip(together, maps, strict=True):
        np.testing.assert_array_equal(crop, cut_out(path, own[None], view=32, context=1.0, size=40)[0][0])


@pytest.mark.parametrize(("name", "decoded"), [("a.jpg", [1, 2, 4, 8]), ("a.png", [8])])
def test_each_size_of_an_image_is_decoded_once(tmp_path: Path, name: str, decoded: list[int]) -> None:
    path = save(tmp_path / name, picture(643, 481))
    asked: list[int] = []

    def counting(file: Path, shrink: int) -> tuple[np.ndarray, int]:
        asked.append(shrink)
        return decode_shrunk(file, shrink)

    maps = np.array([[9.0, 0, 0], [np.nan] * 3, [1, 0, 0], [4, 0, 0], [3, 0, 0], [9, 1, 1], [1, 1, 1], [5, 0, 0]])
    cut_out(path, maps, view=32, context=1.0, size=40, pixels=counting)
    assert sorted(asked) == decoded


def test_a_picture_in_memory_has_the_size_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "other.jpg", picture(643, 481)).rename("array 0")  # a file that happens to have its name
    image = picture(300, 200)
    (crop,), extent = cut_out(
        Path("array 0"), np.full((1, 3), np.nan), view=32, context=1.0, size=32, pixels=lambda *_: (image, 1)
    )
    assert extent == (300, 200)
    whole = crop_maps(np.array([[0.0, 0, 300, 200]]), view=32, context=1.0, size=32)[0]
    np.testing.assert_array_equal(crop, cut(image, whole, 32))


@pytest.mark.parametrize("box", [[0, 0, 1e300, 1e300], [0, 0, np.inf, 9], [np.inf, 0, 9, 9], [0, 0, 1e-300, 1e-300]])
def test_boxes_that_no_image_has(tmp_path: Path, box: list[float]) -> None:
    path = save(tmp_path / "a.jpg")
    with np.errstate(invalid="ignore"):
        maps = crop_maps(np.array([box]), view=32, context=1.0, size=32)
    with pytest.raises(InputError, match=r"a\.jpg: a box of .* is no part of an image\. Fix it\.") as caught:
        cut_out(path, maps, view=32, context=1.0, size=32)
    assert "\n" not in str(caught.value)


def test_boxes_far_away_are_black(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg")
    maps = crop_maps(np.array([[1e300, -1e300, 9.0, 9.0], [0, 0, 1e6, 10]]), view=32, context=1.0, size=32)
    crops, _ = cut_out(path, maps, view=32, context=1.0, size=32)
    assert not crops[0].any()


def test_boxes_a_hundredth_off_copy_pixels_too() -> None:
    image = picture(128, 128)
    exact, off = (cut(image, np.array([2.0, -15.5 + shift, -15.5]), 80) for shift in (0.0, 0.005))
    np.testing.assert_array_equal(exact, off)


@given(st.floats(0.05, 20), st.floats(-400, 400), st.integers(1, 300), st.integers(1, 120))
def test_blocks_cover_the_pixels_whose_centres_are_in_the_image(
    scale: float, shift: float, extent: int, size: int
) -> None:
    step = max(1, round(scale))
    blocks = _blocks(scale, shift, step, extent, size)
    low, high = (min(max(int(np.ceil((edge - 0.5 - shift) / scale)), 0), size) for edge in (0, extent))
    assert (blocks.start, blocks.end) == (low, high)
    # The pixels of the blocks: those in the image, and as many as are missing on each side.
    if blocks.last > blocks.first:
        pixels = blocks.before + blocks.inside.stop - blocks.inside.start + blocks.after
        assert pixels == (blocks.last - blocks.first) * step
        assert shift - blocks.place == pytest.approx(blocks.inside.start - blocks.before)


@given(st.integers(-150, 150), st.integers(-150, 150), st.integers(1, 90), st.integers(1, 90), st.floats(-0.009, 0.009))
def test_copied_pixels_are_those_that_interpolation_would_give(
    left: int, top: int, width: int, height: int, off: float
) -> None:
    image, size = picture(width, height), 40
    expected = np.zeros((size, size, 3), np.uint8)
    for row in range(size):
        for column in range(size):
            if 0 <= top + row < height and 0 <= left + column < width:
                expected[row, column] = image[top + row, left + column]
    np.testing.assert_array_equal(cut(image, np.array([1.0, left + off, top - off]), size), expected)
