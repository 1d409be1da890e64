"""YOLO pose: folders as Ultralytics, Roboflow and people lay them out, and what is written is read back."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from placl.data.formats.format import Options
from placl.data.formats.yolo import FORMAT
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton
from placl.errors import InputError

# Two birds of 3 keypoints in an image of 200 x 100.
LINES = "0 0.5 0.4 0.2 0.6 0.25 0.5 2 0.26 0.505 1 0 0 0\n1 0.1 0.1 0.1 0.1 0.0025 0.005 2 0 0 0 0.1 0.1 2\n"
CONFIG: dict[str, Any] = {
    "path": ".",
    "train": "images/train",
    "val": "images/val",
    "kpt_shape": [3, 3],
    "flip_idx": [1, 0, 2],
    "names": {0: "bird", 1: "duck"},
    "kpt_names": {0: ["left_eye", "right_eye", "tail"], 1: ["left_eye", "right_eye", "tail"]},
}


def picture(path: Path, size: tuple[int, int] = (200, 100), orientation: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    Image.new("L", size).save(path, exif=exif)


def dataset(root: Path, lines: str = LINES, **changes: Any) -> Path:
    """images/train/a.jpg with two birds, images/val/b.jpg without a label file."""
    picture(root / "images/train/a.jpg")
    picture(root / "images/val/b.jpg", (50, 40))
    (root / "labels/train").mkdir(parents=True)
    (root / "labels/train/a.txt").write_text(lines)
    config = {key: value for key, value in (CONFIG | changes).items() if value is not None}
    (root / "data.yaml").write_text(yaml.safe_dump(config))
    return root


def read(path: Path, **options: Any) -> Instances:
    return FORMAT.read(path, Options(**options)).instances


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["", "data.yaml"])
def test_reads_a_dataset(tmp_path: Path, name: str) -> None:
    path = dataset(tmp_path) / name
    assert FORMAT.claims(path)
    found = read(path)
    assert found.skeleton == Skeleton(("left_eye", "right_eye", "tail"), (), ((0, 1),))
    assert found.images == (tmp_path / "images/train/a.jpg", tmp_path / "images/val/b.jpg")
    assert found.image_index.tolist() == [0, 0, 1]
    assert found.boxes[:2].tolist() == [[80, 10, 40, 60], [10, 5, 20, 10]]
    assert np.isnan(found.boxes[2]).all()
    # 0.0025 * 200 and 0.005 * 100 are the centre of the first pixel, which is at 0 here.
    assert found.keypoints[0].tolist() == [[49.5, 49.5], [51.5, 50], [0, 0]]
    assert found.keypoints[1].tolist() == [[0, 0], [0, 0], [19.5, 9.5]]
    assert found.visibility.tolist() == [[2, 1, 0], [2, 0, 2], [0, 0, 0]]
    assert found.classes == ("bird", "duck", "")
    assert found.splits == ("train", "val")
    assert found.ids == ("images/train/a.jpg#1", "images/train/a.jpg#2", "images/val/b.jpg#1")
    assert found.area[:2].tolist() == [2400, 200]


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_images_with_an_empty_label_file_show_nothing(tmp_path: Path, text: str) -> None:
    root = dataset(tmp_path)
    picture(root / "images/train/0.jpg")
    (root / "labels/train/0.txt").write_text(text)
    found = FORMAT.read(root, Options())
    assert found.instances.ids == ("images/train/a.jpg#1", "images/train/a.jpg#2", "images/val/b.jpg#1")
    assert found.instances.splits == ("train", "val")
    assert found.notes == ("data.yaml: 1 images with an empty label file show nothing and are left out.",)
    for name in ("train/a", "val/b"):
        (root / f"labels/{name}.txt").parent.mkdir(exist_ok=True)
        (root / f"labels/{name}.txt").write_text(text)
    assert "the label files of all its images are empty" in refusal(root)


def test_images_are_turned_as_their_exif_says(tmp_path: Path) -> None:
    dataset(tmp_path)
    picture(tmp_path / "images/train/a.jpg", (200, 100), orientation=6)  # shown as 100 x 200
    assert read(tmp_path).boxes[0].tolist() == [40, 20, 20, 120]


def test_two_numbers_a_keypoint(tmp_path: Path) -> None:
    """Without visibility, zeros and what is negative are not labelled."""
    dataset(tmp_path, "0 0.5 0.5 0.2 0.2 0.5 0.5 0 0 -0.005 0.2\n", kpt_shape=[3, 2])
    found = read(tmp_path)
    assert found.visibility[0].tolist() == [2, 0, 0]
    assert found.keypoints[0].tolist() == [[99.5, 49.5], [0, 0], [0, 0]]


def test_roboflow_layout(tmp_path: Path) -> None:
    """train/images beside train/labels, paths with ../, names as a list, and a test split that was not exported."""
    picture(tmp_path / "train/images/a.jpg")
    (tmp_path / "train/labels").mkdir()
    (tmp_path / "train/labels/a.txt").write_text(LINES)
    picture(tmp_path / "valid/images/b.jpg")
    config = {"train": "../train/images", "val": "../valid/images", "test": "../test/images", "nc": 2}
    config |= {"kpt_shape": [3, 3], "names": ["bird", "duck"]}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(config))
    found = FORMAT.read(tmp_path, Options())
    assert found.instances.splits == ("train", "val")
    assert found.instances.visibility[0].tolist() == [2, 1, 0]
    assert found.instances.skeleton is not None
    assert found.instances.skeleton.keypoints == ("keypoint_1", "keypoint_2", "keypoint_3")
    assert [note.split(": ", 1)[1] for note in found.notes] == [
        "names no keypoints; the 3 are numbered.",
        'test is "../test/images", which is not there; left out.',
    ]


def test_lists_of_images(tmp_path: Path) -> None:
    dataset(tmp_path, train="train.txt", val=["images/val"])
    (tmp_path / "train.txt").write_text("./images/train/a.jpg\n\n")
    assert read(tmp_path).splits == ("train", "val")
    (tmp_path / "train.txt").write_text("./images/train/a.jpg\nnowhere.jpg\n")
    assert refusal(tmp_path) == (
        f'{tmp_path / "train.txt"}: line 2: image "nowhere.jpg" does not exist. Pass --images DIR.'
    )


def test_one_folder_for_train_and_val_is_no_split(tmp_path: Path) -> None:
    dataset(tmp_path, val="images/train")
    found = FORMAT.read(tmp_path, Options())
    assert found.instances.splits == ()
    assert "1 images are in more than one of train, val and test" in found.notes[0]


def test_keypoints_option_and_images_option(tmp_path: Path) -> None:
    root = dataset(tmp_path / "set")
    elsewhere = tmp_path / "elsewhere"
    (root / "images").rename(elsewhere)
    assert "Pass --images DIR." in refusal(root)
    (elsewhere / "images").mkdir()
    for split in ("train", "val"):
        (elsewhere / split).rename(elsewhere / "images" / split)
    found = read(root, images=elsewhere, keypoints=("l", "r", "t"))
    assert found.skeleton == Skeleton(("l", "r", "t"), (), ((0, 1),))
    assert not found.labelled.any()  # labels/ belongs beside images/
    assert "kpt_shape has 3 keypoints, but 2 are named" in refusal(root, images=elsewhere, keypoints=("l", "r"))


GOOD = LINES.splitlines()[0]
BROKEN = {
    "too few": (GOOD[:-2], "line 1 has 13 numbers, kpt_shape [3, 3] asks for 14."),
    "second line": (GOOD + "\n\n1 2", "line 3 has 2 numbers"),
    "text": (GOOD.replace("0.25", "x"), "line 1: has something that is not a finite number."),
    "nan": (GOOD.replace("0.25", "nan"), "line 1: has something that is not a finite number."),
    "infinite": (GOOD.replace("0.25", "inf"), "line 1: has something that is not a finite number."),
    "class 2": ("2" + GOOD[1:], "line 1: its class is not one of 0 to 1, which the yaml names."),
    "class 0.5": ("0.5" + GOOD[1:], "line 1: its class is not one of 0 to 1"),
    "flat box": (GOOD.replace("0.2 0.6", "0 0.6"), "line 1: its box has no size."),
    "visibility 3": (GOOD.replace("0.5 2", "0.5 3"), "line 1: a keypoint's visibility is not 0, 1 or 2."),
    "pixels": (GOOD.replace("0.25 0.5", "50 50"), "line 1: a keypoint is outside the image."),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_lines(tmp_path: Path, case: str) -> None:
    lines, complaint = BROKEN[case]
    message = refusal(dataset(tmp_path, lines))
    assert message.startswith(f"{tmp_path / 'labels/train/a.txt'}: {complaint}")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kpt_shape": [3]}, "kpt_shape is [3], expected [number of keypoints, 2 or 3]."),
        ({"kpt_shape": [3, 4]}, "kpt_shape is [3, 4]"),
        ({"kpt_shape": "3, 3"}, "kpt_shape is 3, 3"),
        ({"kpt_names": ["a"]}, "kpt_shape has 3 keypoints, but 1 are named."),
        ({"kpt_names": ["a", "a", "b"]}, "keypoint names repeat"),
        ({"flip_idx": [0, 0, 1]}, "flip_idx is [0, 0, 1], expected each number from 0 to 2 once."),
        ({"names": None}, "names is not a list of classes."),
        ({"skeleton": [[0, 7]]}, "its skeleton is wrong (pair (0, 7) points outside the 3 keypoints)."),
        ({"sigmas": [0.1, -1, 0.1]}, 'its skeleton is wrong (sigma of "right_eye" is -1, expected a positive number).'),
        ({"kpt_names": ["a", "", "b"]}, "its skeleton is wrong (keypoint 2 has no name)."),
        ({"boxes_drawn": "yes"}, "boxes_drawn is yes, expected true, false or a list of image#line."),
        ({"boxes_drawn": [1]}, "boxes_drawn is [1], expected true, false or a list of image#line."),
        ({"train": "nowhere"}, 'train is "nowhere", which is not below'),
        ({"train": None, "val": None}, "no image is in its train, val and test."),
    ],
)
def test_broken_yaml(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    message = refusal(dataset(tmp_path, **changes) / "data.yaml")
    assert message.startswith(f"{tmp_path / 'data.yaml'}: ")
    assert complaint in message


def test_a_folder_whose_name_is_too_long(tmp_path: Path) -> None:
    """Found by benchmarks/fuzz.py."""
    assert "which is not below" in refusal(dataset(tmp_path, train="images" + 300 * "{"))


def test_more_keypoints_than_fit_into_memory(tmp_path: Path) -> None:
    """Found by benchmarks/fuzz.py."""
    assert "kpt_shape is [1000000000, 3]" in refusal(dataset(tmp_path, kpt_shape=[10**9, 3], kpt_names=None))


def test_a_whole_disk_is_no_folder_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by benchmarks/fuzz.py, as a yaml whose folder was /."""
    monkeypatch.setattr("placl.data.formats.yolo_yaml.STRANGERS", 10)
    dataset(tmp_path, train=".")
    assert len(read(tmp_path)) == 3
    for number in range(20):
        (tmp_path / f"{number}.dat").touch()
    assert "holds much else" in refusal(tmp_path)


