"""MPII: the json lists of HRNet and mmpose, and a MATLAB release written here in the layout of the official one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st

from placl.data.formats import coco
from placl.data.formats.format import Options
from placl.data.formats.mpii import FORMAT, NAMES, SKELETON, boxes_of, read_mpii
from placl.errors import InputError

Json = dict[str, Any]
EMPTY = np.zeros((0, 0))  # MATLAB's []


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def refusal(path: Path, options: Options | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_mpii(path, options or Options())
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---- json lists


def persons() -> list[Json]:
    """Two people in one image and one in another; the joint k of person i is at (100 i + k, 50 + k)."""

    def person(i: int, image: str) -> Json:
        joints = [[100.0 * i + k, 50.0 + k] for k in range(16)]
        return {"joints_vis": [1] * 16, "joints": joints, "image": image, "scale": 1.5, "center": [100.0 * i + 8, 60.0]}

    found = [person(1, "a.jpg"), person(2, "a.jpg"), person(3, "b.jpg")]
    found[1]["joints"][:2], found[1]["joints_vis"][:2] = [[-1.0, -1.0], [0.0, 0.0]], [0, 0]
    return found


def write_list(folder: Path, data: object, name: str = "train.json") -> Path:
    """As HRNet lays it out: annot/train.json beside images/."""
    touch(folder / "images", "a.jpg", "b.jpg")
    (folder / "annot").mkdir(exist_ok=True)
    path = folder / "annot" / name
    path.write_text(json.dumps(data))
    return path


def test_a_list_counts_from_one(tmp_path: Path) -> None:
    path = write_list(tmp_path, persons())
    found = read_mpii(path, Options())
    instances = found.instances
    assert instances.skeleton == SKELETON
    assert instances.images == (tmp_path / "images/a.jpg", tmp_path / "images/b.jpg")
    assert instances.image_index.tolist() == [0, 0, 1]
    assert instances.keypoints[0, 3].tolist() == [102, 52]
    assert instances.visibility.tolist() == [[2] * 16, [0, 0] + [2] * 14, [2] * 16]
    assert instances.keypoints[1, :2].tolist() == [[0, 0], [0, 0]]  # what is not labelled is zero
    assert instances.ids == ("a.jpg#0", "a.jpg#1", "b.jpg#2")
    assert instances.head_length is None
    assert instances.classes == ("person",) * 3
    assert instances.drawn is not None
    assert not instances.drawn.any()
    assert found.notes == ()


def test_the_box_is_the_square_of_a_persons_height(tmp_path: Path) -> None:
    """Of the first person: 300 px around (108 - 1, 60 + 15 * 1.5 - 1)."""
    box = read_mpii(write_list(tmp_path, persons()), Options()).instances.boxes[0]
    assert box.tolist() == [107 + 0.5 - 150, 81.5 + 0.5 - 150, 300, 300]


@given(x=st.floats(1, 2000), y=st.floats(1, 2000), scale=st.floats(0.01, 20))
def test_a_crop_of_the_box_is_hrnets(x: float, y: float, scale: float) -> None:
    """HRNet's own steps: move the centre down, grow the scale, count from 0."""
    box = boxes_of(np.array([[x, y, scale]]))[0]
    centre = box[:2] + box[2:] / 2 - 0.5
    assert centre == pytest.approx([x - 1, y + 15 * scale - 1], abs=1e-6)
    assert 1.25 * box[2:] == pytest.approx([200 * 1.25 * scale] * 2)


def test_without_a_place_the_box_is_drawn_around_the_joints(tmp_path: Path) -> None:
    data = persons()
    data[0]["center"] = [-1, -1]
    data[2] |= {"scale": -1, "joints_vis": [0] * 16}
    instances = read_mpii(write_list(tmp_path, data), Options()).instances
    assert instances.drawn is not None
    assert instances.drawn.tolist() == [True, False, False]
    assert instances.boxes[0].tolist() == [99, 49, 16, 16]
    assert np.isnan(instances.boxes[2]).all()
    assert instances.labelled.tolist() == [True, True, False]


def test_the_test_set_has_no_joints(tmp_path: Path) -> None:
    data = [{key: value for key, value in person.items() if "joints" not in key} for person in persons()]
    path = write_list(tmp_path, data, "test.json")
    assert FORMAT.claims(path)
    instances = read_mpii(path, Options()).instances
    assert not instances.labelled.any()
    assert instances.boxes[0, 2] == 300


