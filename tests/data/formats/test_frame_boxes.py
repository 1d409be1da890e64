"""Boxes of frames: how a frame's number is told, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from placl.data.formats.frame_boxes import read_frame_boxes
from placl.errors import InputError

BOX = [1.0, 2.0, 30.0, 40.0]


def write(path: Path, *images: dict[str, Any], annotations: list[dict[str, Any]] | None = None) -> Path:
    records = [{"id": i, "file_name": "clip.mp4", **image} for i, image in enumerate(images)]
    given = [{"id": i, "image_id": i, "bbox": BOX} for i in range(len(images))] if annotations is None else annotations
    path.write_text(json.dumps({"images": records, "annotations": given}))
    return path


@pytest.mark.parametrize(
    ("image", "number"),
    [
        ({"frame_index": 7}, 7),
        ({"frame_id": 8, "file_name": "clip_000012.png"}, 8),
        ({"frame_index": 7, "frame_id": 8}, 7),
        ({"file_name": "clip_000012.png"}, 12),
        ({"file_name": "clip.mp4#000012"}, 12),
        ({"file_name": "labeled-data/2024 mouse 3/img0042.JPG"}, 42),
        ({"file_name": "0.png"}, 0),
    ],
)
def test_the_number_of_a_frame(tmp_path: Path, image: dict[str, Any], number: int) -> None:
    found = read_frame_boxes(write(tmp_path / "b.json", image))
    assert list(found) == [number]
    assert found[number][0].box is not None
    assert found[number][0].box.tolist() == BOX
    assert (found[number][0].image_id, found[number][0].category_id) == (0, 1)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"file_name": "clip.mp4"}, r'"clip\.mp4" does not end with a frame\'s number\. Give it a "frame_index"'),
        ({"file_name": "left12_side.png"}, "does not end with a frame's number"),
        ({"frame_index": -1}, r'image 0: "frame_index" is -1, not a number of a frame from 0'),
        ({"frame_id": "7"}, '"frame_id" is "7", not a number'),
        ({"frame_index": True}, '"frame_index" is true, not a number'),
    ],
)
def test_frames_without_a_number(tmp_path: Path, image: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_frame_boxes(write(tmp_path / "b.json", image))


def test_two_images_of_one_frame(tmp_path: Path) -> None:
    file = write(tmp_path / "b.json", {"file_name": "a/3.png"}, {"file_name": "b/3.png"})
    with pytest.raises(InputError, match="images 0 and 1 are both frame 3"):
        read_frame_boxes(file)


def test_several_boxes_and_none(tmp_path: Path) -> None:
    annotations = [
        {"id": 1, "image_id": 0, "bbox": BOX, "category_id": 5},
        {"id": 2, "image_id": 0},
        {"id": 3, "image_id": 0, "bbox": BOX, "bbox_drawn": True},
        {"id": 4, "image_id": 0, "bbox": [0, 0, 5, 5]},
    ]
    (found,) = read_frame_boxes(write(tmp_path / "b.json", {"frame_id": 0}, annotations=annotations)).values()
    assert [None if place.box is None else place.box.tolist() for place in found] == [BOX, None, [0, 0, 5, 5]]
    assert [place.category_id for place in found] == [5, 1, 1]


def test_a_box_without_size(tmp_path: Path) -> None:
    file = write(tmp_path / "b.json", {"frame_id": 0}, annotations=[{"id": 1, "image_id": 0, "bbox": [0, 0, 0, 5]}])
    with pytest.raises(InputError, match=r"annotation 1: its box \[0, 0, 0, 5\] has no size"):
        read_frame_boxes(file)
