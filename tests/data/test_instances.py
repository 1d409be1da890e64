"""Instances: shapes, taking on a skeleton, joining sources."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.data.instances import Instances, join, plain_instances
from placl.data.skeleton import Skeleton
from placl.errors import InputError

BIRD = Skeleton(("beak", "tail"))


def plain(*names: str) -> Instances:
    n = len(names)
    images = tuple(Path(name) for name in names)
    return plain_instances(images, names, np.arange(n), np.full((n, 4), np.nan), np.full(n, np.nan, np.float32))


def labelled(*names: str, skeleton: Skeleton = BIRD, source: str = "ann.json") -> Instances:
    n, k = len(names), len(skeleton)
    return Instances(
        skeleton=skeleton,
        images=tuple(Path(name) for name in names),
        image_index=np.arange(n),
        boxes=np.tile([1.0, 2.0, 30.0, 40.0], (n, 1)),
        keypoints=np.full((n, k, 2), 7, np.float32),
        visibility=np.full((n, k), 2, np.uint8),
        area=np.full(n, 1200, np.float32),
        ids=tuple(f"{name}#{i}" for i, name in enumerate(names)),
        sources=(source,) * n,
    )


def test_plain_images_have_no_keypoints_until_they_take_on_a_skeleton() -> None:
    instances = plain("a.jpg", "b.jpg", "c.jpg")
    assert instances.keypoints.shape == (3, 0, 2)
    assert not instances.labelled.any()
    taken = instances.with_skeleton(BIRD)
    assert taken.skeleton == BIRD
    assert taken.keypoints.shape == (3, 2, 2)
    assert taken.keypoints.dtype == np.float32
    assert taken.visibility.tolist() == [[0, 0]] * 3
    assert taken.visibility.dtype == np.uint8
    assert len(taken) == 3


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_label_that_is_no_place_is_refused(number: float) -> None:
    points, visibility = np.full((2, 2, 2), 7, np.float32), np.array([[2, 2], [2, 0]], np.uint8)
    points[1, 1, 0] = number  # of a keypoint that is not labelled: nobody reads it
    bird = replace(labelled("a.jpg", "b.jpg"), keypoints=points, visibility=visibility)
    points[1, 0, 1] = number
    with pytest.raises(InputError, match=r"b\.jpg: keypoint 1 of b\.jpg#1 lies beyond"):
        replace(bird, keypoints=points)


def test_with_skeleton_keeps_labels_of_the_same_keypoints() -> None:
    with_edges = Skeleton(("beak", "tail"), edges=((0, 1),))
    taken = labelled("a.jpg").with_skeleton(with_edges)
    assert taken.skeleton == with_edges
    assert taken.keypoints.tolist() == [[[7, 7], [7, 7]]]


def test_with_skeleton_refuses_other_keypoints() -> None:
    with pytest.raises(InputError, match=r"tail, beak against beak, tail"):
        labelled("a.jpg").with_skeleton(Skeleton(("tail", "beak")))


def test_take_keeps_only_the_images_in_use() -> None:
    taken = labelled("a.jpg", "b.jpg", "c.jpg").take(np.array([2, 0]))
    assert taken.ids == ("c.jpg#2", "a.jpg#0")
    assert [taken.images[i].name for i in taken.image_index] == ["c.jpg", "a.jpg"]
    assert taken.sources == ("ann.json", "ann.json")


def test_join_gives_the_skeleton_to_plain_images_and_keeps_order() -> None:
    joined = join([plain("u.jpg"), labelled("a.jpg", "b.jpg")])
    assert joined.skeleton == BIRD
    assert joined.ids == ("u.jpg", "a.jpg#0", "b.jpg#1")
    assert joined.labelled.tolist() == [False, True, True]
    assert np.isnan(joined.boxes[0]).all()
    assert joined.boxes[1].tolist() == [1, 2, 30, 40]
    assert joined.sources == ("", "ann.json", "ann.json")
    assert joined.head_length is None


def test_join_of_plain_images_stays_without_skeleton() -> None:
    assert join([plain("a.jpg"), plain("b.jpg")]).skeleton is None


def test_join_lists_every_image_once() -> None:
    joined = join([labelled("a.jpg", "b.jpg"), plain("c.jpg", "b.jpg")])
    assert joined.images == (Path("a.jpg"), Path("b.jpg"), Path("c.jpg"))
    assert joined.image_index.tolist() == [0, 1, 2, 1]
    assert joined.sources == ("ann.json", "ann.json", "")


def test_join_numbers_the_source_of_an_id_that_is_taken() -> None:
    parts = [plain("a.jpg"), plain("a.jpg", "a.jpg@2"), plain("a.jpg")]
    assert join(parts).ids == ("a.jpg", "a.jpg@2@2", "a.jpg@2", "a.jpg@3")
    assert join(parts).ids == join(parts).ids


NAMES = st.lists(st.text(st.sampled_from("ab2#@"), min_size=1), min_size=1, unique=True)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_joined_ids_are_unique_and_only_ever_longer(names: list[list[str]]) -> None:
    image, whole = (Path("x.jpg"),), [np.nan] * 4
    parts = [
        plain_instances(image, tuple(n), np.zeros(len(n), int), np.tile(whole, (len(n), 1)), np.ones(len(n)))
        for n in names
    ]
    ids = join(parts).ids
    originals = [name for part in names for name in part]
    assert len(set(ids)) == len(originals)
    assert all(found.startswith(name) for found, name in zip(ids, originals, strict=True))
    assert ids[: len(names[0])] == tuple(names[0])


def test_join_names_both_lists_when_keypoints_differ() -> None:
    with pytest.raises(InputError) as caught:
        join([labelled("a.jpg"), labelled("b.jpg", skeleton=Skeleton(("nose", "ear", "paw")))])
    message = str(caught.value)
    assert "beak, tail" in message
    assert "nose, ear, paw" in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


def test_join_fills_unknown_head_lengths() -> None:
    one = labelled("a.jpg")
    known = Instances(**{**one.__dict__, "head_length": np.array([5], np.float32)})
    joined = join([known, plain("b.jpg")])
    assert joined.head_length is not None
    np.testing.assert_array_equal(joined.head_length, np.array([5, np.nan], np.float32))


def test_stated_sizes_stay_with_their_images() -> None:
    sized = replace(labelled("a.jpg", "b.jpg"), stated=np.array([[64.0, 48], [10, 20]]))
    assert sized.take(np.array([1])).stated.tolist() == [[10, 20]]
    found = join([plain("c.jpg", "b.jpg"), sized]).stated
    assert np.array_equal(found, [[np.nan, np.nan], [10, 20], [64, 48]], equal_nan=True)


def test_join_of_nothing_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="nothing to join"):
        join([])


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("boxes", np.zeros((2, 3)), "boxes has shape"),
        ("boxes", np.array([[0.0, 0, 5, 0], [0, 0, 5, 5]]), "no size"),
        ("visibility", np.zeros((2, 3), np.uint8), "visibility has shape"),
        ("image_index", np.array([0, 2]), "image_index points outside"),
        ("ids", ("a", "a"), "ids repeat"),
        ("images", (Path("a.jpg"), Path("a.jpg")), "images repeat"),
        ("head_length", np.zeros(3), "head_length has shape"),
        ("sources", ("x",), "sources has shape"),
    ],
)
def test_inconsistent_arrays_are_refused(field: str, value: object, complaint: str) -> None:
    fields = {**labelled("a.jpg", "b.jpg").__dict__, field: value}
    with pytest.raises(ValueError, match=complaint):
        Instances(**fields)