@pytest.mark.parametrize(("name", "beside"), [("valid.json", "gt_valid.mat"), ("mpii_val.json", "mpii_gt_val.mat")])
def test_head_sizes_stand_in_a_file_beside(tmp_path: Path, name: str, beside: str) -> None:
    path = write_list(tmp_path, persons(), name)
    corners = np.zeros((2, 2, 3))  # corner, x or y, person
    corners[0] = [[10], [20]]
    corners[1] = [[40, 10, 16], [60, 20, 28]]
    scipy.io.savemat(path.with_name(beside), {"headboxes_src": corners})
    found = read_mpii(path, Options())
    assert found.instances.head_length is not None
    assert found.instances.head_length.tolist() == pytest.approx([30, np.nan, 6], nan_ok=True)  # 0.6 of 50, 0 and 10
    assert not FORMAT.claims(path.with_name(beside))
    scipy.io.savemat(path.with_name(beside), {"headboxes_src": corners[..., :2]})
    found = read_mpii(path, Options())
    assert found.instances.head_length is None
    assert "its head boxes are not those of the 3 people" in found.notes[0]


def test_lists_are_claimed_and_other_json_is_not(tmp_path: Path) -> None:
    path = write_list(tmp_path, persons())
    assert FORMAT.claims(path)
    assert not coco.FORMAT.claims(path)
    assert not FORMAT.claims(tmp_path)
    for text in ("", "[", "[]", "[3]", '{"joints": [], "image": "a.jpg"}', '[{"image": "a.jpg"}]', '[{"joints": []}]'):
        path.write_text(text)
        assert not FORMAT.claims(path)


def test_images_elsewhere_and_other_names(tmp_path: Path) -> None:
    path = write_list(tmp_path, persons())
    (tmp_path / "images").rename(tmp_path / "pictures")
    assert 'train.json: person 0: image "a.jpg" does not exist under' in refusal(path)
    names = tuple(f"k{i}" for i in range(16))
    instances = read_mpii(path, Options(images=tmp_path / "pictures", keypoints=names)).instances
    assert instances.images[1] == tmp_path / "pictures/b.jpg"
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == names
    (tmp_path / "pictures/b.jpg").unlink()
    assert 'person 2: image "b.jpg" does not exist' in refusal(path, Options(images=tmp_path / "pictures"))


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("joints", [[1, 2]] * 15, 'person 1: "joints" is not 16 x 2 numbers'),
        ("joints", [["1", 2]] * 16, 'person 1: "joints" is not 16 x 2 numbers'),
        ("joints", [[float("nan"), 2]] * 16, 'person 1: "joints" holds a number that is not finite'),
        ("joints_vis", [1] * 15, 'person 1: "joints_vis" is not 16 numbers'),
        ("joints_vis", [1] * 15 + [2], 'person 1: "joints_vis" of left_wrist is 2, expected 0 or 1'),
        ("center", [1], 'person 1: "center" is not 2 numbers'),
        ("center", [1, float("inf")], 'person 1: "center" holds a number that is not finite'),
        ("scale", "big", 'person 1: "scale" is not a number'),
        ("scale", None, 'person 1: "scale" is not a number'),
        ("image", 3, 'person 1 is not an object with an "image"'),
    ],
)
def test_a_broken_person_is_named(tmp_path: Path, key: str, value: object, complaint: str) -> None:
    data = persons()
    data[1][key] = value
    assert complaint in refusal(write_list(tmp_path, data))


def test_two_names_that_lead_to_one_image(tmp_path: Path) -> None:
    data = persons()
    for person, name in zip(data, ("x/a.jpg", "x/a.jpg", "y/a.jpg"), strict=True):
        person["image"] = name
    path = write_list(tmp_path, data)
    assert refusal(path) == (
        f'{path}: "x/a.jpg" and "y/a.jpg" both lead to {tmp_path / "images/a.jpg"}. Pass --images DIR.'
    )
    images = annolist()
    images[0]["image"]["name"], images[2]["image"]["name"] = "x/a.jpg", "y/a.jpg"
    release = write_release(tmp_path / "release", images, [1] * len(images))
    assert '"x/a.jpg" and "y/a.jpg" both lead to' in refusal(release)


def test_truncated_and_empty_lists(tmp_path: Path) -> None:
    path = write_list(tmp_path, persons())
    path.write_text(path.read_text()[:300])
    assert "is not JSON" in refusal(path)
    path.write_text("[]")
    assert "is not a list of people, or an empty one" in refusal(path)
    path.write_text('["x"]')
    assert 'person 0 is not an object with an "image"' in refusal(path)


def test_left_mirrors_right() -> None:
    mirrored = [NAMES[k] for k in SKELETON.flip_order]
    swap = {"left": "right", "right": "left"}
    assert mirrored == ["_".join(swap.get(word, word) for word in name.split("_")) for name in NAMES]


# ---- the MATLAB release


