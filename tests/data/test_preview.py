"""Previews: which instances are shown, where dots land, what the page says."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import cv2
import numpy as np
import pytest

from placl.data.instances import Instances
from placl.data.preview import GREY, TILE, choose, contact_sheet, palette, view_of
from placl.data.skeleton import Skeleton
from placl.overlay import CAPTION, GAP, LEFT, PAPER

SKELETON = Skeleton(("left_eye", "nose", "right_eye"), edges=((0, 1), (1, 2)), flip_pairs=((0, 2),))
POINTS = np.array([[[20.0, 30], [49.5, 60], [80, 30]]], np.float32)


def instances(folder: Path, n: int = 1, skeleton: Skeleton | None = SKELETON) -> Instances:
    """White pictures of 100 x 100, the first keypoint of each visible, the second unlabelled, the third occluded."""
    for i in range(n):
        cv2.imwrite(str(folder / f"{i}.png"), np.full((100, 100, 3), 255, np.uint8))
    k = 0 if skeleton is None else len(skeleton)
    visibility = np.tile(np.array([2, 0, 1], np.uint8)[:k], (n, 1))
    return Instances(
        skeleton=skeleton,
        images=tuple(folder / f"{i}.png" for i in range(n)),
        image_index=np.arange(n),
        boxes=np.full((n, 4), np.nan),
        keypoints=np.repeat(POINTS[:, :k], n, axis=0),
        visibility=visibility,
        area=np.full(n, np.nan, np.float32),
        ids=tuple(f"{i}.png#1" for i in range(n)),
    )


def pixels(path: Path) -> np.ndarray:
    image = cv2.imread(str(path))
    assert image is not None
    return image[..., ::-1]


def near(pixel: np.ndarray, colour: tuple[int, int, int], apart: int = 25) -> bool:
    return bool((np.abs(pixel.astype(int) - colour) <= apart).all())


def on_sheet(x: float, y: float, side: float = 100.0) -> tuple[int, int]:
    """Row and column of a point in the first tile of a sheet, whose image has the given side."""
    zoom = TILE / side
    return round(GAP + (y + 0.5) * zoom - 0.5), round(GAP + (x + 0.5) * zoom - 0.5)


def test_dots_are_where_the_keypoints_are(tmp_path: Path) -> None:
    png, html = contact_sheet(instances(tmp_path), tmp_path / "out" / "look")
    assert (png, html) == (tmp_path / "out" / "look.png", tmp_path / "out" / "look.html")
    sheet, colours = pixels(png), palette(SKELETON)
    assert near(sheet[on_sheet(20, 30)], colours[0])  # visible: filled
    assert near(sheet[on_sheet(80, 30)], PAPER)  # occluded: hollow,
    row, column = on_sheet(80, 30)
    ring = sheet[row - 5 : row + 6, column - 5 : column + 6].reshape(-1, 3)
    assert any(near(pixel, colours[2]) for pixel in ring)  # with a ring of its colour
    assert sheet[on_sheet(49.5, 60)].tolist() == [255, 255, 255]  # unlabelled: nothing
    assert sheet[on_sheet(50, 30)].tolist() == [255, 255, 255]  # and no edges to it


def test_edges_have_the_colour_of_their_side(tmp_path: Path) -> None:
    found = instances(tmp_path)
    found.visibility[:] = 2
    sheet = pixels(contact_sheet(found, tmp_path / "o.png")[0])
    assert near(sheet[on_sheet(34.75, 45)], LEFT, 40)


def test_a_box_is_shown_with_what_is_around_it(tmp_path: Path) -> None:
    found = replace(instances(tmp_path), boxes=np.array([[10.0, 20, 80, 40]]))
    view = view_of(found, 0, side=200)
    assert view.crop is not None
    assert view.crop.shape == (200, 200, 3)
    # 1.25 * 80 px become 200: 2 to 1, and the box's centre, (50, 40) from the corner, is the crop's.
    np.testing.assert_allclose(view.box, [20, 60, 160, 80], atol=1e-9)
    np.testing.assert_allclose(view.keypoints + 0.5, (POINTS[0] + 0.5 - [50, 40]) * 2 + 100, atol=1e-5)
    assert not view.crop[:18].any()  # above the image
    assert (view.crop[24:] == 255).all()


def test_left_is_warm_right_is_cold_and_all_differ() -> None:
    names = (*(f"{side}_{part}" for part in "abcdefgh" for side in ("left", "right")), "nose", "tail")
    skeleton = Skeleton(names, flip_pairs=tuple((i, i + 1) for i in range(0, 16, 2)))
    colours = palette(skeleton)
    assert len(set(colours)) == 18
    assert all(red > 200 and red > blue for red, _, blue in colours[0:16:2])
    assert all(blue > 200 and blue > red for red, _, blue in colours[1:16:2])
    assert all(green > max(red, blue) or green == 255 for red, green, blue in colours[16:])
    assert len(set(palette(Skeleton(("a", "b", "c"))))) == 3


def test_labelled_ones_come_first_and_every_class_is_there(tmp_path: Path) -> None:
    found = replace(instances(tmp_path, 60), classes=("dog",) * 50 + ("cat",) * 6 + ("cow",) * 4)
    found.visibility[40:50] = 0
    rows = choose(found, 12, seed=0)
    assert sorted(found.classes[row] for row in rows) == ["cat"] * 4 + ["cow"] * 4 + ["dog"] * 4
    assert found.labelled[rows].all()
    assert rows.tolist() == sorted(rows.tolist())
    np.testing.assert_array_equal(rows, choose(found, 12, seed=0))
    assert rows.tolist() != choose(found, 12, seed=1).tolist()
    everything = choose(found, 100, seed=0)
    assert sorted(everything.tolist()) == list(range(60))
    assert everything[-10:].tolist() == list(range(40, 50))  # unlabelled last
    found.visibility[:] = 0
    found.visibility[7] = 2
    assert choose(found, 3, seed=0)[0] == 7


def test_a_sheet_shows_as_many_as_asked_for(tmp_path: Path) -> None:
    png, html = contact_sheet(instances(tmp_path, 10), tmp_path / "o.png", count=6)
    assert (pixels(png) == 255).all(axis=2).sum() > 6 * 0.9 * TILE * TILE
    assert (pixels(png) == 255).all(axis=2).sum() < 7 * TILE * TILE
    assert html.read_text().count("<figure>") == 6
    assert "6 of 10 instances" in html.read_text()


def test_the_legend_has_every_colour_and_as_many_lines_as_it_needs(tmp_path: Path) -> None:
    many = Skeleton(tuple(f"a keypoint of a long name {i}" for i in range(9)))
    found = instances(tmp_path, skeleton=None).with_skeleton(many)
    sheet = pixels(contact_sheet(found, tmp_path / "o.png")[0])
    legend = sheet[GAP + TILE + CAPTION + GAP :].reshape(-1, 3)
    assert len(legend) / sheet.shape[1] > 9 * 15
    for colour in palette(many):
        assert (legend == colour).all(axis=1).any()


def test_plain_images_need_no_skeleton(tmp_path: Path) -> None:
    png, html = contact_sheet(instances(tmp_path, 2, skeleton=None), tmp_path / "o.png")
    assert (pixels(png)[GAP : GAP + TILE, GAP : GAP + TILE] == 255).all()
    assert "<circle" not in html.read_text()
    assert html.read_text().count("unlabelled") == 2


def test_an_unreadable_image_is_a_grey_tile_that_says_why(tmp_path: Path) -> None:
    found = instances(tmp_path, 2)
    (tmp_path / "0.png").write_bytes(b"")
    png, html = contact_sheet(found, tmp_path / "o.png")
    tile = pixels(png)[GAP : GAP + TILE, GAP : GAP + TILE]
    assert tuple(tile[3, 3]) == GREY
    assert (tile > 150).any()  # the words
    assert '<div class="gone">the file is empty</div>' in html.read_text()
    assert html.read_text().count("<circle") == 2  # those of the other image


class Strict(HTMLParser):
    """Tags in order, and every attribute that could lead outside."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "data", "xlink:href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


