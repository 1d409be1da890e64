"""Pictures of predictions: colours by side, filled and hollow, one picture or many."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from dots import DOTS, dot_picture
from placl.data.skeleton import Skeleton
from placl.outputs.predictions import Predictions
from placl.overlay import LEFT, MIDDLE, PAPER, RIGHT, contact_sheet, dot_colours, draw, keypoint_colours, save_overlay

BLACK = np.zeros((60, 80, 3), np.uint8)
POINTS = np.array([[[10.0, 20.0], [40.0, 30.0], [70.0, 20.0]]])
SURE = np.ones((1, 3), np.float32)
NO_EDGES = Skeleton(DOTS.keypoints, flip_pairs=DOTS.flip_pairs)


def predictions(folder: Path, names: list[str], same_image: bool = False) -> Predictions:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), dot_picture(np.zeros((0, 3, 2))))
    n = len(names)
    return Predictions(
        keypoints=np.repeat(POINTS, n, axis=0),
        confidence=np.repeat(SURE, n, axis=0),
        boxes=np.tile([5.0, 5, 80, 50], (n, 1)),
        files=tuple(folder / (names[0] if same_image else name) for name in names),
        names=tuple(names),
        image_ids=tuple(range(n)),
        category_ids=(1,) * n,
        skeleton=DOTS,
    )


def size(path: Path) -> tuple[int, int]:
    image = cv2.imread(str(path))
    assert image is not None
    return image.shape[1], image.shape[0]


def near(pixels: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """Smooth lines are hardly anywhere of their full colour."""
    return np.asarray((np.abs(pixels.astype(int) - colour) < 40).all(axis=-1))


def test_sides_are_told_by_name_else_by_order() -> None:
    assert keypoint_colours(DOTS) == [LEFT, MIDDLE, RIGHT]
    assert keypoint_colours(Skeleton(("r_paw", "l_paw"), flip_pairs=((0, 1),))) == [RIGHT, LEFT]
    assert keypoint_colours(Skeleton(("a", "b"), flip_pairs=((0, 1),))) == [LEFT, RIGHT]


def test_without_pairs_each_dot_has_its_own_colour() -> None:
    three = Skeleton(("a", "b", "c"))
    assert dot_colours(three) == [(255, 51, 51), (51, 255, 51), (51, 51, 255)]
    canvas = draw(BLACK, POINTS, SURE, three)
    assert [tuple(canvas[y, x]) for x, y in POINTS[0].astype(int)] == dot_colours(three)
    assert dot_colours(DOTS) == keypoint_colours(DOTS)


def test_dots_are_where_the_keypoints_are() -> None:
    canvas = draw(BLACK, POINTS, SURE, NO_EDGES)
    for (x, y), colour in zip(POINTS[0].astype(int), (LEFT, MIDDLE, RIGHT), strict=True):
        assert tuple(canvas[y, x]) == colour
    assert not canvas[50:].any()
    assert not BLACK.any()  # the image itself is left alone


def test_enlarged_pictures_keep_dots_on_their_pixels() -> None:
    canvas = draw(BLACK, POINTS, SURE, NO_EDGES, zoom=8)
    assert canvas.shape == (480, 640, 3)
    ys, xs = np.nonzero((canvas == LEFT).all(axis=2))
    # pixel centres: (x + 0.5) * 8 - 0.5
    assert (xs.mean(), ys.mean()) == pytest.approx((83.5, 163.5), abs=0.5)


def test_edges_take_the_side_they_lead_to() -> None:
    canvas = draw(BLACK, POINTS, SURE, DOTS)
    assert near(canvas[25, 25], LEFT)
    assert near(canvas[25, 55], RIGHT)


def test_weak_keypoints_are_hollow_and_those_below_the_threshold_gone() -> None:
    trust = np.array([[0.1, 0.2, 0.9]], np.float32)
    canvas = draw(BLACK, POINTS, trust, NO_EDGES, zoom=4)
    assert tuple(canvas[81, 41]) == PAPER
    assert near(canvas[70:92, 30:52], LEFT).any()
    sparse = draw(BLACK, POINTS, trust, DOTS, zoom=4, threshold=0.15)
    assert not near(sparse, LEFT).any()
    assert tuple(sparse[81, 281]) == RIGHT


def test_boxes_are_drawn_unless_they_are_the_image() -> None:
    unseen = np.zeros((1, 3), np.float32)
    boxed = draw(BLACK, POINTS, unseen, DOTS, boxes=np.array([[10.0, 10, 40, 30]]), threshold=0.5)
    whole = draw(BLACK, POINTS, unseen, DOTS, boxes=np.array([[0.0, 0, 80, 60]]), threshold=0.5)
    assert boxed[10:40, 9:11].any()
    assert not boxed[15:35, 15:45].any()
    assert not whole.any()


def test_keypoints_far_outside_do_no_harm() -> None:
    far = POINTS.copy()
    far[0, 0] = [-1e9, 1e12]
    assert draw(BLACK, far, SURE, DOTS).shape == BLACK.shape


def test_a_contact_sheet_is_wider_than_high() -> None:
    sheet = contact_sheet([np.full((232, 232, 3), 200, np.uint8)] * 24, ["a" * 200] * 24, "24 of 100 images")
    assert sheet.shape[1] > sheet.shape[0]
    assert (sheet == 200).all(axis=2).sum() >= 24 * 232 * 232


def test_one_image_one_picture(tmp_path: Path) -> None:
    found = predictions(tmp_path, ["a.png", "b.png"], same_image=True)
    assert save_overlay(found, DOTS, tmp_path / "out" / "o.png") == [tmp_path / "out" / "o.png"]
    assert size(tmp_path / "out" / "o.png") == (720, 288)


def test_several_images_one_sheet(tmp_path: Path) -> None:
    found = predictions(tmp_path, [f"{i}.png" for i in range(30)])
    save_overlay(found, DOTS, tmp_path / "o.jpg")
    assert size(tmp_path / "o.jpg") == (6 * 244 + 12, 4 * 266 + 12 + 30)


def test_a_folder_gets_a_picture_for_each_image(tmp_path: Path) -> None:
    found = predictions(tmp_path / "in", ["x/a.png", "x/a.jpg", "b.png"])
    written = save_overlay(found, DOTS, tmp_path / "out")
    assert [file.name for file in written] == ["x_a.png", "x_a_2.png", "b.png"]
    assert all(file.exists() for file in written)


def test_an_image_that_has_vanished_leaves_a_grey_tile(tmp_path: Path) -> None:
    found = predictions(tmp_path, ["a.png", "b.png"])
    (tmp_path / "a.png").unlink()
    save_overlay(found, DOTS, tmp_path / "o.png")
    assert cv2.imread(str(tmp_path / "o.png"))[100, 100].tolist() == [60, 60, 60]