def structs(records: list[Json]) -> np.ndarray:
    """A 1 x n structure array, as savemat writes one."""
    array = np.empty((1, len(records)), dtype=[(key, object) for key in records[0]])
    for i, record in enumerate(records):
        array[0, i] = tuple(record.values())
    return array


def points(*rows: tuple[float, float, int, object]) -> Json:
    return {"point": structs([{"x": x, "y": y, "id": k, "is_visible": visible} for x, y, k, visible in rows])}


def rect(**values: Any) -> Json:
    """A person as annorect has one; fields that nobody filled are [], as in MATLAB."""
    blank = dict.fromkeys(("x1", "y1", "x2", "y2", "annopoints", "scale", "objpos"), EMPTY)
    return blank | values


def annolist() -> list[Json]:
    first = rect(
        x1=11.0, y1=21.0, x2=41.0, y2=61.0, scale=2.0, objpos={"x": 101.0, "y": 201.0},
        annopoints=points((101, 202, 0, 1), (103, 204, 1, "0"), (105.5, 206, 9, EMPTY), (107, 208, 15, "1")),
    )  # fmt: skip
    second = rect(scale=1.0, objpos={"x": 51.0, "y": 52.0})  # nobody labelled this one
    nowhere = rect(x1=1.0, y1=2.0, x2=3.0, y2=4.0)  # a head and nothing else
    lone = rect(annopoints=points((5, 6, 3, 0), (15, 26, 4, 1)))  # joints and no position
    return [
        {"image": {"name": "a.jpg"}, "annorect": structs([first, second, nowhere]), "vididx": 1.0},
        {"image": {"name": "b.jpg"}, "annorect": EMPTY, "vididx": EMPTY},
        {"image": {"name": "c.jpg"}, "annorect": lone, "vididx": EMPTY},
        {"image": {"name": "d.jpg"}, "annorect": {"scale": 3.0, "objpos": {"x": 7, "y": 8}}, "vididx": EMPTY},
    ]


def write_release(folder: Path, images: list[Json], training: list[int], files: str = "acd") -> Path:
    touch(folder / "images", *(f"{name}.jpg" for name in files))
    single = np.empty((len(images), 1), object)
    single[:] = [[EMPTY]] * len(images)
    release = {"annolist": structs(images), "img_train": [training], "version": "12", "single_person": single}
    path = folder / "mpii_human_pose_v1_u12_1.mat"
    scipy.io.savemat(path, {"RELEASE": release}, do_compression=True)
    return path


def test_the_release(tmp_path: Path) -> None:
    path = write_release(tmp_path, annolist(), [1, 1, 1, 0])
    found = read_mpii(tmp_path, Options())
    instances = found.instances
    assert instances.ids == ("a.jpg#1.1", "a.jpg#1.2", "c.jpg#3.1", "d.jpg#4.1")
    assert instances.images == tuple(tmp_path / "images" / name for name in ("a.jpg", "c.jpg", "d.jpg"))
    assert instances.image_index.tolist() == [0, 0, 1, 2]
    assert instances.splits == ("train", "train", "test")
    assert instances.labelled.tolist() == [True, False, True, False]
    assert instances.visibility[0].tolist() == [2, 1] + [0] * 7 + [2] + [0] * 5 + [2]
    assert instances.keypoints[0, [0, 1, 9, 15]].tolist() == [[100, 201], [102, 203], [104.5, 205], [106, 207]]
    assert instances.visibility[2].tolist() == [0, 0, 0, 1, 2] + [0] * 11
    assert instances.boxes[0].tolist() == [100.5 - 200, 200 + 30 + 0.5 - 200, 400, 400]
    assert instances.boxes[2].tolist() == [4, 5, 11, 21]  # drawn: no position
    assert instances.drawn is not None
    assert instances.drawn.tolist() == [False, False, True, False]
    assert instances.head_length is not None
    assert instances.head_length.tolist() == pytest.approx([30, np.nan, np.nan, np.nan], nan_ok=True)  # 0.6 of 30 x 40
    assert found.notes == (f"{path}: 1 of 4 images have nobody with a position or joints; left out.",)


def test_images_of_the_release_may_be_missing_but_not_all(tmp_path: Path) -> None:
    path = write_release(tmp_path, annolist(), [1, 1, 1, 0], files="c")
    found = read_mpii(path, Options())
    assert found.instances.ids == ("c.jpg#3.1",)
    assert found.notes[0] == f"{path}: 2 of 3 images are missing and left out."
    (tmp_path / "images/c.jpg").unlink()
    assert 'none of its 3 images, such as "a.jpg", is under' in refusal(path)


