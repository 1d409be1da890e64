"""The plain csv: what is written reads back the same, less than that is enough, and what is wrong is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placl.data.formats.coco import read_coco
from placl.data.formats.format import Options
from placl.data.formats.table import FORMAT, read_table, write_table
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

FIELDS = ("image_index", "boxes", "keypoints", "visibility", "area", "head_length", "drawn")


def read(path: Path) -> Instances:
    return read_table(path, Options()).instances


def table(folder: Path, content: str, images: tuple[str, ...] = ("a.png", "b.png")) -> Path:
    for name in images:
        (folder / name).touch()
    path = folder / "labels.csv"
    path.write_text(content)
    return path


def assert_same(found: Instances, expected: Instances) -> None:
    for name in ("skeleton", "images", "ids", "classes", "splits"):
        assert getattr(found, name) == getattr(expected, name), name
    for name in FIELDS:
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype, name
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name


number = st.floats(-1e6, 1e6, width=32)
WORD = st.text("aé#,\"' _x@1", min_size=1, max_size=6)


@st.composite
def instances_in(draw: st.DrawFn, root: Path) -> Instances:
    n = draw(st.integers(1, 4))
    names = tuple(draw(st.lists(WORD.map(lambda w: f"k{w}k"), min_size=0, max_size=3, unique=True)))
    k = len(names)

    def array(elements: st.SearchStrategy[float], *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(elements, min_size=size, max_size=size))).reshape(shape)

    visibility = array(st.integers(0, 2), n, k).astype(np.uint8)
    boxes = np.concatenate([array(st.floats(-1e6, 1e6), n, 2), array(st.floats(0.1, 1e6), n, 2)], axis=1)
    area = array(st.floats(0, 1e6, width=32), n).astype(np.float32)
    whole = array(st.booleans(), n).astype(bool)
    boxes[whole], area[whole] = np.nan, np.nan
    return Instances(
        skeleton=Skeleton(names, (), flip_pairs_by_name(names)) if names else None,
        images=tuple(root / f"img {i},.png" for i in range(n)),
        image_index=np.sort(np.concatenate([np.arange(n)[: n - 1], [0]])).astype(np.int64) if n > 1 else np.array([0]),
        boxes=boxes,
        keypoints=np.where(visibility[..., None] > 0, array(number, n, k, 2), 0).astype(np.float32),
        visibility=visibility,
        area=area,
        ids=tuple(draw(st.lists(WORD, min_size=n, max_size=n, unique=True))),
        head_length=draw(st.none() | st.just(np.linspace(0.1, 3, n).astype(np.float32))),
        classes=draw(st.sampled_from([(), ("bird",) * n])),
        splits=draw(st.sampled_from([(), ("train",) * n])),
        drawn=draw(st.none() | st.just(~whole)),
    ).take(np.arange(n))  # which leaves out the image that nothing is on


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_what_is_written_reads_back_the_same(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("set")
    first = data.draw(instances_in(root / "images"))
    (root / "images").mkdir()
    for image in first.images:
        image.touch()
    (file,) = write_table(first, root / "out/labels.csv")
    assert FORMAT.claims(file)
    assert_same(read(file), first)


def test_the_layout(tmp_path: Path) -> None:
    path = tmp_path / "images" / "a.png"
    path.parent.mkdir()
    path.touch()
    instances = Instances(
        skeleton=Skeleton(("left_eye", "right_eye"), ((0, 1),), ((0, 1),)),
        images=(path,),
        image_index=np.array([0, 0]),
        boxes=np.array([[1, 2, 3.5, 4], [np.nan] * 4]),
        keypoints=np.array([[[1.1, 2], [0, 0]], [[3, 4], [5, 6]]], np.float32),
        visibility=np.array([[2, 0], [1, 2]], np.uint8),
        area=np.array([14, np.nan], np.float32),
        ids=("a.png#1", "a.png#2"),
        classes=("cat", "dog"),
        splits=("val",),
    )
    assert write_table(instances, tmp_path / "out") == [tmp_path / "out/annotations.csv"]
    assert (tmp_path / "out/annotations.csv").read_text().splitlines() == [
        "image,id,class,split,x,y,width,height,area,"
        "left_eye_x,left_eye_y,left_eye_v,right_eye_x,right_eye_y,right_eye_v",
        "../images/a.png,a.png#1,cat,val,1.0,2.0,3.5,4.0,14.0,1.1,2.0,2,,,0",
        "../images/a.png,a.png#2,dog,val,,,,,,3.0,4.0,1,5.0,6.0,2",
    ]
    back = read(tmp_path / "out/annotations.csv")
    assert back.skeleton == replace(instances.skeleton, edges=())  # edges are lost, pairs found by name
    assert_same(replace(back, skeleton=instances.skeleton), instances)


def test_a_table_from_elsewhere_may_say_less(tmp_path: Path) -> None:
    path = table(tmp_path, "\ufeffimage, nose_x,nose_y\nb.png,1,2\n\na.png,,\na.png,3,4.5\n")
    assert FORMAT.claims(path)
    instances = read(path)
    assert instances.images == (tmp_path / "b.png", tmp_path / "a.png")
    assert instances.image_index.tolist() == [0, 1, 1]
    assert instances.ids == ("b.png#1", "a.png#2", "a.png#3")
    assert instances.visibility.tolist() == [[2], [0], [2]]
    assert instances.keypoints.tolist() == [[[1, 2]], [[0, 0]], [[3, 4.5]]]
    assert np.isnan(instances.boxes).all()
    assert instances.classes == instances.splits == ()


def test_keypoints_are_renamed_and_images_found(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    path = table(tmp_path, "image,nose_x,nose_y\nc.png,1,2\n", images=("photos/c.png",))
    found = read_table(path, Options(images=tmp_path / "photos", keypoints=("beak",))).instances
    assert found.skeleton == Skeleton(("beak",))
    assert found.images == (tmp_path / "photos/c.png",)
    with pytest.raises(InputError, match="has 1 keypoints, --keypoints names 2"):
        read_table(path, Options(images=tmp_path / "photos", keypoints=("a", "b")))


HEAD = "image,id,split,x,y,width,height,area,n_x,n_y,n_v\n"
BROKEN = {
    "empty": ("", "is empty"),
    "header alone": (HEAD, "has no rows below its header"),
    "cut off": (HEAD + "a.png,1,,0,0", "line 2 has 5 cells, the first has 11"),
    "unknown column": ("image,nose\na.png,1\n", 'column "nose" is not known'),
    "column twice": ("image,n_x,n_y,n_y\n", 'has two columns "n_y"'),
    "no image column": ("id,n_x,n_y\n", 'column "image" is missing'),
    "no y": ("image,n_x\n", 'column "n_y" is missing'),
    "half a box": ("image,x,y\na.png,1,2\n", 'column "width" is missing'),
    "text": (HEAD + "a.png,1,,0,0,5,5,,one,2,2\n", 'line 2 (a.png): "one" is not a number'),
    "infinite": (HEAD + "a.png,1,,0,0,5,5,,inf,2,2\n", 'line 2: "n_x" is not finite'),
    "huge": (HEAD + "a.png,1,,0,0,5,5,,1e300,2,2\n", "beyond every image"),
    "one coordinate": (HEAD + "a.png,1,,0,0,5,5,,1,,\n", 'line 2: keypoint "n" lacks a coordinate'),
    "visible nowhere": (HEAD + "a.png,1,,0,0,5,5,,,,2\n", 'line 2: keypoint "n" lacks a coordinate'),
    "visibility": (HEAD + "a.png,1,,0,0,5,5,,1,2,3\n", 'keypoint "n" has visibility 3, expected 0, 1 or 2'),
    "box without size": (HEAD + "a.png,1,,0,0,5,0,,1,2,2\n", "line 2: its box is not whole or has no size"),
    "box not whole": (HEAD + "a.png,1,,0,0,5,,,1,2,2\n", "line 2: its box is not whole or has no size"),
    "area": (HEAD + "a.png,1,,0,0,5,5,-1,1,2,2\n", "line 2: its area -1 is negative"),
    "missing image": (HEAD + "c.png,1,,0,0,5,5,,1,2,2\n", 'line 2: image "c.png" does not exist under'),
    "no name": (HEAD + ",1,,0,0,5,5,,1,2,2\n", "line 2 names no image"),
    "id twice": (HEAD + "a.png,1,,0,0,5,5,,1,2,2\n" * 2, 'line 3: id "1" occurs twice'),
    "two splits": (
        HEAD + "a.png,1,train,0,0,5,5,,1,2,2\na.png,2,val,0,0,5,5,,1,2,2\n",
        'line 3: its image is in split "train" above and "val" here',
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_table(tmp_path: Path, case: str) -> None:
    content, complaint = BROKEN[case]
    path = table(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert complaint in message
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


def test_two_names_that_lead_to_one_image(tmp_path: Path) -> None:
    path = table(tmp_path, "image,p_x,p_y\na/a.png,1,2\nb/a.png,3,4\n")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f'{path}: line 3: "a/a.png" and "b/a.png" both lead to {tmp_path / "a.png"}. Pass --images DIR.'
    )
    path = table(tmp_path, "image,p_x,p_y\na.png,1,2\n./a.png,3,4\na.png,5,6\n")  # one name, however it is spelt
    assert len(read(path).images) == 1


def test_a_keypoint_without_a_name(tmp_path: Path) -> None:
    path = table(tmp_path, "image,_x,_y\na.png,1,2\n")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: keypoint 1 has no name."


def test_claims_only_its_own(tmp_path: Path) -> None:
    for content in ("", "image,label\na.png,cat\n", "scorer,A,A\nbodyparts,a,a\ncoords,x,y\n", "image,id\n"):
        assert not FORMAT.claims(table(tmp_path, content))
    (tmp_path / "labels.csv").write_bytes(b"\xff\xfe\x00")
    assert not FORMAT.claims(tmp_path / "labels.csv")
    assert not FORMAT.claims(tmp_path)
    assert not FORMAT.claims(tmp_path / "nowhere.csv")


@pytest.mark.realdata
def test_coco_by_way_of_csv(shared: Path, tmp_path: Path) -> None:
    instances = read_coco(shared / "formats/ap10k/test_ap10k.json")
    (file,) = write_table(instances, tmp_path / "labels.csv")
    back = read(file)
    assert back.skeleton is not None
    assert instances.skeleton is not None
    assert back.skeleton.keypoints == instances.skeleton.keypoints
    assert [image.resolve() for image in back.images] == [image.resolve() for image in instances.images]
    assert_same(replace(back, skeleton=instances.skeleton, images=instances.images), instances)
