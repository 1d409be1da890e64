"""The embedded animals: pure functions of (seed, index), labels on the drawn joints, left and right told apart."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO

from placl.data import synthetic
from placl.data import synthetic_drawing as drawing
from placl.data.pool import OCCLUDED, VISIBLE
from placl.data.synthetic import ANIMAL, BOX_JITTER, BOX_PADDING, KEYPOINTS, animals, write_animals
from placl.data.synthetic_drawing import BODY, FAR, NEAR, OVERSAMPLING, Animal, Capsule
from placl.errors import InputError

SIDE = 80
WHITE = (255.0, 255.0, 255.0)


def an_animal(seed: int) -> Animal:
    return synthetic.placed(synthetic.random_animal(np.random.default_rng(seed)), 51.2, (SIDE - 1) / 2 * (1 + 1j))


def clean_canvas(value: int = 0) -> np.ndarray:
    return np.full((SIDE * OVERSAMPLING, SIDE * OVERSAMPLING, 3), value, np.uint8)


def shrink(canvas: np.ndarray) -> np.ndarray:
    return cv2.resize(canvas, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def centroid(image: np.ndarray) -> complex:
    """The centre of mass of the first channel, pixel centres at integers."""
    weight = image[:, :, 0].astype(float)
    ys, xs = np.mgrid[:SIDE, :SIDE]
    return complex((weight * xs).sum() / weight.sum(), (weight * ys).sum() / weight.sum())


def paint_clean(animal: Animal, grey: int = 100, white: str = "") -> tuple[np.ndarray, np.ndarray]:
    """The animal alone on black, in a plain grey coat: the image and which keypoints it hides itself."""
    canvas = clean_canvas()
    _, hidden = drawing.paint_animal(canvas, animal, clean_canvas(grey), {white: WHITE}, outline=False)
    return shrink(canvas), hidden


def read_image(path: Path) -> np.ndarray:
    image = cv2.imread(str(path))
    assert image is not None
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def test_first_instances_do_not_depend_on_the_count() -> None:
    few, many = animals(100, 0), animals(200, 0)
    assert np.array_equal(few.crops, many.crops[:100])
    assert np.array_equal(few.keypoints, many.keypoints[:100])
    assert np.array_equal(few.visibility, many.visibility[:100])
    assert np.array_equal(few.area, many.area[:100])
    assert few.ids == many.ids[:100]


def test_same_seed_same_bits_and_other_seed_other_animals() -> None:
    first, again, other = animals(5, 3), animals(5, 3), animals(5, 4)
    assert np.array_equal(first.crops, again.crops)
    assert np.array_equal(first.keypoints, again.keypoints)
    assert not np.isclose(first.keypoints, other.keypoints).all(axis=(1, 2)).any()
    assert first.ids == tuple(f"animal-3-{i}" for i in range(5))


@pytest.mark.parametrize(("size", "margin", "side"), [(64, 1.25, 80), (64, 1.0, 64), (64, 1.1, 70), (96, 1.25, 120)])
def test_crops_have_the_margin_and_the_view_their_size(size: int, margin: float, side: int) -> None:
    pool = animals(3, 0, size, margin)
    assert pool.crops.shape == (3, side, side, 3)
    assert pool.crops.dtype == np.uint8
    assert pool.view == size
    assert pool.length.tolist() == pytest.approx([size / 1.25] * 3)
    assert np.array_equal(pool.in_image(pool.keypoints), pool.keypoints)


def test_boxes_are_centred_and_as_long_as_a_context_of_1_25_gives() -> None:
    pool = animals(60, 1)
    low, high = pool.keypoints.min(axis=1), pool.keypoints.max(axis=1)  # (N, 2)
    longest = (high - low).max(axis=1) * (1 + 2 * BOX_PADDING)
    assert np.abs(longest / pool.length - 1).max() <= BOX_JITTER + 1e-4
    assert np.abs(longest / pool.length - 1).max() > BOX_JITTER / 2
    assert np.abs((low + high) / 2 - (pool.crop_size - 1) / 2).max() <= BOX_JITTER * 51.2 + 1e-3


def test_visibility_area_and_keypoints_are_those_of_animals() -> None:
    pool = animals(100, 2)
    assert set(np.unique(pool.visibility)) == {OCCLUDED, VISIBLE}
    assert 0.1 < (pool.visibility == OCCLUDED).mean() < 0.35
    edge = (pool.crop_size - pool.view) / 2
    assert pool.keypoints.min() >= edge
    assert pool.keypoints.max() <= pool.crop_size - 1 - edge
    assert (pool.area > 60).all()
    assert (pool.area < 0.7 * 51.2**2).all()


def test_skeleton_pairs_left_with_right_and_joins_every_keypoint() -> None:
    assert len(ANIMAL) == 14
    assert {(KEYPOINTS[a].replace("left", "right"), KEYPOINTS[b]) for a, b in ANIMAL.flip_pairs} == {
        (name, name) for name in KEYPOINTS if name.startswith("right")
    }
    assert {i for edge in ANIMAL.edges for i in edge} == set(range(14))
    assert len(ANIMAL.edges) == 14 - 1  # nose, ears and neck hang together as a tree


@pytest.mark.parametrize("seed", range(40))
def test_an_animal_that_faces_right_shows_its_right_side(seed: int) -> None:
    animal = synthetic.random_animal(np.random.default_rng(seed))
    at = dict(zip(KEYPOINTS, animal.keypoints, strict=True))
    depth = dict(zip(KEYPOINTS, animal.depth, strict=True))
    paws = sum(z for name, z in at.items() if name.endswith("paw")) / 4 - (at["neck"] + at["tail_base"]) / 2
    # Upright and facing right, the paws lie clockwise of the heading (y runs downwards): leaning does not change that.
    faces_right = (paws / animal.heading).imag > 0
    near, far = ("right", "left") if faces_right else ("left", "right")
    assert {depth[name] for name in KEYPOINTS if name.startswith(near)} == {NEAR}
    assert {depth[name] for name in KEYPOINTS if name.startswith(far)} == {FAR}


def test_near_paws_are_lighter_than_far_paws() -> None:
    for seed in range(20):
        animal = an_animal(seed)
        image, hidden = paint_clean(animal)
        value: dict[int, list[int]] = {FAR: [], NEAR: []}
        for name, z, depth, unseen in zip(KEYPOINTS, animal.keypoints, animal.depth, hidden, strict=True):
            if name.endswith("paw") and not unseen:
                value[depth].append(int(image[round(z.imag), round(z.real), 0]))
        assert min(value[NEAR]) > 1.5 * max(value[FAR], default=0)


@pytest.mark.parametrize("seed", range(8))
def test_a_mirrored_image_with_swapped_pairs_is_a_valid_instance(seed: int) -> None:
    animal = an_animal(seed)
    mirrored = animal.moved(lambda z: SIDE - 1 - z.conjugate(), 1.0, ANIMAL.flip_order.tolist())
    for k, j in enumerate(ANIMAL.flip_order):
        assert mirrored.keypoints[k] == pytest.approx(complex(SIDE - 1, 0) - animal.keypoints[j].conjugate())
    image, hidden = paint_clean(animal)
    flipped, flipped_hidden = paint_clean(mirrored)
    assert np.abs(image[:, ::-1].astype(int) - flipped).mean() < 1
    assert (hidden[ANIMAL.flip_order] == flipped_hidden).mean() > 0.9  # but for rounding at an edge


@settings(deadline=None, max_examples=40)
@given(st.floats(15, 60), st.floats(15, 60), st.floats(1, 8))
def test_a_disc_is_drawn_within_half_a_pixel(x: float, y: float, radius: float) -> None:
    canvas = clean_canvas()
    drawing.draw_disc(canvas, complex(x, y), radius, WHITE)
    assert abs(centroid(shrink(canvas)) - complex(x, y)) < (0.5 if radius < 1.5 else 0.25)


def test_discs_are_off_to_no_side() -> None:
    errors = []
    for x, y, radius in np.random.default_rng(0).uniform((20, 20, 1), (60, 60, 5), (300, 3)).tolist():
        canvas = clean_canvas()
        drawing.draw_disc(canvas, complex(x, y), radius, WHITE)
        errors.append(centroid(shrink(canvas)) - complex(x, y))
    assert abs(np.mean(errors)) < 0.03


@pytest.mark.parametrize("kind", ["nose", "paw"])
def test_noses_and_paws_are_drawn_on_their_keypoints(kind: str) -> None:
    ys, xs = np.mgrid[:SIDE, :SIDE]
    measured = 0
    for animal in map(an_animal, range(30)):
        image, _ = paint_clean(animal, grey=0, white=kind)  # white discs on a black animal
        marks = [mark for layer in animal.marks for mark in layer if mark.kind == kind]
        named = {z for name, z in zip(KEYPOINTS, animal.keypoints, strict=True) if name.endswith(kind)}
        assert {mark.centre for mark in marks} == named
        for mark in marks:
            alone = all(abs(other.centre - mark.centre) > 2.2 * mark.radius + 2 for other in marks if other is not mark)
            window = image * (np.abs(xs + 1j * ys - mark.centre) < 1.2 * mark.radius + 1)[:, :, None]
            uncovered = window[:, :, 0].sum() / max(1, window.max()) > np.pi * mark.radius**2
            if alone and uncovered:  # drawn a little larger than said, so anything less is behind something
                assert abs(centroid(window) - mark.centre) < 0.5
                measured += 1
    assert measured >= 15


def test_a_keypoint_is_hidden_by_later_layers_and_by_occluders() -> None:
    body = Capsule(20 + 20j, 6, 50 + 20j, 6)
    # On the far layer behind the body, on the body itself, and far but beside the body.
    points = (30 + 22j, 40 + 20j, 30 + 60j)
    animal = Animal(points, (FAR, BODY, FAR), ((), (body,), ()), ((), (), ()), heading=1 + 0j, unit=30.0)
    image, hidden = paint_clean(animal, grey=100)
    assert hidden.tolist() == [True, False, False]
    assert image[20, 35, 0] == 80
    assert image[60, 30, 0] == 0
    mask = clean_canvas()[:, :, 0].copy()
    drawing.draw_polygon(mask, (25 + 55j, 35 + 55j, 35 + 65j, 25 + 65j), WHITE)
    assert drawing.covered(mask, animal).tolist() == [False, False, True]


def test_written_animals_load_as_coco_keypoints(tmp_path: Path) -> None:
    path = write_animals(tmp_path / "zoo", 6, seed=5)
    coco = COCO(str(path))
    assert sorted(p.name for p in (tmp_path / "zoo" / "images").iterdir()) == [f"{i:06d}.jpg" for i in range(6)]
    (category,) = coco.loadCats(coco.getCatIds())
    assert tuple(category["keypoints"]) == KEYPOINTS
    assert [(a - 1, b - 1) for a, b in category["skeleton"]] == list(ANIMAL.edges)
    assert [tuple(pair) for pair in category["flip_pairs"]] == list(ANIMAL.flip_pairs)
    for annotation in coco.loadAnns(coco.getAnnIds()):
        (image,) = coco.loadImgs(annotation["image_id"])
        assert read_image(tmp_path / "zoo" / image["file_name"]).shape == (image["height"], image["width"], 3)
        triples = np.array(annotation["keypoints"]).reshape(-1, 3)
        assert len(triples) == annotation["num_keypoints"] == 14
        assert set(triples[:, 2]) <= {OCCLUDED, VISIBLE}
        x, y, w, h = annotation["bbox"]
        assert min(x, y) >= 0
        assert max(x + w, y + h) <= 127.01
        padding = BOX_PADDING * max(w, h) / (1 + 2 * BOX_PADDING)
        assert triples[:, :2].min(axis=0) == pytest.approx([x + padding, y + padding], abs=0.02)
        assert triples[:, :2].max(axis=0) == pytest.approx([x + w - padding, y + h - padding], abs=0.02)
        assert 0 < annotation["area"] < 128 * 128


def test_written_images_keep_their_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    red = np.zeros((32, 32, 3), np.uint8)
    red[:, :, 0] = 255
    monkeypatch.setattr(synthetic, "paint_scene", lambda rng, animal, side: (red, np.zeros(14, bool), 1.0))
    write_animals(tmp_path, 1, seed=0, size=32)
    stored = read_image(tmp_path / "images" / "000000.jpg")
    assert np.abs(stored[16, 16].astype(int) - (255, 0, 0)).max() <= 3


def test_writing_twice_gives_the_same_files(tmp_path: Path) -> None:
    first, second = write_animals(tmp_path / "a", 2, seed=1), write_animals(tmp_path / "b", 2, seed=1)
    assert json.loads(first.read_text()) == json.loads(second.read_text())
    assert len({(path.parent / "images/000001.jpg").read_bytes() for path in (first, second)}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 64, 1.25), "synthetic animals: count is 0. Pass a count of at least 1."),
        ((5, -1, 64, 1.25), "synthetic animals: seed is -1. Pass a seed of at least 0."),
        ((5, 0, 8, 1.25), "synthetic animals: size is 8. Pass a size of at least 16."),
        ((5, 0, 64, 0.9), "synthetic animals: margin is 0.9. Pass a margin of at least 1."),
    ],
)
def test_bad_numbers_are_told_in_one_line(arguments: tuple[int, int, int, float], message: str) -> None:
    with pytest.raises(InputError) as error:
        animals(*arguments)
    assert str(error.value) == message


def test_left_and_right_can_be_told_apart_by_where_they_are() -> None:
    # They come towards the viewer, so their left is to the right of the image: a mirrored animal's too.
    pool = animals(400, 5)
    where = dict(zip(KEYPOINTS, pool.keypoints.transpose(1, 0, 2), strict=True))  # (N, 2) each
    for part in ("ear", "front_knee", "front_paw", "hind_knee", "hind_paw"):
        between = where[f"left_{part}"] - where[f"right_{part}"]
        assert (between[:, 0] > 0).mean() > 0.9, part
        if part.endswith("paw"):
            assert np.median(np.linalg.norm(between, axis=1) / pool.length) > 0.15  # beyond what PCK@0.1 forgives
