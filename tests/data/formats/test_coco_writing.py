"""Written COCO files: what is in them, and that reading gives back what was written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pictures import save
from placl.data.formats.coco import FORMAT, read_coco
from placl.data.formats.coco_writing import write_coco
from placl.data.formats.folder import read_folder
from placl.data.formats.format import Options
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton

BIRD = Skeleton(("left_eye", "right_eye", "tail"), ((0, 2), (1, 2)), ((0, 1),), (0.1, 0.1, 0.3))


def birds(folder: Path, n: int = 3, seed: int = 0) -> Instances:
    """Two images, n instances of two classes, all visibilities."""
    random = np.random.default_rng(seed)
    visibility = random.integers(0, 3, (n, 3)).astype(np.uint8)
    points = random.uniform(-20, 90, (n, 3, 2)).astype(np.float32)
    index = np.sort(random.integers(0, 2, n))
    index[0], index[-1] = 0, 1
    return Instances(
        skeleton=BIRD,
        images=(save(folder / "a.png"), save(folder / "b.png")),
        image_index=index,
        boxes=random.uniform(1, 50, (n, 4)),
        keypoints=np.where(visibility[..., None] > 0, points, 0).astype(np.float32),
        visibility=visibility,
        area=random.uniform(1, 500, n).astype(np.float32),
        ids=tuple(f"{'ab'[k]}.png#{10 * i + 7}" for i, k in enumerate(index)),
        classes=tuple(("wren", "owl")[i % 2] for i in range(n)),
        splits=("train", "test"),
        drawn=random.random(n) < 0.5,
        head_length=np.append(random.uniform(1, 9, n - 1), np.nan).astype(np.float32),
    )


def same(one: Instances, other: Instances) -> None:
    assert one.skeleton == other.skeleton
    assert [image.resolve() for image in one.images] == [image.resolve() for image in other.images]
    for name in ("image_index", "boxes", "keypoints", "visibility", "area", "drawn", "head_length"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert (one.ids, one.classes, one.splits) == (other.ids, other.classes, other.splits)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(2, 6), seed=st.integers(0, 10_000))
def test_reading_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, n: int, seed: int) -> None:
    folder = tmp_path_factory.mktemp("set")
    instances = birds(folder, n, seed)
    (file,) = write_coco(instances, folder)
    assert file == folder / "annotations.json"
    same(read_coco(file), instances)


def test_names_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    instances = birds(tmp_path / "photos")
    (file,) = write_coco(instances, tmp_path / "labels" / "mine.json")
    content = json.loads(file.read_text())
    assert [image["file_name"] for image in content["images"]] == ["../photos/a.png", "../photos/b.png"]
    assert [(image["width"], image["height"]) for image in content["images"]] == [(64, 48)] * 2
    assert [image.resolve() for image in read_coco(file).images] == list(instances.images)


def test_head_lengths_are_written_where_they_are_known(tmp_path: Path) -> None:
    instances = replace(birds(tmp_path), head_length=np.array([7.1, np.nan, 3], np.float32))
    (file,) = write_coco(instances, tmp_path)
    annotations = json.loads(file.read_text())["annotations"]
    assert [annotation.get("head_length") for annotation in annotations] == [float(np.float32(7.1)), None, 3.0]
    assert "head_length" not in annotations[1]


def test_a_whole_image_is_written_as_its_box(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (file,) = write_coco(read_folder(tmp_path), tmp_path)
    (annotation,) = json.loads(file.read_text())["annotations"]
    assert (annotation["bbox"], annotation["area"], annotation["num_keypoints"]) == ([0, 0, 64, 48], 64 * 48, 0)
    assert read_coco(file).skeleton is None


def test_numbers_of_ids_that_are_no_numbers_are_counted(tmp_path: Path) -> None:
    instances = replace(birds(tmp_path), ids=("a.png#left", "a.png#right", "b.png#left"))
    (file,) = write_coco(instances, tmp_path)
    assert [annotation["id"] for annotation in json.loads(file.read_text())["annotations"]] == [1, 2, 3]


def test_a_turned_image_has_its_upright_size(tmp_path: Path) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "a.jpg", exif=exif)
    (file,) = write_coco(read_folder(tmp_path), tmp_path)
    assert json.loads(file.read_text())["annotations"][0]["bbox"] == [0, 0, 48, 64]


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["coco/test_coco", "ap10k/test_ap10k", "freihand/test_freihand", "wflw/test_wflw"])
def test_real_files_come_back(shared: Path, tmp_path: Path, name: str) -> None:
    instances = FORMAT.read(shared / "formats" / f"{name}.json", Options()).instances
    (file,) = write_coco(instances, tmp_path)
    again = read_coco(file)
    assert again.skeleton == instances.skeleton
    for field in ("image_index", "boxes", "keypoints", "visibility", "area", "drawn"):
        np.testing.assert_array_equal(getattr(again, field), getattr(instances, field), err_msg=field)
    assert again.classes == instances.classes
    assert [i.rpartition("#")[2] for i in again.ids] == [i.rpartition("#")[2] for i in instances.ids]
