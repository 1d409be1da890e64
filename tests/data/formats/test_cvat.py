"""CVAT for images 1.1: files as CVAT writes them, and what is said about broken ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placl.data.formats.cvat import FORMAT
from placl.data.formats.format import Found, Options
from placl.data.skeleton import Skeleton
from placl.errors import InputError

# The head of an export, of a task with a skeleton of three points; the SVG is as CVAT draws it.
SVG = (
    '<line x1="36.8" y1="47.7" x2="86.8" y2="10.7" stroke="black" data-type="edge" data-node-from="2" '
    'stroke-width="0.5" data-node-to="3"></line><line x1="25.1" y1="22.6" x2="36.8" y2="47.7" stroke="black" '
    'data-type="edge" data-node-from="1" stroke-width="0.5" data-node-to="2"></line>'
    '<circle r="1.5" cx="25.1" cy="22.6" data-type="element node" data-element-id="1" data-node-id="1" '
    'data-label-name="tail"></circle><circle r="1.5" cx="36.8" cy="47.7" data-type="element node" '
    'data-element-id="2" data-node-id="2" data-label-name="left_eye"></circle><circle r="1.5" cx="86.8" cy="10.7" '
    'data-type="element node" data-element-id="3" data-node-id="3" data-label-name="right_eye"></circle>'
)
ESCAPED = SVG.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def label(name: str, kind: str = "points", parent: str = "", svg: str = "") -> str:
    extra = f"<svg>{svg}</svg>" if svg else f"<parent>{parent}</parent>" if parent else ""
    return (
        f"<label><name>{name}</name><color>#fa3253</color><type>{kind}</type><attributes></attributes>{extra}</label>"
    )


PARTS = "".join(label(name, parent="bird") for name in ("tail", "left_eye", "right_eye"))
SKELETON = label("bird", "skeleton", svg=ESCAPED) + PARTS + label("box", "rectangle")
POINTS = label("box", "rectangle") + label("tail") + label("left_eye") + label("right_eye")


def export(folder: Path, body: str, labels: str = SKELETON, images: tuple[str, ...] = ("a.jpg", "b.jpg")) -> Path:
    for name in images:
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "images" / name).touch()
    head = f"<version>1.1</version><meta><task><id>4</id><labels>{labels}</labels></task></meta>"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  {head}\n{body}\n</annotations>\n'
    (folder / "annotations.xml").write_text(text, encoding="utf-8")
    return folder


def image(name: str, *shapes: str, **attributes: str) -> str:
    extra = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f'<image id="0" name="{name}" width="200" height="100"{extra}>{"".join(shapes)}</image>'


def point(name: str, place: str, **attributes: str) -> str:
    values = {"occluded": "0", "source": "manual", "outside": "0", "points": place, "z_order": "0"} | attributes
    return f'<points label="{name}" ' + " ".join(f'{key}="{value}"' for key, value in values.items()) + "></points>"


def skeleton(*points: str, **attributes: str) -> str:
    extra = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f'<skeleton label="bird" source="manual" z_order="0"{extra}>{"".join(points)}</skeleton>'


def box(corners: str = "10.00 20.00 30.50 60.00", **attributes: str) -> str:
    values = dict(zip(("xtl", "ytl", "xbr", "ybr"), corners.split(), strict=True)) | attributes
    return '<box label="box" source="manual" occluded="0" ' + " ".join(f'{k}="{v}"' for k, v in values.items()) + "/>"


BIRD = (
    point("left_eye", "12.50,22.00"),
    point("right_eye", "14.00,25.25", occluded="1"),
    point("tail", "1.00,1.00", outside="1"),
)


def read(path: Path, **options: Any) -> Found:
    return FORMAT.read(path, Options(**options))


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["", "annotations.xml"])
def test_skeletons(tmp_path: Path, name: str) -> None:
    body = image("a.jpg", skeleton(*BIRD), subset="Train") + image("b.jpg", subset="Validation")
    path = export(tmp_path, body) / name
    assert FORMAT.claims(path)
    found = read(path).instances
    assert found.skeleton == Skeleton(("tail", "left_eye", "right_eye"), ((1, 2), (0, 1)), ((1, 2),))
    assert found.images == (tmp_path / "images/a.jpg", tmp_path / "images/b.jpg")
    assert found.visibility.tolist() == [[0, 2, 1], [0, 0, 0]]
    assert found.keypoints[0].tolist() == [[0, 0], [12, 21.5], [13.5, 24.75]]  # half a pixel from the corner
    assert np.isnan(found.boxes).all()  # one to an image: the whole image
    assert found.classes == ("bird", "")
    assert found.splits == ("train", "val")
    assert found.ids == ("a.jpg#1", "b.jpg#1")


def test_two_skeletons_in_an_image_get_boxes(tmp_path: Path) -> None:
    found = read(export(tmp_path, image("a.jpg", skeleton(*BIRD), skeleton(*BIRD)))).instances
    assert found.ids == ("a.jpg#1", "a.jpg#2")
    assert found.boxes[0].tolist() == [12, 21.5, 2.5, 4.25]
    assert found.drawn is not None
    assert found.drawn.all()
    assert found.splits == ()


def test_a_group_ties_a_skeleton_to_its_box(tmp_path: Path) -> None:
    shapes = (skeleton(*BIRD, group_id="2"), box(group_id="1"), box("0.00 0.00 8.00 4.00", group_id="2"))
    found = read(export(tmp_path, image("a.jpg", *shapes))).instances
    assert found.boxes.tolist() == [[0, 0, 8, 4], [10, 20, 20.5, 40]]
    assert found.labelled.tolist() == [True, False]
    assert found.classes == ("bird", "box")
    assert found.drawn is not None
    assert not found.drawn.any()


def test_without_a_group_the_box_around_counts(tmp_path: Path) -> None:
    shapes = (skeleton(*BIRD), box("50 50 60 60"), box())
    found = read(export(tmp_path, image("a.jpg", *shapes))).instances
    assert found.boxes.tolist() == [[10, 20, 20.5, 40], [50, 50, 10, 10]]


def test_a_turned_box_is_set_upright(tmp_path: Path) -> None:
    found = read(export(tmp_path, image("a.jpg", box("10 20 50 30", rotation="90.00")))).instances
    np.testing.assert_allclose(found.boxes, [[25, 5, 10, 40]])  # about its centre (30, 25)


def test_points_of_one_group_are_one_object(tmp_path: Path) -> None:
    shapes = (
        point("left_eye", "3.50,4.50", group_id="1"),
        point("tail", "5.50,6.50", group_id="2", occluded="1"),
        point("tail", "7.50,8.50", group_id="1"),
        box("0 0 20 20", group_id="1"),
    )
    found = read(export(tmp_path, image("a.jpg", *shapes), POINTS)).instances
    assert found.skeleton is not None
    assert found.skeleton.keypoints == ("tail", "left_eye")  # as the task lists them; nobody has a right eye
    assert found.visibility.tolist() == [[2, 2], [1, 0]]
    assert found.keypoints.tolist() == [[[7, 8], [3, 4]], [[5, 6], [0, 0]]]
    assert found.boxes[0].tolist() == [0, 0, 20, 20]
    assert np.isnan(found.boxes[1]).all()


def test_points_without_groups(tmp_path: Path) -> None:
    loose = (point("left_eye", "3.50,4.50"), point("tail", "70.50,8.50"))
    body = image("a.jpg", *loose) + image("b.jpg", *loose, box("0 0 10 10"))
    found = read(export(tmp_path, body, POINTS)).instances
    assert found.ids == ("a.jpg#1", "b.jpg#1")  # one box: all points are its own
    assert found.visibility.tolist() == [[2, 2], [2, 2]]
    two = image("a.jpg", *loose, box("0 0 10 10"), box("60 0 80 20"))
    found = read(export(tmp_path, two, POINTS)).instances
    assert found.visibility.tolist() == [[0, 2], [2, 0]]


def test_points_beside_skeletons_are_left_out(tmp_path: Path) -> None:
    found = read(export(tmp_path, image("a.jpg", skeleton(*BIRD), point("wheel", "1,2;3,4"))))
    assert found.notes == ("annotations.xml: 1 points that are in no skeleton are left out.",)


def test_keypoints_and_images_options(tmp_path: Path) -> None:
    path = export(tmp_path, image("sub/a.jpg", skeleton(*BIRD)), images=())
    assert 'image "sub/a.jpg" does not exist under' in refusal(path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.jpg").touch()
    found = read(path, images=tmp_path / "elsewhere", keypoints=("t", "l", "r")).instances
    assert found.skeleton == Skeleton(("t", "l", "r"), ((1, 2), (0, 1)), ((1, 2),))
    assert found.visibility.tolist() == [[0, 2, 1]]
    assert "has 3 keypoints, --keypoints names 1." in refusal(path, images=tmp_path / "elsewhere", keypoints=("t",))


BROKEN = {
    "text": (point("tail", "a,b"), "\"tail\" has coordinates ['a', 'b'], expected 2 finite numbers."),
    "one number": (point("tail", "1"), "\"tail\" has coordinates ['1']"),
    "three numbers": (point("tail", "1,2,3"), '"tail" has coordinates'),
    "empty": (point("tail", ""), '"tail" has coordinates'),
    "nan": (point("tail", "nan,1"), '"tail" has coordinates'),
    "infinite": (point("tail", "1,inf"), '"tail" has coordinates'),
    "several": (point("tail", "1,2;3,4"), '"tail" holds 2 points. Give each keypoint a label of its own.'),
    "twice": (point("tail", "1,2") * 2, 'keypoint "tail" occurs twice'),
    "box without size": (box("10 20 10 30"), 'a box "box" has no size.'),
    "box of text": (box("10 20 x 30"), '"box" has coordinates'),
    "box upside down": (box("10 20 5 30"), 'a box "box" has no size.'),
    "two boxes in a group": (box(group_id="1") * 2, "a group has two boxes."),
    "in no box": (point("tail", "1,2") + box("5 5 9 9") + box("50 50 60 60"), 'point "tail" is inside 0 boxes.'),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_shapes(tmp_path: Path, case: str) -> None:
    shapes, complaint = BROKEN[case]
    path = export(tmp_path, image("a.jpg", shapes), POINTS)
    assert refusal(path).startswith(f'{tmp_path / "annotations.xml"}: image "a.jpg": {complaint}')


def test_skeletons_that_differ(tmp_path: Path) -> None:
    other = label("fish", "skeleton", svg=ESCAPED) + label("fin", parent="fish")
    fish = '<skeleton label="fish">' + point("fin", "1,2") + "</skeleton>"
    path = export(tmp_path, image("a.jpg", skeleton(*BIRD), fish), SKELETON + other)
    assert 'skeletons "bird" and "fish" differ' in refusal(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not a CVAT file"),
        (b"<annotations><version>1.1</version><image", "is not a CVAT file"),
        (b"<dataset></dataset>", "is not a CVAT file"),
        (b"<annotations></annotations>", "has no images."),
        (b"<annotations><image id='0'/></annotations>", "the image at place 0 has no name."),
        (b"<annotations><track id='0' label='x'/></annotations>", "is an export for video."),
        (
            b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><annotations>&b;</annotations>',
            "it has a document type",
        ),
    ],
)
def test_not_an_export(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "annotations.xml"
    path.write_bytes(content)
    assert complaint in refusal(path)


def test_two_images_of_one_file(tmp_path: Path) -> None:
    body = image("x/a.jpg") + image("y/a.jpg")
    assert "both lead to" in refusal(export(tmp_path, body, images=("a.jpg",)))
    twice = image("a.jpg") + image("a.jpg")
    assert 'image "a.jpg": occurs twice.' in refusal(export(tmp_path, twice, images=("a.jpg",)))


def test_claims_nothing_else(tmp_path: Path) -> None:
    assert not FORMAT.claims(tmp_path)
    assert not FORMAT.claims(tmp_path / "annotations.xml")
    (tmp_path / "other.xml").write_text("<annotation><folder>VOC</folder></annotation>")
    assert not FORMAT.claims(tmp_path / "other.xml")
