"""What can be decoded, and why the rest cannot."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from pictures import picture, save, truncated
from placl.data.images import UnreadableImageError, decode


def encoded(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def test_grey_alpha_palette_and_sixteen_bits_become_rgb(tmp_path: Path) -> None:
    image = Image.fromarray(picture())
    grey = np.asarray(image.convert("L"))
    np.testing.assert_array_equal(decode(encoded(tmp_path / "l.png", image.convert("L"))), grey[..., None].repeat(3, 2))
    np.testing.assert_array_equal(decode(encoded(tmp_path / "rgba.png", image.convert("RGBA"))), picture())
    np.testing.assert_array_equal(decode(encoded(tmp_path / "rgb.bmp", image)), picture())
    palette = image.quantize(16)
    np.testing.assert_array_equal(decode(encoded(tmp_path / "p.png", palette)), np.asarray(palette.convert("RGB")))
    deep = np.arange(64 * 48, dtype=np.uint16).reshape(48, 64) * 21
    for name in ("deep.png", "deep.tif"):
        np.testing.assert_array_equal(decode(encoded(tmp_path / name, Image.fromarray(deep)))[..., 1], deep >> 8)


def test_cmyk_jpeg_has_the_right_colours(tmp_path: Path) -> None:
    path = encoded(tmp_path / "cmyk.jpg", Image.fromarray(picture()).convert("CMYK"), quality=98)
    assert np.abs(decode(path).astype(int) - picture()).mean() < 4


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_exif_rotation_is_honoured(tmp_path: Path, name: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    found = decode(encoded(tmp_path / name, Image.fromarray(picture()), exif=exif))
    assert np.abs(found.astype(int) - np.rot90(picture(), -1)).mean() < 4


def test_pillow_reads_what_opencv_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png")
    deep = encoded(tmp_path / "deep.png", Image.fromarray(np.full((4, 4), 0x1234, np.uint16)))
    monkeypatch.setattr(cv2, "imdecode", lambda *_: None)
    np.testing.assert_array_equal(decode(path), picture())
    assert (decode(deep) == 0x12).all()


def test_bytes_after_the_end_of_a_jpeg_do_no_harm(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", quality=95)
    expected = decode(path)
    path.write_bytes(path.read_bytes() + b"\0" * 5000)  # as phones append
    assert np.abs(decode(path).astype(int) - expected).max() <= 2


UNREADABLE = {
    "empty": (b"", "the file is empty"),
    "text": (b"<html>Not found</html>", "not a known image format"),
    "jpeg": (truncated("JPEG"), "truncated"),
    "png": (truncated("PNG"), "truncated"),
    "bmp": (truncated("BMP"), "truncated"),
    "tiff": (truncated("TIFF"), "truncated"),
    "webp": (truncated("WEBP"), "decoder"),
    "header only": (b"\xff\xd8\xff\xd9", "not a known image format"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable_files_say_why(tmp_path: Path, case: str) -> None:
    data, reason = UNREADABLE[case]
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(UnreadableImageError, match=reason) as caught:
        decode(tmp_path / "a.jpg")
    assert "\n" not in str(caught.value)
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize(("name", "reason"), [("none.jpg", "No such file"), ("a\0b.jpg", "not a file name")])
def test_no_such_image(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UnreadableImageError, match=reason):
        decode(tmp_path / name)
