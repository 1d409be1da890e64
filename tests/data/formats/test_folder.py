"""Plain images: which files count, in which order, and boxes on them."""

import json
from pathlib import Path

import numpy as np
import pytest

from placl.data.formats.folder import read_folder, read_images
from placl.errors import InputError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def boxes_file(path: Path, *names: str) -> Path:
    """One box per image; the annotation's id is its place in the list."""
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    annotations = [
        {"id": i, "image_id": i, "bbox": [i, 2, 3, 4], "keypoints": "labels are ignored"} for i in range(len(names))
    ]
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": []}))
    return path


def test_every_image_is_one_instance_in_order(tmp_path: Path) -> None:
    touch(tmp_path, "b.PNG", "a/z.jpeg", "a/y/x.webp", "c.tif", "d.TIFF", "e.bmp", "f.jpg")
    instances = read_folder(tmp_path)
    assert instances.ids == ("a/y/x.webp", "a/z.jpeg", "b.PNG", "c.tif", "d.TIFF", "e.bmp", "f.jpg")
    assert instances.images[0] == tmp_path / "a/y/x.webp"
    assert instances.image_index.tolist() == list(range(7))
    assert np.isnan(instances.boxes).all()
    assert np.isnan(instances.area).all()
    assert instances.skeleton is None


def test_hidden_and_other_files_are_skipped(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", ".b.jpg", "._a.jpg", ".cache/c.jpg", "x/.thumbnails/d.jpg", "notes.txt", "a.jpg.part")
    assert read_folder(tmp_path).ids == ("a.jpg",)


def test_pictures_of_a_run_are_not_taken_for_data(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "runs/mine/config.yaml", "runs/mine/journal.jsonl", "runs/mine/gallery/000.jpg")
    touch(tmp_path, "labels/config.yaml", "labels/b.jpg")  # as of DeepLabCut: no run
    assert read_folder(tmp_path).ids == ("a.jpg", "labels/b.jpg")
    assert read_folder(tmp_path / "runs" / "mine").ids == ("gallery/000.jpg",)  # who names it, means it


def test_files_and_folders_to_leave_out_are_counted(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "drawn.jpg", "drawn/a.png", "drawn/b/c.png", "drawn.png", "elsewhere/drawn.png")
    found = read_images(tmp_path, besides=[tmp_path / "drawn", tmp_path / "drawn.png", tmp_path.parent / "other"])
    assert found.instances.ids == ("a.jpg", "drawn.jpg", "elsewhere/drawn.png")
    assert found.notes == (f"{tmp_path}: 3 images lie where pictures are written to, and are left out.",)


def test_one_image(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "b.jpg")
    instances = read_folder(tmp_path / "b.jpg")
    assert instances.ids == ("b.jpg",)
    assert instances.images == (tmp_path / "b.jpg",)


def test_boxes_on_the_images_that_are_there(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    touch(photos, "a.jpg", "c.jpg", "without_box.jpg")
    boxes = boxes_file(tmp_path / "boxes.json", "b.jpg", "c.jpg", "a.jpg", "c.jpg")
    instances = read_folder(photos, boxes)
    assert instances.ids == ("c.jpg#1", "a.jpg#2", "c.jpg#3")
    assert instances.images == (photos / "c.jpg", photos / "a.jpg")
    assert instances.image_index.tolist() == [0, 1, 0]
    assert instances.boxes[:, 0].tolist() == [1, 2, 3]
    assert instances.area.tolist() == [12, 12, 12]
    assert instances.skeleton is None
    assert not instances.labelled.any()
    assert read_images(photos, boxes).notes == (
        f"boxes.json: 1 images in {photos} have no box there and are left out.",
    )


def test_boxes_on_one_image(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "b.jpg")
    boxes = boxes_file(tmp_path / "boxes.json", "a.jpg", "b.jpg")
    assert read_folder(tmp_path / "b.jpg", boxes).ids == ("b.jpg#1",)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("empty", "holds no images"), ("nowhere", "does not exist"), ("notes.txt", "is not an image")],
)
def test_nothing_to_read(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "empty").mkdir()
    touch(tmp_path, "notes.txt")
    with pytest.raises(InputError, match=complaint) as caught:
        read_folder(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert "\n" not in str(caught.value)


def test_boxes_on_no_image(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    touch(photos, "a.jpg")
    boxes = boxes_file(tmp_path / "boxes.json", "b.jpg")
    with pytest.raises(InputError, match="none of its boxes is on an image in"):
        read_folder(photos, boxes)


def test_a_broken_box_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg")
    boxes = boxes_file(tmp_path / "boxes.json", "a.jpg")
    boxes.write_text(boxes.read_text().replace("[0, 2, 3, 4]", "[0, 2, 3, NaN]"))
    with pytest.raises(InputError, match=r'boxes.json: annotation 0: "bbox" holds a number that is not finite'):
        read_folder(tmp_path, boxes)
