"""Comparing two readings: what is an error, what hangs on rounding, and which images are compared on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from placl.errors import MachineError
from placl.exporting.agreement import IMAGES, compare, drawn, pictures
from placl.exporting.programs import Answer

BATCH = np.zeros((40, 3, 4, 4), np.float32)


def steady(images: np.ndarray) -> Answer:
    return np.full((len(images), 2, 2), 1.5), np.full((len(images), 2), 0.5)


def shifted(by: float, sure: float = 0.0) -> object:
    def read(images: np.ndarray) -> Answer:
        keypoints, confidence = steady(images)
        keypoints[:, 1, 0] += by
        return keypoints, confidence + sure

    return read


def on_a_hair(side: float) -> object:
    """Keypoint 0 is 0 or 8, by the sign of a sum that is 0 in the plain images, where rounding goes to ``side``."""

    def read(images: np.ndarray) -> Answer:
        keypoints, confidence = steady(images)
        total = images.sum(axis=(1, 2, 3))
        keypoints[:, 0] = np.where(np.where(total == 0, side, total) > 0, 8.0, 0.0)[:, None]
        return keypoints, confidence

    return read


def test_differences_are_the_largest_ones() -> None:
    found = compare(steady, shifted(6e-5, 2e-5), BATCH, "zeros", "m")
    assert (found.pixels, found.confidence) == (pytest.approx(6e-5), pytest.approx(2e-5))
    assert (found.images, found.source, found.keypoints, found.undecided) == (40, "zeros", 80, 0)


@pytest.mark.parametrize(("by", "sure"), [(2e-4, 0), (0, 2e-4), (np.nan, 0), (0, np.nan)])
def test_above_the_tolerance_is_an_error(by: float, sure: float) -> None:
    with pytest.raises(MachineError, match=r"^m: does not agree with PyTorch"):
        compare(steady, shifted(by, sure), BATCH, "zeros", "m")


def test_what_hangs_on_rounding_is_counted_and_left_out() -> None:
    found = compare(on_a_hair(1), on_a_hair(-1), BATCH, "zeros", "m")
    assert (found.pixels, found.undecided) == (0.0, 40)


def test_one_that_hangs_on_rounding_does_not_excuse_the_other() -> None:
    def wrong(images: np.ndarray) -> Answer:
        keypoints, confidence = on_a_hair(-1)(images)
        keypoints[:, 1] += 0.01
        return keypoints, confidence

    with pytest.raises(MachineError, match=r"up to 0\.01 px"):
        compare(on_a_hair(1), wrong, BATCH, "zeros", "m")


def test_crops_are_of_the_runs_data(trained: Path) -> None:
    images, source = pictures(trained, 32, 1.25)
    assert source == "crops of the run's data"
    assert images.shape == (100, 3, 32, 32)
    assert images.dtype == np.float32
    assert images.max() > 100
    assert len(np.unique(images.sum(axis=(1, 2, 3)))) == 100


def test_drawn_images_where_the_data_are_gone(trained: Path, tmp_path: Path) -> None:
    settings = yaml.safe_load((trained / "config.yaml").read_text())
    settings["data"]["labeled"] = [str(tmp_path / "gone.json")]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    images, source = pictures(tmp_path, 32, 1.25)
    assert source.startswith("drawn images")
    assert np.array_equal(images.transpose(0, 2, 3, 1), drawn(IMAGES, 32))


def test_unreadable_images_are_passed_over(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained.parent / "animals", tmp_path / "animals")
    settings = yaml.safe_load((trained / "config.yaml").read_text())
    settings["data"]["labeled"] = [str(tmp_path / "animals" / "annotations.json")]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    first, *_ = sorted(path for path in (tmp_path / "animals").rglob("*") if path.suffix in (".png", ".jpg"))
    first.write_bytes(b"")
    images, source = pictures(tmp_path, 32, 1.25)
    assert len(images) == 99
    assert source == "crops of the run's data"
