"""Label Studio: exports as the tool writes them, and what is said about broken ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from placl.data.formats.format import Found, Options
from placl.data.formats.label_studio import FORMAT
from placl.data.skeleton import Skeleton
from placl.errors import InputError

Json = dict[str, Any]


def region(kind: str, value: Json, identity: str, **more: Any) -> Json:
    """A result as the tool has it, on an image of 200 x 100."""
    return {
        "original_width": 200,
        "original_height": 100,
        "image_rotation": 0,
        "value": value,
        "id": identity,
        "from_name": "label",
        "to_name": "image",
        "type": kind,
        "origin": "manual",
    } | more


def point(name: str, x: float, y: float, identity: str = "", **more: Any) -> Json:
    value = {"x": x, "y": y, "width": 0.4, "keypointlabels": [name]}
    return region("keypointlabels", value, identity or name, **more)


def rectangle(identity: str, x: float, y: float, width: float, height: float, rotation: Any = 0) -> Json:
    value = {"x": x, "y": y, "width": width, "height": height, "rotation": rotation, "rectanglelabels": ["Bird"]}
    return region("rectanglelabels", value, identity)


def relation(start: str, end: str) -> Json:
    return {"from_id": start, "to_id": end, "type": "relation", "direction": "right"}


def annotation(*results: Json, **more: Any) -> Json:
    return {
        "id": 9,
        "completed_by": 1,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2024-03-09T22:16:08.728353Z",
        "updated_at": "2024-03-09T22:16:08.728378Z",
        "lead_time": 4.2,
    } | more


def task(identity: int, image: str, *annotations: Json) -> Json:
    return {
        "id": identity,
        "annotations": list(annotations),
        "file_upload": image.rsplit("/", 1)[-1],
        "drafts": [],
        "predictions": [],
        "data": {"image": image},
        "meta": {},
        "project": 7,
    }


def export(folder: Path, tasks: object, *images: str) -> Path:
    for name in images or ("a.jpg",):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (200, 100)).save(folder / name)
    path = folder / "project-7-at-2024-03-09.json"
    path.write_text(json.dumps(tasks))
    return path


def read(path: Path, **options: Any) -> Found:
    return FORMAT.read(path, Options(**options))


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


UPLOAD = "/data/upload/7/1a2b3c4d-a.jpg"


def test_keypoints_of_one_animal(tmp_path: Path) -> None:
    tasks = [
        task(3, UPLOAD, annotation(point("right_eye", 10, 20), point("left_eye", 0.25, 0.5))),
        task(4, "/data/upload/7/5e6f7a8b-b.jpg"),
    ]
    path = export(tmp_path, tasks, "a.jpg", "images/b.jpg")
    assert FORMAT.claims(path)
    found = read(path).instances
    assert found.skeleton == Skeleton(("left_eye", "right_eye"), (), ((0, 1),))
    assert found.images == (tmp_path / "a.jpg", tmp_path / "images/b.jpg")
    assert found.visibility.tolist() == [[2, 2], [0, 0]]
    assert found.keypoints[0].tolist() == [[0, 0], [19.5, 19.5]]  # 0.25 % of 200 is the centre of the first pixel
    assert np.isnan(found.boxes).all()
    assert found.ids == ("a.jpg#3-1", "b.jpg#4-1")
    assert found.classes == ()
    assert found.sources == (str(path),) * 2


@pytest.mark.parametrize("how", ["parent", "relation", "reverse relation", "place"])
def test_rectangles_hold_keypoints(tmp_path: Path, how: str) -> None:
    parents = {"parentID": "r1"} if how == "parent" else {}
    others = {"parentID": "r2"} if how == "parent" else {}
    results = [
        rectangle("r1", 10, 10, 20, 50),
        rectangle("r2", 50, 0, 50, 100),
        point("eye", 15, 20, "k1", **parents),
        point("eye", 60, 20, "k2", **others),
        point("tail", 70, 30, "k3", **others),
    ]
    pairs = [("k1", "r1"), ("k2", "r2"), ("k3", "r2")]
    if how == "relation":
        results += [relation(*pair) for pair in pairs]
    elif how == "reverse relation":
        results += [relation(*reversed(pair)) for pair in pairs]
    found = read(export(tmp_path, [task(1, UPLOAD, annotation(*results))])).instances
    assert found.boxes.tolist() == [[20, 10, 40, 50], [100, 0, 100, 100]]
    assert found.visibility.tolist() == [[2, 0], [2, 2]]
    assert found.keypoints[1].tolist() == [[119.5, 19.5], [139.5, 29.5]]
    assert found.classes == ("Bird", "Bird")
    assert found.ids == ("a.jpg#1-1", "a.jpg#1-2")
    assert found.drawn is not None
    assert not found.drawn.any()


def test_the_only_rectangle_has_all_keypoints(tmp_path: Path) -> None:
    results = [point("eye", 90, 90), rectangle("r", 10, 10, 20, 50)]
    found = read(export(tmp_path, [task(1, UPLOAD, annotation(*results))])).instances
    assert found.boxes.tolist() == [[20, 10, 40, 50]]
    assert found.visibility.tolist() == [[2]]


def test_a_turned_rectangle_is_set_upright(tmp_path: Path) -> None:
    """By 90 degrees about its first corner (100, 20): 40 x 10 px becomes 10 x 40 px to the left."""
    results = [rectangle("r", 50, 20, 20, 10, rotation=90), point("eye", 47, 30)]
    found = read(export(tmp_path, [task(1, UPLOAD, annotation(*results))])).instances
    np.testing.assert_allclose(found.boxes, [[90, 20, 10, 40]])


def test_notes_of_the_yolo_backend_tell_instances_apart(tmp_path: Path) -> None:
    results = [
        point("eye", 10, 20, "k1", meta={"text": ["bbox-0"]}),
        point("tail", 20, 30, "k2", meta={"text": ["bbox-0"]}),
        point("eye", 60, 20, "k3", meta={"text": ["bbox-1"]}),
    ]
    found = read(export(tmp_path, [task(1, UPLOAD, annotation(*results))])).instances
    assert found.visibility.tolist() == [[2, 2], [2, 0]]
    assert found.boxes[0].tolist() == [19.5, 19.5, 21, 11]
    assert found.drawn is not None
    assert found.drawn.tolist() == [True, False]


def test_which_annotation_counts(tmp_path: Path) -> None:
    early = annotation(point("eye", 10, 10), updated_at="2024-01-01T00:00:00Z")
    late = annotation(point("eye", 20, 10), updated_at="2024-02-01T00:00:00Z")
    skipped = annotation(was_cancelled=True, updated_at="2024-03-01T00:00:00Z")
    truth = annotation(point("eye", 30, 10), updated_at="2024-01-01T00:00:00Z", ground_truth=True)
    names = [f"{i}.jpg" for i in range(4)]
    tasks = [
        task(0, names[0], late, early, skipped),
        task(1, names[1], late, truth, early),
        task(2, names[2], skipped),
        task(3, names[3], early, early | {"result": [point("eye", 40, 10)]}),
    ]
    found = read(export(tmp_path, tasks, *names))
    assert found.instances.keypoints[:, 0, 0].tolist() == [39.5, 59.5, 79.5]
    assert found.instances.ids == ("0.jpg#0-1", "1.jpg#1-1", "3.jpg#3-1")
    assert [note.split(": ")[1] for note in found.notes] == [
        "3 tasks have several annotations; the ground truth counts, else the last.",
        "1 tasks were skipped by the annotator and are left out.",
    ]


def test_json_min(tmp_path: Path) -> None:
    size = {"original_width": 200, "original_height": 100}
    entry = {
        "image": UPLOAD,
        "id": 5,
        "kp": [{"x": 10, "y": 20, "width": 0.4, "keypointlabels": ["eye"]} | size],
        "box": [{"x": 5, "y": 5, "width": 50, "height": 50, "rotation": 0, "rectanglelabels": ["Bird"]} | size],
        "annotator": 1,
        "annotation_id": 17,
        "created_at": "2024-03-09T22:16:08.728353Z",
        "lead_time": 3.2,
    }
    path = export(tmp_path, [entry])
    assert FORMAT.claims(path)
    found = read(path).instances
    assert found.keypoints.tolist() == [[[19.5, 19.5]]]
    assert found.boxes.tolist() == [[10, 5, 100, 50]]
    assert found.ids == ("a.jpg#5-1",)


def test_size_from_the_image_where_the_export_has_none(tmp_path: Path) -> None:
    old = point("eye", 50, 50)
    del old["original_width"], old["original_height"]
    entry = {"id": 0, "data": {"img": "https://example.com/photos/a.jpg?sig=x"}, "completions": [{"result": [old]}]}
    path = export(tmp_path, [entry])
    assert FORMAT.claims(path)
    assert read(path).instances.keypoints.tolist() == [[[99.5, 49.5]]]


def test_percentages_are_of_the_file_that_is_there(tmp_path: Path) -> None:
    path = export(tmp_path, [task(1, "a.jpg", annotation(point("eye", 50, 50), rectangle("r", 10, 10, 80, 80)))])
    Image.new("RGB", (100, 50)).save(tmp_path / "a.jpg")  # half as large as it was when it was labelled
    found = read(path).instances
    assert found.keypoints.tolist() == [[[49.5, 24.5]]]
    assert found.boxes.tolist() == [[10, 5, 80, 40]]


def test_size_from_the_export_where_the_image_cannot_be_read(tmp_path: Path) -> None:
    path = export(tmp_path, [task(1, "a.jpg", annotation(point("eye", 50, 50)))])
    (tmp_path / "a.jpg").write_bytes(b"")
    assert read(path).instances.keypoints.tolist() == [[[99.5, 49.5]]]


@pytest.mark.parametrize(
    "name",
    [
        "/data/upload/7/1a2b3c4d-my%20bird.jpg",
        "/data/local-files/?d=photos/my%20bird.jpg",
        "s3://bucket/photos/my bird.jpg",
        "https://example.com/photos/my%20bird.jpg?signature=a%2Fb",
        "my bird.jpg",
    ],
)
@pytest.mark.parametrize("place", ["my bird.jpg", "images/my bird.jpg"])
def test_names_of_images(tmp_path: Path, name: str, place: str) -> None:
    path = export(tmp_path, [task(1, name, annotation(point("eye", 1, 1)))], place)
    assert read(path).instances.images == (tmp_path / place,)


def test_an_upload_may_keep_its_prefix(tmp_path: Path) -> None:
    path = export(tmp_path, [task(1, UPLOAD, annotation(point("eye", 1, 1)))], "1a2b3c4d-a.jpg", "a.jpg")
    assert read(path).instances.images == (tmp_path / "1a2b3c4d-a.jpg",)


def test_options(tmp_path: Path) -> None:
    path = export(tmp_path, [task(1, UPLOAD, annotation(point("eye", 1, 1)))], "elsewhere/a.jpg")
    assert refusal(path) == f'{path}: task 1: image "{UPLOAD}" does not exist under {tmp_path}. Pass --images DIR.'
    found = read(path, images=tmp_path / "elsewhere", keypoints=("tail", "eye")).instances
    assert found.visibility.tolist() == [[0, 2]]
    complaint = 'has the keypoint label "eye", which --keypoints does not name.'
    assert complaint in refusal(path, images=tmp_path / "elsewhere", keypoints=("tail",))


def with_value(key: str, value: object) -> Json:
    changed = point("eye", 1, 1)
    changed["value"][key] = value
    return changed


BROKEN = {
    "twice": ([point("eye", 1, 1, "k1"), point("eye", 2, 2, "k2")], 'keypoint "eye" occurs twice in an instance.'),
    "two labels": ([with_value("keypointlabels", ["a", "b"])], "a keypoint has not exactly one label."),
    "no label": ([with_value("keypointlabels", None)], "a keypoint has not exactly one label."),
    "no value": ([point("eye", 1, 1) | {"value": None}], "a keypoint has not exactly one label."),
    "text": ([with_value("x", "1")], '"x" of a keypointlabels is "1", not a number.'),
    "null": ([with_value("y", None)], '"y" of a keypointlabels is null, not a number.'),
    "nan": ([with_value("x", float("nan"))], '"x" of a keypointlabels is NaN, not a number.'),
    "infinite": ([with_value("x", float("inf"))], '"x" of a keypointlabels is Infinity'),
    "huge": ([with_value("x", 10**400)], '"x" of a keypointlabels is 1000'),
    "no rectangle": ([rectangle("r", 1, 1, 5, 5) | {"value": [1]}], '"x" of a rectanglelabels is null'),
    "turned by text": ([rectangle("r", 1, 1, 5, 5, rotation="x")], 'a rectangle is turned by "x"'),
    "flat": ([rectangle("r", 1, 1, 0, 5)], "a rectangle has no size."),
    "turned image": ([point("eye", 1, 1, image_rotation=90)], "its image was turned in Label Studio."),
    "in two": (
        [rectangle("r", 1, 1, 50, 50), rectangle("s", 1, 1, 60, 60), point("eye", 9, 9)],
        'keypoint "eye" is inside 2 rectangles. Tie it to its own with a relation.',
    ),
    "result": (["x"], '"result" is not a list of objects.'),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_results(tmp_path: Path, case: str) -> None:
    results, complaint = BROKEN[case]
    path = export(tmp_path, [task(12, UPLOAD, annotation(*results))])
    assert refusal(path).startswith(f"{path}: task 12: {complaint}")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is not JSON"),
        ("[", "is not JSON"),
        ("[]", "is not a list of tasks."),
        ("{}", "is not a list of tasks."),
        ("[1]", "entry 0 is not a task."),
        ('[{"id": 1, "data": {}, "annotations": []}]', "task 1: names no image."),
        ('[{"id": 1, "data": {"image": "a.jpg"}, "annotations": 3}]', 'task 1: "annotations" is not a list'),
        ('[{"id": 1, "data": {"image": "a.jpg"}}, {"id": 1, "data": {"image": "a.jpg"}}]', "task 1 occurs twice."),
    ],
)
def test_not_an_export(tmp_path: Path, content: str, complaint: str) -> None:
    path = export(tmp_path, [])
    path.write_text(content)
    assert complaint in refusal(path)


@pytest.mark.parametrize("name", ["http://[bad", "a\nb.jpg"])
def test_odd_names_are_named_on_one_line(tmp_path: Path, name: str) -> None:
    assert f"task 1: {'its ' * (name[0] == 'h')}image {json.dumps(name)}" in refusal(export(tmp_path, [task(1, name)]))


def test_two_names_of_one_file(tmp_path: Path) -> None:
    tasks = [task(1, UPLOAD), task(2, "/data/upload/7/99999999-a.jpg")]
    assert "both lead to" in refusal(export(tmp_path, tasks))


@pytest.mark.parametrize("content", ["[]", "{}", '[{"a": [1]}]', '[{"image_id": 1, "keypoints": []}]', "x"])
def test_claims_nothing_else(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    assert not FORMAT.claims(path)
    assert not FORMAT.claims(tmp_path)