def test_the_release_is_claimed_by_file_and_folder(tmp_path: Path) -> None:
    path = write_release(tmp_path / "mpii_human_pose_v1_u12_2", annolist(), [1, 1, 1, 0], files="")
    touch(tmp_path / "images", "a.jpg")
    assert FORMAT.claims(path)
    assert FORMAT.claims(path.parent)
    assert FORMAT.claims(tmp_path)
    assert read_mpii(tmp_path, Options()).instances.images == (tmp_path / "images/a.jpg",)
    scipy.io.savemat(tmp_path / "other.mat", {"joints": np.zeros(3)})
    (tmp_path / "broken.mat").write_bytes(path.read_bytes()[:150])
    for name in ("other.mat", "broken.mat", "images", "nowhere"):
        assert not FORMAT.claims(tmp_path / name)


def test_one_image_and_one_person(tmp_path: Path) -> None:
    """MATLAB does not tell one structure from an array of one."""
    person = rect(scale=1.0, objpos={"x": 5.0, "y": 6.0}, annopoints=points((3, 4, 2, EMPTY)))
    path = write_release(tmp_path, [{"image": {"name": "a.jpg"}, "annorect": person}], [1])
    instances = read_mpii(path, Options()).instances
    assert instances.ids == ("a.jpg#1.1",)
    assert instances.keypoints[0, 2].tolist() == [2, 3]
    assert instances.head_length is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"annopoints": points((1, 2, 16, 1))}, "annolist(3).annorect(1): a joint has id 16, expected 0 to 15"),
        ({"annopoints": points((1, np.inf, 2, 1))}, 'annolist(3).annorect(1): "y" is not finite'),
        ({"annopoints": points((1, np.nan, 2, 1))}, "annolist(3).annorect(1): right_hip has no x or y"),
        ({"annopoints": points((1, 2, EMPTY, 1))}, "annolist(3).annorect(1): a joint has id nan, expected 0 to 15"),
        ({"annopoints": points((1, EMPTY, 2, 1))}, "annolist(3).annorect(1): right_hip has no x or y"),
        ({"annopoints": points((1, 2, 2, "maybe"))}, 'annolist(3).annorect(1): "is_visible" is not a number'),
        ({"scale": np.inf}, 'annolist(3).annorect(1): "scale" is not finite'),
        ({"x1": "left"}, 'annolist(3).annorect(1): "x1" is not a number'),
        ({"x1": [1.0, 2.0]}, 'annolist(3).annorect(1): "x1" is not a number'),
    ],
)
def test_a_broken_person_of_the_release_is_named(tmp_path: Path, change: Json, complaint: str) -> None:
    images = annolist()
    images[2]["annorect"] = images[2]["annorect"] | change
    assert complaint in refusal(write_release(tmp_path, images, [1, 1, 1, 0]))


def test_broken_releases(tmp_path: Path) -> None:
    path = write_release(tmp_path, annolist(), [1, 1])
    assert "annolist has 4 images, img_train 2" in refusal(path)
    path = write_release(tmp_path, [annolist()[1]], [1])
    assert "nobody in it has a position or joints" in refusal(path)
    path = write_release(tmp_path, [{"image": EMPTY, "annorect": EMPTY}], [1])
    assert "annolist(1) has no image name" in refusal(path)
    path.write_bytes(path.read_bytes()[:300])
    assert "is not a MATLAB file that can be read" in refusal(path)
    scipy.io.savemat(path, {"RELEASE": 3.0})
    assert "annolist has 0 images" in refusal(path)
    scipy.io.savemat(path, {"other": 3.0})
    assert 'has no variable "RELEASE"' in refusal(path)
    assert "mpii_human_pose_v1_u12_1.mat: is not a MATLAB file" in refusal(touched(tmp_path / "empty"))


def touched(folder: Path) -> Path:
    touch(folder)
    return folder


@pytest.mark.realdata
def test_a_list_as_mmpose_ships_it(shared: Path) -> None:
    path = shared / "formats" / "mpii" / "test_mpii.json"
    instances = read_mpii(path, Options()).instances
    assert len(instances) == 5
    assert instances.keypoints[0, 0].tolist() == [803, 710]
    assert instances.visibility.sum(axis=1).tolist() == [32, 32, 28, 28, 32]
    assert instances.boxes[0, 2] == pytest.approx(943.6976)
    centre = (instances.boxes[:, :2] + instances.boxes[:, 2:] / 2 - 0.5)[:, None]
    away = np.abs(instances.keypoints - centre).max(axis=2) / instances.boxes[:, 2:3]  # in sides of the box
    assert away[instances.visibility > 0].max() < 0.625  # all joints are in the crop of 1.25 boxes
    assert not FORMAT.claims(path.with_name("test_mpii_trb.json"))
