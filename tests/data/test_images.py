"""What can be decoded, and why the rest cannot."""

import errno
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from pictures import picture, save, truncated
from placl.data import images
from placl.data.images import UnreadableImageError, decode, decode_shrunk, head_size, image_size
from placl.errors import MachineError


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


@pytest.mark.parametrize("largest", [1, 255])
def test_floats_from_0_to_1_or_to_255_become_grey(tmp_path: Path, largest: int) -> None:
    grey = np.arange(64 * 48).reshape(48, 64) % 256
    path = encoded(tmp_path / "f.tif", Image.fromarray((grey / 255 * largest).astype(np.float32)))
    np.testing.assert_array_equal(decode(path), grey[..., None].repeat(3, 2))


@pytest.mark.parametrize("wrong", [-0.1, 256, np.nan, np.inf])
def test_floats_that_may_mean_anything_are_refused(tmp_path: Path, wrong: float) -> None:
    image = np.full((48, 64), 0.5, np.float32)
    image[3, 4] = wrong
    with pytest.raises(UnreadableImageError, match=r"not from 0 to 1 or to 255, save it with 8 or 16 bits"):
        decode(encoded(tmp_path / "f.tif", Image.fromarray(image)))


def test_cmyk_jpeg_has_the_right_colours(tmp_path: Path) -> None:
    path = encoded(tmp_path / "cmyk.jpg", Image.fromarray(picture()).convert("CMYK"), quality=98)
    assert np.abs(decode(path).astype(int) - picture()).mean() < 4


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_exif_rotation_is_honoured(tmp_path: Path, name: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    found = decode(encoded(tmp_path / name, Image.fromarray(picture()), exif=exif))
    assert np.abs(found.astype(int) - np.rot90(picture(), -1)).mean() < 4


def test_a_png_whose_chunk_claims_gigabytes_takes_none(tmp_path: Path) -> None:
    path = encoded(tmp_path / "a.png", Image.fromarray(picture()))
    data = path.read_bytes()
    at = data.index(b"IDAT") - 4
    path.write_bytes(data[:at] + b"\xff\xff\x00\x56" + data[at + 4 :])  # found by atheris: OpenCV took 4 GB for it
    code = f"""if True:
        import contextlib, pathlib, resource
        from placl.data.images import UnreadableImageError, decode
        def most():  # a child begins with its parent's figure, so only what is added to it counts
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = most()
        with contextlib.suppress(UnreadableImageError):
            decode(pathlib.Path({str(path)!r}))
        print(most() - before)"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(child.stdout) < 1 << 17  # kilobytes


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.tiff"])
def test_the_size_is_that_of_the_turned_image(tmp_path: Path, name: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = encoded(tmp_path / name, Image.fromarray(picture()), exif=exif)
    assert image_size(path) == ((64, 48) if orientation < 5 else (48, 64))
    assert image_size(path) == decode(path).shape[1::-1]


@pytest.mark.parametrize("tail", [b"", b"\0" * 5000])  # the second goes through Pillow
def test_an_orientation_that_only_xmp_tells_turns_neither_image_nor_size(tmp_path: Path, tail: bytes) -> None:
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    path = encoded(tmp_path / "a.jpg", Image.fromarray(picture()), xmp=xmp)
    path.write_bytes(path.read_bytes() + tail)
    assert image_size(path) == decode(path).shape[1::-1] == (64, 48)


@pytest.mark.parametrize("exif", [None, 1])
def test_an_upright_jpeg_comes_shrunk(tmp_path: Path, exif: int | None) -> None:
    data = Image.Exif()
    data[0x0112] = exif or 1
    path = encoded(tmp_path / "a.jpg", Image.fromarray(picture(100, 60)), **({"exif": data} if exif else {}))
    image, shrink = decode_shrunk(path, 4)
    assert (image.shape, shrink) == ((15, 25, 3), 4)


def test_exif_data_that_cannot_be_read_are_not_trusted(tmp_path: Path) -> None:
    path = encoded(tmp_path / "a.jpg", Image.fromarray(picture()), exif=b"Exif\0\0rubbish")
    assert decode_shrunk(path, 2)[1] == 1


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"exif": b"Exif\0\0" + bytes(60_000)}])
def test_the_size_in_the_head_of_a_jpeg(tmp_path: Path, options: dict[str, Any]) -> None:
    assert head_size(encoded(tmp_path / "a.jpg", Image.fromarray(picture(70, 50)), **options)) == (70, 50)


def test_no_size_in_a_head_that_is_none(tmp_path: Path) -> None:
    path = encoded(tmp_path / "a.jpg", Image.fromarray(picture()))
    whole = path.read_bytes()
    for data in (b"", b"\xff\xd8", whole[:40], b"\xff\xd8\xff\xd9", b"\xff\xd8\xff\xe0\0\0" * 9, b"\xff\xd8abcdefghi"):
        path.write_bytes(data)
        assert head_size(path) is None
    assert head_size(encoded(tmp_path / "a.png", Image.fromarray(picture()))) is None
    assert head_size(tmp_path / "none.jpg") is None


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


def test_a_disk_that_fails_is_not_the_images_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(images, "_content", fails)
    with pytest.raises(MachineError, match=r"a\.jpg: cannot be read \(Input/output error\)\. Run again") as caught:
        decode(tmp_path / "a.jpg")
    assert "\n" not in str(caught.value)


def test_a_folder_or_a_closed_file_is_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableImageError, match="directory"):
        decode(tmp_path)

    def closed(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(images, "_content", closed)
    with pytest.raises(UnreadableImageError, match="Permission denied"):
        decode(tmp_path / "a.jpg")


def test_pillow_warns_nobody_and_no_filter_is_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    path = encoded(tmp_path / "a.tif", Image.fromarray(picture()))
    monkeypatch.setattr(cv2, "imdecode", lambda *_: None)
    monkeypatch.setattr(warnings, "catch_warnings", None)  # would be undone by another thread at the wrong time
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 64 * 48 - 1)  # a warning up to twice as many
    images.quieten()  # pytest has put the filters back
    np.testing.assert_array_equal(decode(path), picture())
    assert not list(recwarn)