def test_not_yaml(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text("a: [")
    assert "is not YAML" in refusal(tmp_path / "data.yaml")
    assert "data.yaml: is not YAML" in refusal(tmp_path)
    (tmp_path / "data.yaml").write_text("names: [bird]")
    assert "has no data.yaml with a kpt_shape" in refusal(tmp_path)
    assert not FORMAT.claims(tmp_path)
    assert not FORMAT.claims(tmp_path / "data.yaml")
    assert not FORMAT.claims(tmp_path / "nothing.yaml")


def same(a: Instances, b: Instances) -> None:
    assert a.skeleton == b.skeleton
    assert (a.ids, a.classes, a.splits) == (b.ids, b.classes, b.splits)
    for name in ("image_index", "boxes", "keypoints", "visibility", "area"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_round_trip_of_a_dataset(tmp_path: Path) -> None:
    first = read(dataset(tmp_path / "first", skeleton=[[0, 2]], sigmas=[0.1, 0.2, 0.3]))
    assert FORMAT.write is not None
    assert FORMAT.write(first, tmp_path / "second") == [tmp_path / "second/data.yaml"]
    same(first, read(tmp_path / "second"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]  # nothing half-written stays


@pytest.mark.parametrize(
    ("drawn", "written"),
    [
        ([True, True, False], True),  # all but the whole image
        ([False, True, False], ["images/train/a.jpg#2"]),
        ([False, False, False], None),
    ],
)
def test_drawn_boxes_stay_drawn(tmp_path: Path, drawn: list[bool], written: object) -> None:
    """A later training must not take them for boxes that were given."""
    first = replace(read(dataset(tmp_path / "first")), drawn=np.array(drawn))
    assert FORMAT.write is not None
    (file,) = FORMAT.write(first, tmp_path / "second")
    assert yaml.safe_load(file.read_text()).get("boxes_drawn") == written
    found = read(file)
    same(first, found)
    assert (found.drawn is None) == (written is None)
    if found.drawn is not None:
        assert found.drawn.tolist() == drawn


def test_drawn_boxes_that_are_gone(tmp_path: Path) -> None:
    root = dataset(tmp_path, boxes_drawn=["images/train/a.jpg#1", "images/train/gone.jpg#1"])
    found = FORMAT.read(root, Options())
    assert found.instances.drawn is not None
    assert found.instances.drawn.tolist() == [True, False, False]
    assert found.notes == ("data.yaml: boxes_drawn names 1 boxes that are not there, such as images/train/gone.jpg#1.",)
    assert read(dataset(tmp_path / "b", boxes_drawn=False)).drawn is None


def test_its_own_output_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    assert FORMAT.write is not None
    for name in ("a.png", "b.png"):
        picture(tmp_path / name)
    out = tmp_path / "out"
    FORMAT.write(one(tmp_path / "a.png"), out)
    (out / "runs").mkdir()
    FORMAT.write(one(tmp_path / "b.png", boxes=np.array([[3.0, 2, 3, 4]])), out)
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()) == [
        "data.yaml",
        "images/all/b.png",
        "labels/all/b.txt",
    ]
    assert (out / "runs").is_dir()
    assert read(out).boxes.tolist() == [[3, 2, 3, 4]]
    FORMAT.write(read(out), out)  # also from itself
    assert read(out).boxes.tolist() == [[3, 2, 3, 4]]
    assert (out / "images/all/b.png").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png", "out"]


@pytest.mark.parametrize("kept", ["images", "labels", "data.yaml"])
def test_what_others_made_is_not_replaced(tmp_path: Path, kept: str) -> None:
    assert FORMAT.write is not None
    picture(tmp_path / "a.png")
    root = dataset(tmp_path / "theirs")
    for name in {"images", "labels", "data.yaml"} - {kept}:
        (root / name).rename(tmp_path / name)
    with pytest.raises(InputError, match=f"has {kept} already, which was not written here"):
        FORMAT.write(one(tmp_path / "a.png"), root)
    assert [path.name for path in root.iterdir()] == [kept]


COORDINATES = st.integers(-32, 64 * 64 - 32).map(lambda n: n / 64)  # from corner to corner of 64 px


@st.composite
def instances(draw: st.DrawFn, images: tuple[Path, ...]) -> Instances:
    index = np.array(sorted(draw(st.lists(st.integers(0, len(images) - 1), min_size=1, max_size=6))))
    used, index = np.unique(index, return_inverse=True)
    n = len(index)
    visibility = np.array(draw(st.lists(st.integers(0, 2), min_size=2 * n, max_size=2 * n)), np.uint8).reshape(n, 2)
    points = np.array(draw(st.lists(COORDINATES, min_size=4 * n, max_size=4 * n)), np.float32).reshape(n, 2, 2)
    points[visibility == 0] = 0
    lows = draw(st.lists(st.integers(0, 40), min_size=2 * n, max_size=2 * n))
    sizes = draw(st.lists(st.integers(1, 48 * 64).map(lambda s: s / 64), min_size=2 * n, max_size=2 * n))
    boxes = np.concatenate([np.reshape(lows, (n, 2)), np.reshape(sizes, (n, 2))], axis=1)
    boxes[draw(st.lists(st.booleans(), min_size=n, max_size=n))] = np.nan
    split = draw(st.lists(st.sampled_from(["", "train", "val", "test"]), min_size=len(used), max_size=len(used)))
    return Instances(
        Skeleton(("left_a", "right_a"), ((0, 1),), ((0, 1),)),
        tuple(images[i] for i in used),
        index,
        boxes,
        points,
        visibility,
        (boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        tuple(map(str, range(n))),
        classes=tuple(draw(st.lists(st.sampled_from(["cat", "dog"]), min_size=n, max_size=n))),
        splits=tuple(split) if any(split) else (),
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    root = tmp_path_factory.mktemp("pictures")
    images = tuple(root / name for name in ("a.png", "b.jpg", "c.png"))
    for image in images:
        picture(image, (64, 64))
    return images


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_back(pictures: tuple[Path, ...], data: st.DataObject) -> None:
    given_ones = data.draw(instances(pictures))
    assert FORMAT.write is not None
    with TemporaryDirectory() as folder:
        (file,) = FORMAT.write(given_ones, Path(folder) / "set")
        found = read(file)
        # Splits come in the order of the yaml, so images are told by their names.
        rows = np.argsort([found.images[i].name for i in found.image_index], kind="stable")
        assert len(found) == len(given_ones)
        assert found.skeleton == given_ones.skeleton
        for name in ("boxes", "keypoints", "visibility", "area"):
            np.testing.assert_array_equal(getattr(found, name)[rows], getattr(given_ones, name), err_msg=name)
        split_of = dict(zip((i.name for i in given_ones.images), given_ones.splits, strict=False))
        for image, split in zip(found.images, found.splits, strict=False):
            assert split == split_of[image.name]
        alone = np.bincount(given_ones.image_index)[given_ones.image_index] == 1
        background = alone & np.isnan(given_ones.boxes[:, 0]) & ~given_ones.labelled
        expected = ["" if b else c for b, c in zip(background, given_ones.classes, strict=True)]
        assert [found.classes[i] for i in rows] == expected


def one(image: Path, **changes: Any) -> Instances:
    values: dict[str, Any] = {
        "skeleton": Skeleton(("a", "b")),
        "images": (image,),
        "image_index": np.zeros(1, np.int64),
        "boxes": np.array([[1.0, 2, 3, 4]]),
        "keypoints": np.array([[[1, 2], [3, 4]]], np.float32),
        "visibility": np.full((1, 2), 2, np.uint8),
        "area": np.full(1, 12, np.float32),
        "ids": ("x",),
    }
    return Instances(**(values | changes))


def test_images_that_would_share_a_label_file_are_told_apart(tmp_path: Path) -> None:
    assert FORMAT.write is not None
    for name in ("a.png", "a.jpg"):
        picture(tmp_path / "in" / name)
    both = one(tmp_path / "in/a.png")
    both = Instances(
        both.skeleton,
        (tmp_path / "in/a.png", tmp_path / "in/a.jpg"),
        np.arange(2),
        np.repeat(both.boxes, 2, 0),
        np.repeat(both.keypoints, 2, 0),
        np.repeat(both.visibility, 2, 0),
        np.repeat(both.area, 2, 0),
        ("x", "y"),
    )
    FORMAT.write(both, tmp_path / "out")
    assert read(tmp_path / "out").ids == ("images/all/a-2.jpg#1", "images/all/a.png#1")
    assert (tmp_path / "out/labels/all/a-2.txt").read_text() == (tmp_path / "out/labels/all/a.txt").read_text()


def test_what_ultralytics_would_refuse_is_not_written(tmp_path: Path) -> None:
    """A keypoint outside the image loses its label, a box around nothing is cut off at the border."""
    assert FORMAT.write is not None
    picture(tmp_path / "a.png")
    outside = one(
        tmp_path / "a.png",
        keypoints=np.array([[[-20, 2], [3, 4]]], np.float32),
        boxes=np.array([[-30.0, 10, 40, 20]]),
    )
    FORMAT.write(outside, tmp_path / "out")
    found = read(tmp_path / "out")
    assert found.visibility.tolist() == [[0, 2]]
    assert found.boxes.tolist() == [[0, 10, 10, 20]]


def test_the_writer_refuses(tmp_path: Path) -> None:
    assert FORMAT.write is not None
    picture(tmp_path / "a.png")
    with pytest.raises(InputError, match='is in split "holdout"; Ultralytics knows train, val, test only'):
        FORMAT.write(one(tmp_path / "a.png", splits=("holdout",)), tmp_path / "out")
    with pytest.raises(InputError, match=r"nowhere.png: does not exist"):
        FORMAT.write(one(tmp_path / "nowhere.png"), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
