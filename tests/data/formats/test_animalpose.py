"""AnimalPose's own json: how it differs from COCO, and what is said about broken files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placl.data.formats import coco
from placl.data.formats.animalpose import FORMAT, read_animalpose, with_sigmas
from placl.data.formats.format import Options
from placl.data.skeleton import Skeleton
from placl.errors import InputError

Json = dict[str, Any]


def animals() -> Json:
    names = ["left_eye", "right_eye", "nose"]
    kinds = [(1, "dog"), (2, "cat")]
    return {
        "images": {"1": "a.jpg", "12": "b.jpeg"},
        "annotations": [
            {
                "image_id": 12,
                "bbox": [10, 20, 40, 60],
                "keypoints": [[11, 22, 1], [0, 0, 0], [30, 50, 1]],
                "num_keypoints": 20,
                "category_id": 2,
            },
            {
                "image_id": 1,
                "bbox": [0, 0, 5, 6],
                "keypoints": [[1, 2, 1], [3, 4, 1], [5, 6, 1]],
                "num_keypoints": 20,
                "category_id": 1,
            },
            {
                "image_id": 12,
                "bbox": [1, 1, 9, 9],
                "keypoints": [[7, 7, 0], [0, 0, 0], [0, 0, 0]],
                "num_keypoints": 20,
                "category_id": 1,
            },
        ],
        "categories": [{"id": i, "name": name, "keypoints": names, "skeleton": [[0, 1], [1, 2]]} for i, name in kinds],
    }


def write(folder: Path, data: object) -> Path:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for name in ("a.jpg", "b.jpeg"):
        (folder / "images" / name).touch()
    path = folder / "keypoints.json"
    path.write_text(json.dumps(data))
    return path


def refusal(path: Path, options: Options | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_animalpose(path, options or Options())
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_reads_corners_nested_keypoints_and_classes(tmp_path: Path) -> None:
    path = write(tmp_path, animals())
    instances = read_animalpose(path, Options()).instances
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == ("left_eye", "right_eye", "nose")
    assert instances.skeleton.edges == ((0, 1), (1, 2))  # counted from 0 in the file
    assert instances.skeleton.flip_pairs == ((0, 1),)
    assert instances.images == (tmp_path / "images/b.jpeg", tmp_path / "images/a.jpg")
    assert instances.image_index.tolist() == [0, 1, 0]
    assert instances.boxes.tolist() == [[10, 20, 30, 40], [0, 0, 5, 6], [1, 1, 8, 8]]
    assert instances.area.tolist() == [1200, 30, 64]
    assert instances.visibility.tolist() == [[2, 0, 2], [2, 2, 2], [0, 0, 0]]
    assert instances.keypoints[0].tolist() == [[11, 22], [0, 0], [30, 50]]
    assert instances.keypoints[2].tolist() == [[0, 0]] * 3  # what is not labelled is zero
    assert instances.classes == ("cat", "dog", "dog")
    assert instances.ids == ("b.jpeg#0", "a.jpg#1", "b.jpeg#2")
    assert instances.sources == (str(path),) * 2


def test_the_file_and_its_folder_are_claimed_and_coco_is_not(tmp_path: Path) -> None:
    path = write(tmp_path, animals())
    assert FORMAT.claims(path)
    assert FORMAT.claims(tmp_path)
    assert not coco.FORMAT.claims(path)
    assert read_animalpose(tmp_path, Options()).instances.ids == read_animalpose(path, Options()).instances.ids
    data = animals()
    data["images"] = [{"id": 1, "file_name": "a.jpg"}]
    assert not FORMAT.claims(write(tmp_path, data))
    for text in ("", "[]", "{", "3", '{"images": {}}'):
        path.write_text(text)
        assert not FORMAT.claims(path)
        assert not FORMAT.claims(tmp_path)
    assert not FORMAT.claims(tmp_path / "nowhere")


def test_images_elsewhere_and_other_names(tmp_path: Path) -> None:
    path = write(tmp_path, animals())
    (tmp_path / "images").rename(tmp_path / "pictures")
    assert 'keypoints.json: image 12: image "b.jpeg" does not exist under' in refusal(path)
    options = Options(images=tmp_path / "pictures", keypoints=("a", "b", "c"))
    instances = read_animalpose(path, options).instances
    assert instances.images[1] == tmp_path / "pictures/a.jpg"
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == ("a", "b", "c")
    assert instances.skeleton.flip_pairs == ((0, 1),)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("bbox", [5, 5, 5, 9], "annotation 1: its box [5, 5, 5, 9] (x1, y1, x2, y2) has no size"),
        ("bbox", [5, 5, 9, 2], "annotation 1: its box [5, 5, 9, 2] (x1, y1, x2, y2) has no size"),
        ("bbox", [5, 5, 9], 'annotation 1: "bbox" is not 4 numbers'),
        ("bbox", [5, 5, 9, "12"], 'annotation 1: "bbox" is not 4 numbers'),
        ("bbox", [5, 5, 9, 10**400], 'annotation 1: "bbox" is not 4 numbers'),
        ("bbox", [5, 5, 9, float("inf")], 'annotation 1: "bbox" holds a number that is not finite'),
        ("bbox", None, 'annotation 1: "bbox" is not 4 numbers'),
        ("keypoints", [[1, 2, 1]] * 2, 'annotation 1: "keypoints" is not 3 x 3 numbers'),
        ("keypoints", [1, 2, 1] * 3, 'annotation 1: "keypoints" is not 3 x 3 numbers'),
        ("keypoints", [[1, 2, 1], [1, 2, 1], [1, 2]], 'annotation 1: "keypoints" is not 3 x 3 numbers'),
        ("keypoints", [[1, float("nan"), 1]] * 3, 'annotation 1: "keypoints" holds a number that is not finite'),
        ("keypoints", [[1, 2, 1], [1, 2, 2], [1, 2, 1]], "annotation 1: keypoint right_eye has visibility 2"),
        ("image_id", 7, 'annotation 1 points to an image that "images" lacks'),
        ("image_id", [1], 'annotation 1 points to an image that "images" lacks'),
        ("category_id", 7, 'annotation 1 points to a category that "categories" lacks'),
    ],
)
def test_a_broken_annotation_is_named(tmp_path: Path, key: str, value: object, complaint: str) -> None:
    data = animals()
    data["annotations"][1][key] = value
    assert complaint in refusal(write(tmp_path, data))


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("images", [], '"images" does not map ids to file names'),
        ("images", {"1": 3}, '"images" does not map ids to file names'),
        ("annotations", [], '"annotations" is missing or empty'),
        ("annotations", ["x"], "annotation 0 is not an object"),
        ("categories", None, '"categories" is missing or empty'),
        ("categories", [{"id": "1"}], "category 0 is not an object with an integer id and a name"),
        ("categories", [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}], '"keypoints" is not a list of names'),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, key: str, value: object, complaint: str) -> None:
    message = refusal(write(tmp_path, animals() | {key: value}))
    assert message.startswith(f"{tmp_path / 'keypoints.json'}: ")
    assert complaint in message


def test_two_names_that_lead_to_one_image(tmp_path: Path) -> None:
    data = animals()
    data["images"] = {"1": "x/a.jpg", "12": "y/a.jpg"}
    path = write(tmp_path, data)
    assert refusal(path) == (
        f'{path}: image 1: "y/a.jpg" and "x/a.jpg" both lead to {tmp_path / "images/a.jpg"}. Pass --images DIR.'
    )


AUTHORS = (
    "left_eye", "right_eye", "nose", "left_ear", "right_ear", "left_front_elbow", "right_front_elbow",
    "left_back_elbow", "right_back_elbow", "left_front_knee", "right_front_knee", "left_back_knee", "right_back_knee",
    "left_front_paw", "right_front_paw", "left_back_paw", "right_back_paw", "throat", "withers", "tailbase",
)  # fmt: skip
MMPOSE = (
    "L_Eye", "R_Eye", "L_EarBase", "R_EarBase", "Nose", "Throat", "TailBase", "Withers", "L_F_Elbow", "R_F_Elbow",
    "L_B_Elbow", "R_B_Elbow", "L_F_Knee", "R_F_Knee", "L_B_Knee", "R_B_Knee", "L_F_Paw", "R_F_Paw", "L_B_Paw",
    "R_B_Paw",
)  # fmt: skip


def test_sigmas_are_mmposes_by_keypoint(tmp_path: Path) -> None:
    limbs = (0.107,) * 4 + (0.087,) * 4 + (0.089,) * 4
    mmpose = (0.025, 0.025, 0.026, 0.035, 0.035, 0.1, 0.1, 0.1, *limbs)
    edges, pairs = ((0, 1),), ((0, 1),)
    assert with_sigmas(Skeleton(MMPOSE, edges, pairs)) == Skeleton(MMPOSE, edges, pairs, mmpose)
    assert with_sigmas(Skeleton(AUTHORS)).sigmas == (0.025, 0.025, 0.035, 0.026, 0.035, *limbs, 0.1, 0.1, 0.1)
    assert with_sigmas(Skeleton(("beak", "nose"), sigmas=(0.2, 0.3))).sigmas == (0.2, 0.035)
    path = write(tmp_path, animals())
    for names in (None, ("a", "b", "c")):
        skeleton = read_animalpose(path, Options(keypoints=names)).instances.skeleton
        assert skeleton is not None
        assert skeleton.sigmas == (0.025, 0.025, 0.035)


def test_categories_must_agree(tmp_path: Path) -> None:
    data = animals()
    data["categories"][1]["keypoints"] = ["left_eye", "right_eye", "tail"]
    assert "its categories name different keypoints" in refusal(write(tmp_path, data))


def test_truncated_and_empty_files(tmp_path: Path) -> None:
    path = write(tmp_path, animals())
    path.write_text(path.read_text()[:200])
    assert "is not JSON" in refusal(path)
    path.write_text("[]")
    assert "is not a JSON object" in refusal(path)
    assert "cannot be read" in refusal(tmp_path / "nowhere.json")


@pytest.mark.realdata
def test_the_authors_file(shared: Path) -> None:
    instances = read_animalpose(shared / "formats" / "animalpose", Options()).instances
    assert (len(instances), len(instances.images)) == (71, 40)
    assert instances.skeleton is not None
    assert len(instances.skeleton) == 20
    assert len(instances.skeleton.edges) == 15
    assert len(instances.skeleton.flip_pairs) == 8
    assert instances.boxes[0].tolist() == [123, 115, 256, 160]
    assert instances.classes[0] == "dog"
    assert set(instances.classes) <= {"dog", "cat", "sheep", "horse", "cow"}
    # Keypoints lie in or close to their boxes: these would not if corners were taken for sizes.
    low, high = instances.boxes[:, None, :2], (instances.boxes[:, :2] + instances.boxes[:, 2:])[:, None]
    inside = ((instances.keypoints > low - 10) & (instances.keypoints < high + 10)).all(axis=2)
    assert np.mean(inside[instances.visibility > 0]) > 0.97
    assert not FORMAT.claims(shared / "formats" / "animalpose_mmpose" / "test_animalpose.json")
