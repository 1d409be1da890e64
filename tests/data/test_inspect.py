"""What is counted in a dataset, and what is found wrong with it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pictures import picture, save
from placl.data import inspect as inspecting
from placl.data.formats.folder import read_folder
from placl.data.formats.registry import read_source
from placl.data.inspect import Info, KeypointCount, Range, inspect, lines
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton
from placl.files import plain

SKELETON = Skeleton(("left_eye", "right_eye", "tail"), edges=((0, 2),), flip_pairs=((0, 1),))


def dataset(folder: Path, sizes: tuple[tuple[int, int], ...] = ((64, 48), (100, 80), (200, 60))) -> Instances:
    """One instance in each image and a second one in the last, all of them fine."""
    for i, (width, height) in enumerate(sizes):
        save(folder / f"{i}.png", picture(width, height))
    m = len(sizes)
    n = m + 1
    points = np.array([[10, 10], [20, 10], [15, 30]], np.float32) + np.arange(n, dtype=np.float32)[:, None, None]
    return Instances(
        skeleton=SKELETON,
        images=tuple(folder / f"{i}.png" for i in range(m)),
        image_index=np.minimum(np.arange(n), m - 1),
        boxes=np.array([[5.0, 5, 20 + 10 * i, 30] for i in range(n)]),
        keypoints=points,
        visibility=np.full((n, 3), 2, np.uint8),
        area=np.full(n, 100, np.float32),
        ids=tuple(f"{min(i, m - 1)}.png#{i}" for i in range(n)),
    )


def look(instances: Instances, notes: tuple[str, ...] = ()) -> Info:
    return inspect(Path("set.json"), "coco", instances, notes)


def test_counts_and_sizes(tmp_path: Path) -> None:
    found = dataset(tmp_path)
    found.visibility[0] = [1, 2, 0]
    found.visibility[1] = 0
    found = replace(found, classes=("dog", "cat", "dog", ""), splits=("train", "", "val"))
    info = look(found)
    assert (info.path, info.format, info.images, info.labelled, info.unlabelled) == ("set.json", "coco", 3, 3, 1)
    assert info.keypoints == SKELETON.keypoints
    assert info.edges == (("left_eye", "tail"),)
    assert info.flip_pairs == (("left_eye", "right_eye"),)
    assert info.classes == {"dog": 2, "cat": 1}
    assert info.splits == {"train": 1, "val": 1}
    assert info.width == Range(64, 100, 200)
    assert info.height == Range(48, 60, 80)
    assert info.sizes_of == 3
    assert info.box_side == Range(30, 35, 50)
    assert info.whole_images == 0
    assert info.per_keypoint == (
        KeypointCount("left_eye", 3, 2, 1, 0),
        KeypointCount("right_eye", 3, 3, 0, 0),
        KeypointCount("tail", 2, 2, 0, 0),
    )
    assert info.problems == ()


def test_sizes_are_those_of_the_upright_image(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "a.jpg", picture(64, 48), exif=exif)
    info = look(read_folder(tmp_path))
    assert (info.width, info.height) == (Range(48, 48, 48), Range(64, 64, 64))


def test_plain_images(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        save(tmp_path / name)
    info = look(read_folder(tmp_path))
    assert (info.labelled, info.unlabelled, info.keypoints, info.per_keypoint) == (0, 2, (), ())
    assert (info.box_side, info.whole_images) == (None, 2)
    assert info.problems == ()
    assert lines(info) == [
        "coco: 2 images, 0 labelled and 2 unlabelled instances, 0 keypoints",
        "  images    64x48 px",
        "  boxes     the whole image",
        "",
        "no problems found",
    ]


def test_missing_and_unreadable_images(tmp_path: Path) -> None:
    found = dataset(tmp_path)
    (tmp_path / "0.png").unlink()
    (tmp_path / "2.png").write_text("no image")
    info = look(found)
    assert info.problems == (
        f"1 image missing, e.g. {tmp_path / '0.png'}",
        f"1 image unreadable, e.g. {tmp_path / '2.png'}",
    )
    assert info.width == Range(100, 100, 100)


def test_many_images_are_sampled_but_all_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "MOST_HEADS", 4)
    found = dataset(tmp_path, ((60, 50),) * 9)
    (tmp_path / "8.png").unlink()
    found.keypoints[:, 2, 0] = 60.0
    found.boxes[:] = [5, 5, 20, 30]
    info = look(found)
    assert info.sizes_of == 4
    assert info.per_keypoint[2].outside == 4
    missing, outside = info.problems
    assert missing == f"1 image missing, e.g. {tmp_path / '8.png'}"
    assert outside.startswith("4 keypoints outside the image (in the 4 images looked at), e.g. tail of ")
    assert lines(info)[1] == "  images    60x50 px (4 images looked at)"
    assert look(found) == info


@pytest.mark.parametrize(
    ("x", "y", "wrong"),
    [(-0.5, 10, False), (-0.6, 10, True), (63.5, 47.5, False), (63.6, 10, True), (10, 47.6, True)],
)
def test_pixels_end_half_a_pixel_after_their_centres(tmp_path: Path, x: float, y: float, wrong: bool) -> None:
    found = dataset(tmp_path)
    found.keypoints[0, 1] = [x, y]
    info = look(found)
    assert info.per_keypoint[1].outside == int(wrong)
    assert info.problems == (("1 keypoint outside the image, e.g. right_eye of 0.png#0",) if wrong else ())
    found.visibility[0, 1] = 0
    assert look(found).problems == ()


def test_nothing_is_outside_where_sizes_are_unknown(tmp_path: Path) -> None:
    found = dataset(tmp_path)
    found.keypoints[:] = -50
    found.boxes[:, 0] = -90
    found.keypoints[3] = -60  # not a copy
    for image in found.images:
        image.unlink()
    info = look(found)
    assert [count.outside for count in info.per_keypoint] == [None] * 3
    assert len(info.problems) == 1
    assert lines(info)[1] == "  images    sizes unknown"


def test_boxes_outside_and_tiny(tmp_path: Path) -> None:
    found = dataset(tmp_path)
    found.boxes[0] = [-0.9, 0, 65.8, 48]  # within a pixel
    found.boxes[1] = [80, 10, 30, 30]
    found.boxes[2] = [10, 10, 15, 3]
    found.boxes[3] = [300, 10, 30, 30]
    expected = (
        "1 box partly outside the image, e.g. that of 1.png#1",
        "1 box wholly outside the image, e.g. that of 2.png#3",
        "1 box smaller than 16 px, e.g. that of 2.png#2",
    )
    assert look(found).problems == expected
    drawn = replace(found, drawn=np.array([False, True, False, False]))
    assert look(drawn).problems == expected[1:]


def test_few_labels_and_copies(tmp_path: Path) -> None:
    found = dataset(tmp_path)
    found.visibility[0] = [0, 2, 0]
    found.keypoints[3] = found.keypoints[2]
    found.keypoints[2:, 0, 0] = [0.0, -0.0]
    assert look(found).problems == (
        "1 instance with a single labelled keypoint, e.g. 0.png#0",
        "1 instance with the keypoints of another in the same image, e.g. 2.png#3 as 2.png#2",
    )
    elsewhere = replace(found, image_index=np.array([0, 1, 2, 1]))
    assert len(look(elsewhere).problems) == 1


@pytest.mark.parametrize(
    ("names", "alone"),
    [
        (("left_eye", "tail", "x"), "1 keypoint without a left/right partner: left_eye"),
        (("pawL", "pawR", "x"), "2 keypoints without a left/right partner: pawL, pawR"),
        (("l_paw", "paw-r", "HindL"), "3 keypoints without a left/right partner: l_paw, paw-r, HindL"),
        (("tail", "ear", "RIBS"), None),
    ],
)
def test_sides_without_a_partner(tmp_path: Path, names: tuple[str, ...], alone: str | None) -> None:
    info = look(replace(dataset(tmp_path), skeleton=Skeleton(names)))
    assert info.problems == ((alone,) if alone else ())


def test_keypoints_never_labelled(tmp_path: Path) -> None:
    found = dataset(tmp_path)
    found.visibility[:, 1] = 0
    assert look(found).problems == ("1 keypoint never labelled: right_eye",)
    found.visibility[:] = 0
    assert look(found).problems == ()


def test_lines_for_people(tmp_path: Path) -> None:
    found = replace(dataset(tmp_path), classes=("dog", "dog", "cat", "dog"))
    found.keypoints[1, 2] = [500, 0]
    found.visibility[0, 0] = 1
    found.boxes[3] = np.nan
    assert lines(look(found, ("2 rows left out.",))) == [
        "coco: 3 images, 4 labelled and 0 unlabelled instances, 3 keypoints",
        "  images    64x48 to 200x80 px, median 100x60",
        "  boxes     longest side 30 to 40 px, median 30; 1 the whole image",
        "  classes   dog 3, cat 1",
        "  skeleton  1 edge, 1 left/right pair",
        "",
        "  keypoint   labelled  visible  occluded  outside",
        "  left_eye          4        3         1        -",
        "  right_eye         4        4         -        -",
        "  tail              4        4         -        1",
        "",
        "1 problem:",
        "  - 1 keypoint outside the image, e.g. tail of 1.png#1",
        "",
        "1 note:",
        "  - 2 rows left out.",
    ]


def test_json_for_machines(tmp_path: Path) -> None:
    content = json.loads(json.dumps(plain(look(dataset(tmp_path), ("a note",)).to_dict())))
    assert {"format", "images", "labelled", "unlabelled", "keypoints", "problems"} <= set(content)
    assert content["keypoints"] == list(SKELETON.keypoints)
    assert content["per_keypoint"][0] == {
        "name": "left_eye",
        "labelled": 4,
        "visible": 4,
        "occluded": 0,
        "outside": 0,
    }
    assert content["width"] == {"low": 64, "median": 100, "high": 200}
    assert content["problems"] == []
    assert content["notes"] == ["a note"]


@pytest.mark.realdata
def test_real_people(shared: Path) -> None:
    from placl.data.formats.coco import read_coco

    path = shared / "formats/coco/test_coco.json"
    info = inspect(path, "coco", read_coco(path), ())
    assert (info.images, info.labelled, info.unlabelled, len(info.keypoints)) == (4, 12, 2, 17)
    assert info.width == Range(500, 640, 640)
    assert len(info.flip_pairs) == 8
    assert info.problems == ()


def test_images_of_another_size_than_their_source_says(tmp_path: Path) -> None:
    found = dataset(tmp_path)
    assert not look(replace(found, stated=np.array([[64.0, 48], [np.nan, np.nan], [200, 60]]))).problems
    info = look(replace(found, stated=np.array([[48.0, 64], [100, 80], [400, 120]])))
    assert info.problems == (
        "1 image annotated in another size, e.g. 0.png of 64x48 px as 48x64; turned by EXIF?",
        "1 image annotated in another size, e.g. 2.png of 200x60 px as 400x120; resized since?",
    )


def test_what_coco_and_cvat_say_of_sizes_is_held_against_the_files(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x112] = 6
    save(tmp_path / "1.jpg", picture(100, 60), exif=turned)  # shown as 60 x 100
    image = {"id": 1, "file_name": "1.jpg", "width": 100, "height": 60}
    label = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [5, 5, 40, 40], "keypoints": [10, 10, 2]}
    categories = [{"id": 1, "name": "x", "keypoints": ["p"]}]
    coco, cvat = tmp_path / "ann.json", tmp_path / "annotations.xml"
    coco.write_text(json.dumps({"images": [image], "annotations": [label], "categories": categories}))
    points = '<points label="nose" occluded="0" points="5.0,5.0"/>'
    cvat.write_text(
        '<?xml version="1.0"?><annotations><version>1.1</version>'
        f'<image id="0" name="1.jpg" width="1000" height="600">{points}</image></annotations>'
    )
    expected = {coco: "as 100x60; turned by EXIF?", cvat: "as 1000x600; resized since?"}
    for file, words in expected.items():
        known, found = read_source(file)
        problems = inspect(file, known.name, found.instances).problems
        assert problems[0] == f"1 image annotated in another size, e.g. 1.jpg of 60x100 px {words}"