EVIL = '<script>alert("1")</script>&'


def test_the_page_is_escaped_and_needs_nothing_from_outside(tmp_path: Path) -> None:
    found = instances(tmp_path)
    skeleton = replace(SKELETON, keypoints=(f"left{EVIL}", "nose", "right_eye"))
    found = replace(found, skeleton=skeleton, ids=(f"0.png#{EVIL}",), classes=(f"dog{EVIL}",), splits=(f"train{EVIL}",))
    (tmp_path / "0.png").rename(tmp_path / "<b>&.png")
    found = replace(found, images=(tmp_path / "<b>&.png",))
    text = contact_sheet(found, tmp_path / "o.png")[1].read_text()
    reader = Strict()
    reader.feed(text)
    assert "script" not in reader.tags
    assert reader.tags.count("b") == 1  # around the file's name
    assert {f"left{EVIL}", f"0.png#{EVIL}", f"dog{EVIL}", f"train{EVIL}", "<b>&.png"} <= set(reader.words)
    assert len(reader.links) == 1
    assert reader.links[0].startswith("data:image/jpeg;base64,")
    assert not re.search(r"https?://|@import|url\(", text)
    assert "prefers-color-scheme:dark" in text


def test_the_page_has_keypoints_where_they_are(tmp_path: Path) -> None:
    text = contact_sheet(instances(tmp_path), tmp_path / "o.png")[1].read_text()
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)".*?<title>(.*?)</title>', text)
    zoom = 2 * TILE / 100
    expected = [(20.5, 30.5, "left_eye"), (80.5, 30.5, "right_eye (occluded)")]
    assert [title for _, _, title in circles] == [title for _, _, title in expected]
    for (x, y, _), (u, v, _) in zip(circles, expected, strict=True):
        assert (float(x), float(y)) == pytest.approx((u * zoom, v * zoom), abs=0.06)
    assert "2 of 3 keypoints" in text


def test_names_of_the_two_files(tmp_path: Path) -> None:
    found = instances(tmp_path)
    for given, expected in (("a", "a.png"), ("a.v1", "a.v1.png"), ("a.html", "a.png"), ("a.jpg", "a.jpg")):
        png, html = contact_sheet(found, tmp_path / "out" / given)
        assert png.name == expected
        assert html == png.with_suffix(".html")
        assert png.exists()
        assert html.exists()


@pytest.mark.realdata
def test_real_people(shared: Path, tmp_path: Path) -> None:
    from placl.data.formats.coco import read_coco

    png, html = contact_sheet(read_coco(shared / "formats/coco/test_coco.json"), tmp_path / "o.png")
    assert pixels(png).shape[1] == 5 * (TILE + GAP) + GAP  # 14 instances
    assert html.read_text().count("<figure>") == 14
    assert html.read_text().count("<circle") == 181  # labelled keypoints
