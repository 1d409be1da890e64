"""The COCO reader: what it reads, and what it says about every kind of broken file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placl.data.formats.coco import FORMAT, coco_skeleton, read_boxes, read_coco
from placl.data.formats.format import Options
from placl.data.skeleton import COCO_SIGMAS
from placl.errors import InputError

SHARED = Path(__file__).resolve().parents[3] / ".." / "shared" / "formats"
Json = dict[str, Any]


def bird_file() -> Json:
    """Two images; three birds, of which the last is unlabelled."""
    category = {"id": 5, "name": "bird", "keypoints": ["left_eye", "right_eye", "tail"], "skeleton": [[1, 2], [2, 3]]}
    return {
        "images": [{"id": 17, "file_name": "images/a.jpg"}, {"id": 18, "file_name": "images/b.jpg"}],
        "categories": [category],
        "annotations": [
            {
                "id": 1,
                "image_id": 17,
                "category_id": 5,
                "bbox": [10, 20, 30, 40.5],
                "area": 700,
                "keypoints": [11, 21, 2, 12.5, 22, 1, 9, 9, 0],
            },
            {"id": 2, "image_id": 18, "category_id": 5, "bbox": [0, 0, 8, 8], "keypoints": [1, 2, 2, 3, 4, 2, 5, 6, 2]},
            {"id": 3, "image_id": 17, "category_id": 5, "bbox": [5, 5, 6, 7]},
        ],
    }


def write(folder: Path, data: object, images: tuple[str, ...] = ("images/a.jpg", "images/b.jpg")) -> Path:
    for name in images:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    path = folder / "ann.json"
    path.write_text(json.dumps(data))
    return path


def refusal(path: Path, **options: Any) -> str:
    """The one line that the user gets."""
    with pytest.raises(InputError) as caught:
        read_coco(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 2
    return message


def test_reads_boxes_keypoints_and_ids(tmp_path: Path) -> None:
    path = write(tmp_path, bird_file())
    instances = read_coco(path)
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == ("left_eye", "right_eye", "tail")
    assert instances.skeleton.edges == ((0, 1), (1, 2))
    assert instances.skeleton.flip_pairs == ((0, 1),)
    assert instances.images == (tmp_path / "images/a.jpg", tmp_path / "images/b.jpg")
    assert instances.image_index.tolist() == [0, 1, 0]
    assert instances.boxes.tolist() == [[10, 20, 30, 40.5], [0, 0, 8, 8], [5, 5, 6, 7]]
    assert instances.visibility.tolist() == [[2, 1, 0], [2, 2, 2], [0, 0, 0]]
    assert instances.keypoints[0].tolist() == [[11, 21], [12.5, 22], [0, 0]]  # what is not labelled is zero
    assert instances.area.tolist() == [700, 64, 42]
    assert instances.ids == ("images/a.jpg#1", "images/b.jpg#2", "images/a.jpg#3")
    assert instances.labelled.tolist() == [True, True, False]
    assert instances.sources == (str(path), str(path))
    dtypes = [a.dtype for a in (instances.boxes, instances.keypoints, instances.visibility, instances.area)]
    assert dtypes == [np.float64, np.float32, np.uint8, np.float32]


def test_crowds_and_images_without_annotations_are_no_instances(tmp_path: Path) -> None:
    data = bird_file()
    data["annotations"][0] |= {"iscrowd": 1, "bbox": None, "keypoints": "run lengths"}
    data["images"].append({"id": 19, "file_name": "nowhere.jpg"})
    assert read_coco(write(tmp_path, data)).ids == ("images/b.jpg#2", "images/a.jpg#3")


def test_missing_box_is_drawn_around_labelled_keypoints(tmp_path: Path) -> None:
    data = bird_file()
    del data["annotations"][0]["bbox"]
    instances = read_coco(write(tmp_path, data))
    assert instances.boxes[0].tolist() == [11, 21, 2.5, 2]  # whole pixels: the centre is at (11.75, 21.5)


def test_categories_may_share_their_keypoints(tmp_path: Path) -> None:
    data = bird_file()
    data["categories"].append(data["categories"][0] | {"id": 6, "name": "duck", "skeleton": []})
    data["annotations"][1]["category_id"] = 6
    skeleton = read_coco(write(tmp_path, data)).skeleton
    assert skeleton is not None
    assert skeleton.edges == ((0, 1), (1, 2))


def test_edges_of_other_keypoints_are_left_out_with_a_note(tmp_path: Path) -> None:
    data = bird_file()
    assert FORMAT.read(write(tmp_path, data), Options()).notes == ()
    data["categories"][0]["skeleton"] = [[1, 2], [16, 17]]  # CrowdPose ships COCO's
    found = FORMAT.read(write(tmp_path, data), Options())
    assert found.instances.skeleton is not None
    assert found.instances.skeleton.edges == ()
    assert len(found.notes) == 1
    assert "its skeleton is of other keypoints than it names" in found.notes[0]


def test_boxes_alone_need_no_skeleton(tmp_path: Path) -> None:
    data = bird_file()
    del data["categories"][0]["keypoints"]
    for annotation in data["annotations"]:
        annotation.pop("keypoints", None)
    instances = read_coco(write(tmp_path, data))
    assert instances.skeleton is None
    assert len(instances) == 3


def test_keypoints_option_names_what_the_file_does_not(tmp_path: Path) -> None:
    data = bird_file()
    data["categories"][0]["keypoints"] = []
    path = write(tmp_path, data)
    nameless = read_coco(path).skeleton
    assert nameless is not None
    assert nameless.keypoints == ("keypoint_1", "keypoint_2", "keypoint_3")
    (note,) = FORMAT.read(path, Options()).notes
    assert "names no keypoints; the 3 are numbered. Nothing tells left from right: set augment.flip=0." in note
    skeleton = read_coco(path, keypoints=("a", "b", "c")).skeleton
    assert skeleton is not None
    assert skeleton.keypoints == ("a", "b", "c")
    assert skeleton.edges == ()


def test_the_key_filename_of_atrw_will_do(tmp_path: Path) -> None:
    data = bird_file()
    expected = read_coco(write(tmp_path, data))
    for image in data["images"]:
        image["filename"] = image.pop("file_name")
    assert read_coco(write(tmp_path, data)).ids == expected.ids


def test_keypoints_option_keeps_edges_when_it_renames(tmp_path: Path) -> None:
    skeleton = read_coco(write(tmp_path, bird_file()), keypoints=("l", "r", "t")).skeleton
    assert skeleton is not None
    assert skeleton.edges == ((0, 1), (1, 2))


@pytest.mark.parametrize("place", ["images/a.jpg", "images/images/a.jpg", "a.jpg"])
def test_images_are_found_where_people_put_them(tmp_path: Path, place: str) -> None:
    data = bird_file()
    data["annotations"] = data["annotations"][:1]
    path = write(tmp_path, data, images=())
    root = tmp_path / "elsewhere"
    (root / place).parent.mkdir(parents=True)
    (root / place).touch()
    assert read_coco(path, root).images == (root / place,)


def test_missing_image_of_a_labelled_instance(tmp_path: Path) -> None:
    path = write(tmp_path, bird_file(), images=("images/b.jpg",))
    expected = f'{path}: image 17 "images/a.jpg" does not exist under {tmp_path}. Pass --images DIR.'
    assert refusal(path) == expected


def test_missing_image_of_unlabelled_instances_is_kept(tmp_path: Path) -> None:
    data = bird_file()
    data["annotations"] = data["annotations"][1:]
    instances = read_coco(write(tmp_path, data, images=("images/b.jpg",)))
    assert instances.images == (tmp_path / "images/b.jpg", tmp_path / "images/a.jpg")


def test_two_names_must_not_lead_to_one_file(tmp_path: Path) -> None:
    data = bird_file()
    data["images"] = [{"id": 17, "file_name": "x/a.jpg"}, {"id": 18, "file_name": "y/a.jpg"}]
    message = refusal(write(tmp_path, data, images=("a.jpg",)))
    assert '"x/a.jpg" and "y/a.jpg" both lead to' in message


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("images/a.jpg", "images/a.jpg"),
        ("a.jpg", "images/a.jpg"),
        ("./images//a.jpg", "images/a.jpg"),
        ("deep/../images/a.jpg", "deep/../images/a.jpg"),
        ("C:\\elsewhere\\top.jpg", "top.jpg"),
        ("gone/top.jpg", "top.jpg"),
        ("{root}/images/a.jpg", "images/a.jpg"),
        ("images\\a.jpg", "images/a.jpg"),
        ("D:\\birds\\images\\a.jpg", "images/a.jpg"),
        ("/elsewhere/birds/images/a.jpg", "images/a.jpg"),
        ("/elsewhere/a.jpg", "images/a.jpg"),
    ],
)
def test_where_a_name_leads(tmp_path: Path, name: str, found: str) -> None:
    data = bird_file()
    data["images"][0]["file_name"] = name.format(root=tmp_path)
    (tmp_path / "deep").mkdir()
    instances = read_coco(write(tmp_path, data, images=("images/a.jpg", "images/b.jpg", "top.jpg")))
    assert instances.images[0] == tmp_path / found
    assert str(instances.images[0]) == str(tmp_path / found)


def test_two_spellings_must_not_lead_to_one_file(tmp_path: Path) -> None:
    data = bird_file()
    data["images"] = [{"id": 17, "file_name": "images/a.jpg"}, {"id": 18, "file_name": "./images/a.jpg"}]
    message = refusal(write(tmp_path, data, images=("images/a.jpg",)))
    assert '"images/a.jpg" and "./images/a.jpg" both lead to' in message


def test_two_foreign_names_must_not_lead_to_one_file(tmp_path: Path) -> None:
    data = bird_file()
    data["images"] = [{"id": 17, "file_name": "C:\\x\\a.jpg"}, {"id": 18, "file_name": "C:\\y\\a.jpg"}]
    assert "both lead to" in refusal(write(tmp_path, data, images=("images/a.jpg",)))
    instances = read_coco(write(tmp_path, data, images=("x/a.jpg", "y/a.jpg")))
    assert instances.images == (tmp_path / "x" / "a.jpg", tmp_path / "y" / "a.jpg")


def test_images_option_must_be_a_folder(tmp_path: Path) -> None:
    assert "is not a folder" in refusal(write(tmp_path, bird_file()), images=tmp_path / "nowhere")


def category(**fields: Any) -> Json:
    return {"name": "bird", "keypoints": ["left_eye", "right_eye", "tail"], **fields}


def test_skeleton_counted_from_zero() -> None:
    assert coco_skeleton(category(skeleton=[[0, 1], [1, 2]])).edges == ((0, 1), (1, 2))


def test_skeleton_of_another_animal_is_not_drawn() -> None:
    assert coco_skeleton(category(skeleton=[[1, 2], [2, 9]])).edges == ()


def test_skeleton_takes_flip_pairs_and_sigmas_of_the_category() -> None:
    skeleton = coco_skeleton(category(flip_pairs=[[1, 2]], sigmas=[0.1, 0.2, 1]))
    assert skeleton.flip_pairs == ((1, 2),)
    assert skeleton.sigmas == (0.1, 0.2, 1.0)
    assert coco_skeleton(category(flip_pairs=[])).flip_pairs == ()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"keypoints": ["eye", "eye"]}, "repeat"),
        ({"keypoints": ["eye", " "]}, "list of names"),
        ({"keypoints": ["eye", 3]}, "list of names"),
        ({"keypoints": "eye"}, "list of names"),
        ({"skeleton": [[1, 2, 3]]}, '"skeleton" is not a list of pairs'),
        ({"skeleton": [[1, "2"]]}, '"skeleton" is not a list of pairs'),
        ({"skeleton": 4}, '"skeleton" is not a list of pairs'),
        ({"flip_pairs": [[0, 3]]}, "outside the 3 keypoints"),
        ({"flip_pairs": [[0, 1], [1, 2]]}, "two flip pairs"),
        ({"sigmas": [0.1]}, '"sigmas" is not a list of 3 positive numbers'),
        ({"sigmas": [0.1, 0.1, -1]}, '"sigmas"'),
        ({"sigmas": [0.1, 0.1, float("nan")]}, '"sigmas"'),
    ],
)
def test_broken_category(tmp_path: Path, fields: Json, complaint: str) -> None:
    data = bird_file()
    data["categories"][0] |= fields
    message = refusal(write(tmp_path, data))
    assert complaint in message
    assert "ann.json: category" in message
    assert '"bird"' in message


def set_at(*path: Any, value: Any) -> Callable[[Json], None]:
    def change(data: Json) -> None:
        target: Any = data
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


def drop(*path: Any) -> Callable[[Json], None]:
    def change(data: Json) -> None:
        target: Any = data
        for step in path[:-1]:
            target = target[step]
        del target[path[-1]]

    return change


NAN, INF = float("nan"), float("inf")
BROKEN = {
    "no images": (drop("images"), '"images" is missing'),
    "no annotations": (drop("annotations"), '"annotations" is missing'),
    "no categories": (drop("categories"), '"categories" is missing'),
    "images of AnimalPose": (set_at("images", value={"1": "a.jpg"}), '"images" is not a list'),
    "annotations null": (set_at("annotations", value=None), '"annotations" is not a list'),
    "nothing annotated": (set_at("annotations", value=[]), "has no instances"),
    "annotation is a list": (set_at("annotations", 1, value=[]), "annotations[1] is not an object"),
    "annotation without id": (
        drop("annotations", 1, "id"),
        'annotations[1] is not an object with an integer or text "id"',
    ),
    "image id is true": (set_at("images", 0, "id", value=True), "images[0] is not an object"),
    "image twice": (set_at("images", 1, "id", value=17), "image id 17 occurs twice"),
    "annotation twice": (set_at("annotations", 1, "id", value=1), "annotation id 1 occurs twice"),
    "annotation ids mixed": (
        lambda d: d["annotations"][2].update(id="1"),
        'annotation ids such as 1 and "1" are mixed',
    ),
    "category twice": (lambda d: d["categories"].append(d["categories"][0]), "category id 5 occurs twice"),
    "no file name": (drop("images", 0, "file_name"), 'image 17 has no "file_name"'),
    "file name is a number": (set_at("images", 0, "file_name", value=4), 'image 17 has no "file_name"'),
    "unknown image": (set_at("annotations", 1, "image_id", value=99), "annotation 2 points to image 99"),
    "image id is a list": (set_at("annotations", 1, "image_id", value=[1]), "annotation 2 points to image [1]"),
    "unknown category": (set_at("annotations", 1, "category_id", value="x"), 'annotation 2 points to category "x"'),
    "no category": (drop("annotations", 1, "category_id"), "annotation 2 points to category null"),
    "too few keypoints": (
        set_at("annotations", 1, "keypoints", value=[1, 2, 2] * 2),
        'annotation 2 has 2 keypoints, category "bird" has 3. Fix the file or name as many: --keypoints, or '
        "`keypoints` of a source.",
    ),
    "odd keypoints": (
        set_at("annotations", 1, "keypoints", value=[1] * 8),
        'annotation 2: "keypoints" is not a list of 9 numbers',
    ),
    "keypoints are text": (
        set_at("annotations", 1, "keypoints", value="a" * 9),
        'annotation 2: "keypoints" is not',
    ),
    "coordinate is text": (set_at("annotations", 1, "keypoints", 0, value="1"), 'annotation 2: "keypoints" is not'),
    "coordinate is null": (set_at("annotations", 1, "keypoints", 0, value=None), 'annotation 2: "keypoints" is not'),
    "coordinate is true": (set_at("annotations", 1, "keypoints", 0, value=True), 'annotation 2: "keypoints" is not'),
    "coordinate is huge": (set_at("annotations", 1, "keypoints", 0, value=10**400), 'annotation 2: "keypoints" is not'),
    "coordinate is NaN": (set_at("annotations", 1, "keypoints", 0, value=NAN), 'annotation 2: "keypoints" holds'),
    "coordinate is infinite": (set_at("annotations", 1, "keypoints", 1, value=INF), 'annotation 2: "keypoints" holds'),
    "visibility 3": (
        set_at("annotations", 1, "keypoints", 5, value=3),
        'annotation 2: keypoint "right_eye" has visibility 3, expected 0, 1 or 2.',
    ),
    "visibility 0.5": (set_at("annotations", 1, "keypoints", 2, value=0.5), 'keypoint "left_eye" has visibility 0.5'),
    "box of three": (set_at("annotations", 1, "bbox", value=[1, 2, 3]), 'annotation 2: "bbox" is not a list of 4'),
    "box is an object": (set_at("annotations", 1, "bbox", value={}), 'annotation 2: "bbox" is not a list of 4'),
    "box with NaN": (set_at("annotations", 1, "bbox", 0, value=NAN), 'annotation 2: "bbox" holds a number'),
    "box without width": (
        set_at("annotations", 1, "bbox", 2, value=0),
        "2: its box [0, 0, 0, 8] has no size",
    ),
    "box upside down": (
        set_at("annotations", 1, "bbox", 3, value=-4),
        "2: its box [0, 0, 8, -4] has no size",
    ),
    "neither box nor keypoints": (drop("annotations", 2, "bbox"), 'annotation 3 has no "bbox" and too few keypoints'),
    "no box and one keypoint": (
        lambda d: d["annotations"][2].update(bbox=None, keypoints=[1, 2, 2, 0, 0, 0, 0, 0, 0]),
        'annotation 3 has no "bbox" and too few keypoints',
    ),
    "no box and one place": (
        lambda d: d["annotations"][2].update(bbox=None, keypoints=[1, 2, 2] * 3),
        'annotation 3 has no "bbox" and too few keypoints',
    ),
    "area is text": (set_at("annotations", 1, "area", value="big"), 'annotation 2: "area" is not a number'),
    "area is NaN": (set_at("annotations", 1, "area", value=NAN), 'annotation 2: "area" holds'),
    "area is negative": (set_at("annotations", 1, "area", value=-1), "annotation 2: its area -1 is negative"),
    "keypoint names are a number": (set_at("categories", 0, "keypoints", value=3), "list of names"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_file(tmp_path: Path, case: str) -> None:
    change, complaint = BROKEN[case]
    data = bird_file()
    change(data)
    path = write(tmp_path, data)
    message = refusal(path)
    assert complaint in message
    assert message.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\xfa", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a JSON object"),
    ],
)
def test_not_a_coco_file(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "ann.json"
    path.write_bytes(content)
    assert complaint in refusal(path)


def test_no_such_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "ann.json") == f"{tmp_path / 'ann.json'}: cannot be read (No such file or directory)."


def test_categories_in_use_must_name_the_same_keypoints(tmp_path: Path) -> None:
    data = bird_file()
    data["categories"].append({"id": 6, "name": "hand", "keypoints": ["thumb"]})
    assert len(read_coco(write(tmp_path, data))) == 3  # nothing is a hand
    data["annotations"][2]["category_id"] = 6
    message = refusal(write(tmp_path, data))
    assert '"bird" and "hand"' in message
    assert '["left_eye", "right_eye", "tail"] against ["thumb"]' in message


def test_categories_without_keypoints_do_not_stand_in_the_way(tmp_path: Path) -> None:
    data = bird_file()
    data["categories"].insert(0, {"id": 6, "name": "car"})
    data["images"].append({"id": 19, "file_name": "images/c.jpg"})
    data["annotations"].append({"id": 4, "image_id": 19, "category_id": 6, "bbox": [5, 5, 6, 7]})
    found = FORMAT.read(write(tmp_path, data), Options())
    assert found.instances.classes == ("bird",) * 3  # one of which nobody has labelled
    assert found.notes == (
        "ann.json: 1 annotations of categories without keypoints are left out.",
        "ann.json: 1 images have no other annotation and are left out.",
    )
    named = FORMAT.read(write(tmp_path, data), Options(keypoints=("a", "b", "c"))).instances
    assert named.classes == ("bird",) * 3
    data["annotations"][-1]["keypoints"] = [1, 2, 2]
    assert '"car" and "bird" name different keypoints' in refusal(write(tmp_path, data))


def test_names_with_line_breaks_stay_on_one_line(tmp_path: Path) -> None:
    data = bird_file()
    data["images"][0]["file_name"] = "a\nb.jpg"
    assert r'image 17 "a\nb.jpg" does not exist' in refusal(write(tmp_path, data))


def test_read_boxes_ignores_labels_and_categories(tmp_path: Path) -> None:
    data = bird_file()
    del data["categories"]
    data["annotations"][0]["keypoints"] = "broken"
    instances = read_boxes(write(tmp_path, data), tmp_path)
    assert instances.skeleton is None
    assert instances.boxes.tolist() == [[10, 20, 30, 40.5], [0, 0, 8, 8], [5, 5, 6, 7]]


@pytest.mark.realdata
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared samples are not here")
class TestRealFiles:
    def test_coco_agrees_with_pycocotools(self) -> None:
        from pycocotools.coco import COCO

        path = SHARED / "coco" / "test_coco.json"
        coco = COCO(str(path))
        expected = coco.loadAnns(coco.getAnnIds(iscrowd=False))
        instances = read_coco(path)
        assert [int(i.split("#")[1]) for i in instances.ids] == [a["id"] for a in expected]
        assert instances.boxes.tolist() == [a["bbox"] for a in expected]
        assert (instances.visibility > 0).sum(axis=1).tolist() == [a["num_keypoints"] for a in expected]
        assert instances.skeleton is not None
        assert instances.skeleton.sigmas == COCO_SIGMAS
        assert instances.skeleton.edges[0] == (15, 13)

    @pytest.mark.parametrize(
        ("name", "n", "k", "labelled"),
        [
            ("ap10k/test_ap10k.json", 2, 17, 2),
            ("animalpose_mmpose/test_animalpose.json", 2, 20, 2),
            ("atrw/test_atrw.json", 2, 15, 2),
            ("crowdpose/test_crowdpose.json", 5, 14, 4),
            ("freihand/test_freihand.json", 8, 21, 8),
        ],
    )
    def test_reads(self, name: str, n: int, k: int, labelled: int) -> None:
        instances = read_coco(SHARED / name)
        assert instances.visibility.shape == (n, k)
        assert instances.labelled.sum() == labelled

    def test_faces_without_names_are_numbered_and_know_their_sides(self) -> None:
        for name, count, eyes in (("300w", 68, (36, 45)), ("wflw", 98, (96, 97))):
            instances = read_coco(SHARED / name / f"test_{name}.json")
            assert instances.skeleton is not None
            assert len(instances.skeleton) == count
            assert eyes in instances.skeleton.flip_pairs
            # Mirroring a face about its middle exchanges the pairs: on the whole, each lands near the other.
            points = instances.keypoints[0]
            order = instances.skeleton.flip_order
            middle = points[:, 0].mean()
            moved = np.abs(2 * middle - points[order, 0] - points[:, 0]).mean()
            assert moved < 0.15 * np.ptp(points[:, 0])

    def test_animalpose_of_its_authors_is_refused(self) -> None:
        assert '"images" is not a list' in refusal(SHARED / "animalpose" / "keypoints.json")
