"""Splits: every instance has one role, images are never divided, and training reaches no label it may not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.data.splits import Split, draw_split, fingerprint, make_problem, take_ids
from placl.errors import InputError

fractions = st.floats(0.05, 0.95)


def make_pool(images: list[int]) -> Pool:
    """Instances on the images of the given numbers; a crop's pixels hold the instance's number."""
    n = len(images)
    return Pool(
        skeleton=Skeleton(("a", "b")),
        crops=np.arange(n, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8),
        rows=np.arange(n),
        keypoints=np.random.default_rng(0).random((n, 2, 2), np.float32),
        visibility=np.full((n, 2), 2, np.uint8),
        length=np.full(n, 7, np.float32),
        area=np.full(n, 9, np.float32),
        to_image=np.tile([1.0, 0.0, 0.0], (n, 1)),
        image=np.array(images, np.int64),
        ids=tuple(f"im{image}.jpg#{i}" for i, image in enumerate(images)),
        view=2.0,
    )


def draw(pool: Pool, source: list[str] | np.ndarray, *, label: float = 0.5, val: float = 0.2, test: float = 0.2,
         seed: int = 0) -> Split:  # fmt: skip
    return draw_split(
        pool, np.asarray(source, "<U10"), label_fraction=label, val_fraction=val, test_fraction=test, seed=seed
    )


def images_of(ids: tuple[str, ...]) -> set[str]:
    return {image_of(name) for name in ids}


def image_of(name: str) -> str:
    """The names of this page's pools tell the image."""
    return name.rpartition("#")[0]


# --- drawing


@settings(max_examples=60, deadline=None)
@given(images=st.lists(st.integers(0, 12), min_size=1, max_size=40), label=fractions, val=st.floats(0, 0.9),
       test=st.floats(0, 0.9), seed=st.integers(0, 2**32))  # fmt: skip
def test_a_labelled_file_is_divided_completely_between_images(
    images: list[int], label: float, val: float, test: float, seed: int
) -> None:
    pool = make_pool(images)
    split = draw(pool, ["labelled"] * len(images), label=label, val=val, test=test, seed=seed)
    everyone = [name for ids in split.roles().values() for name in ids]
    assert sorted(everyone) == sorted(pool.ids)  # complete, and each once
    homes = Counter(image for ids in split.roles().values() for image in images_of(ids))
    assert max(homes.values()) == 1  # no image is in two parts


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 300), label=fractions, val=fractions, test=fractions)
def test_sizes_with_one_instance_an_image(count: int, label: float, val: float, test: float) -> None:
    split = draw(make_pool(list(range(count))), ["labelled"] * count, label=label, val=val, test=test)
    tested = round(test * count)
    validated = round(val * (count - tested))
    rest = count - tested - validated
    labelled = max(1, round(label * rest)) if rest else 0
    hidden = rest - labelled
    sizes = {role: len(ids) for role, ids in split.roles().items()}
    assert sizes == {
        "labelled": labelled,
        "half_1": -(-hidden // 2),
        "half_2": hidden // 2,
        "val": validated,
        "test": tested,
    }


@settings(max_examples=60, deadline=None)
@given(images=st.lists(st.integers(0, 8), min_size=2, max_size=40), seed=st.integers(0, 2**32))
def test_halves_differ_by_no_more_than_one_images_instances(images: list[int], seed: int) -> None:
    split = draw(make_pool([99, *images]), ["labelled"] + ["unlabelled"] * len(images), val=0, test=0, seed=seed)
    assert abs(len(split.half_1) - len(split.half_2)) <= max(Counter(images).values())
    assert len(split.half_1) + len(split.half_2) == len(images)
    if len(set(images)) > 1:
        assert split.half_2


def test_halves_by_hand() -> None:
    # Images of 4, 4 and 2 instances: whatever their order, a cut after 4 or 6 is nearer to the middle than one after 8.
    for seed in range(10):
        split = draw(make_pool([9] + [0] * 4 + [1] * 4 + [2] * 2), ["labelled"] + ["unlabelled"] * 10, val=0, test=0,
                     seed=seed)  # fmt: skip
        assert sorted((len(split.half_1), len(split.half_2))) == [4, 6]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), images=st.lists(st.integers(0, 10), min_size=4, max_size=40), seed=st.integers(0, 2**32))
def test_no_image_of_val_or_test_is_trained_on(data: st.DataObject, images: list[int], seed: int) -> None:
    # A labelled file holds instances without keypoints too; they count as unlabelled, but their image is one image.
    source = data.draw(
        st.lists(st.sampled_from(["labelled", "unlabelled"]), min_size=len(images), max_size=len(images))
    )
    pool = make_pool(images)
    split = draw(pool, source, seed=seed)
    trained = images_of(split.labelled + split.half_1 + split.half_2)
    exam = images_of(split.val + split.test)
    assert not trained & exam
    assert not images_of(split.half_1) & images_of(split.half_2)
    left_out = set(pool.ids) - {name for ids in split.roles().values() for name in ids}
    assert all(source[pool.ids.index(name)] == "unlabelled" and image_of(name) in exam for name in left_out)


def test_files_named_for_val_and_test_are_taken_whole() -> None:
    pool = make_pool(list(range(20)))
    source = np.repeat(["labelled", "val", "test", "unlabelled"], 5)
    split = draw(pool, source, label=1.0, val=0.5, test=0.5)
    assert set(split.labelled) == set(pool.ids[:5])
    assert split.val == pool.ids[5:10]
    assert split.test == pool.ids[10:15]
    assert set(split.half_1 + split.half_2) == set(pool.ids[15:])


def test_one_seed_one_split() -> None:
    pool = make_pool(list(range(50)))
    assert draw(pool, ["labelled"] * 50, seed=3) == draw(pool, ["labelled"] * 50, seed=3)
    assert draw(pool, ["labelled"] * 50, seed=3) != draw(pool, ["labelled"] * 50, seed=4)


def test_more_labels_at_the_same_seed_are_the_same_and_some() -> None:
    pool = make_pool(list(range(50)))
    few, many = (draw(pool, ["labelled"] * 50, label=share) for share in (0.1, 0.6))
    assert set(few.labelled) < set(many.labelled)
    assert (few.val, few.test) == (many.val, many.test)


def test_labels_do_not_decide_the_split() -> None:
    pool = make_pool(list(range(30)))
    other = replace(pool, keypoints=pool.keypoints + 5, visibility=np.zeros_like(pool.visibility))
    assert draw(pool, ["labelled"] * 30) == draw(other, ["labelled"] * 30)


def test_an_instance_in_two_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="in two parts"):
        Split(("a",), (), (), ("a",), ())


@given(st.lists(st.text(min_size=1), unique=True, max_size=10))
def test_json_brings_the_split_back(ids: list[str]) -> None:
    split = Split(tuple(ids[:2]), tuple(ids[2:4]), tuple(ids[4:5]), tuple(ids[5:8]), tuple(ids[8:]))
    assert Split.from_json(split.to_json()) == split


# --- the problem


def test_a_problem_knows_no_label_of_unlabelled_and_nothing_of_the_test() -> None:
    pool = make_pool(list(range(40)))
    split = draw(pool, ["labelled"] * 40)
    problem = make_problem(pool, split)
    for half, ids in zip(problem.halves, (split.half_1, split.half_2), strict=True):
        assert half.ids == ids
        assert not half.keypoints.any()
        assert not half.visibility.any()
        assert set(half.length) == set(half.area) == {1.0}
        place = [pool.ids.index(name) for name in ids]
        assert half.images(np.arange(len(half)))[:, 0, 0, 0].tolist() == place
    known = {*problem.labelled.ids, *problem.val.ids, *problem.unlabelled.ids}
    assert known == set(pool.ids) - set(split.test)
    place = [pool.ids.index(name) for name in split.labelled]
    np.testing.assert_array_equal(problem.labelled.keypoints, pool.keypoints[place])


def test_halves_alternate_with_the_round() -> None:
    problem = make_problem(make_pool(list(range(20))), draw(make_pool(list(range(20))), ["labelled"] * 20))
    first, second = problem.halves
    assert [problem.unlabelled_half(r) is first for r in range(1, 7)] == [True, False] * 3
    assert [problem.unlabelled_half(r) is second for r in range(1, 7)] == [False, True] * 3
    assert problem.unlabelled_half(3, cross_training=False).ids == first.ids + second.ids


def test_no_label_and_no_validation_are_refused() -> None:
    pool = make_pool(list(range(6)))
    split = Split(pool.ids[:2], pool.ids[2:4], pool.ids[4:], (), ())
    with pytest.raises(InputError, match=r"the validation split is empty: name a source in data\.val"):
        make_problem(pool, split)
    assert len(make_problem(pool, split, needs_val=False).val) == 0
    with pytest.raises(InputError, match="no labelled instance"):
        make_problem(pool.without_labels(), split, needs_val=False)


def test_an_id_that_the_data_no_longer_has_is_named() -> None:
    with pytest.raises(InputError, match=r'the run\'s split names "gone#1", which the data no longer has'):
        take_ids(make_pool([0, 1]), ("im0.jpg#0", "gone#1"))


# --- the fingerprint


def test_a_fingerprint_changes_with_whatever_a_result_may_depend_on() -> None:
    pool = make_pool([0, 1, 2])
    crops = pool.crops.copy()
    crops[1, 0, 0, 0] += 1
    variants = [
        pool,
        replace(pool, keypoints=pool.keypoints + 1),
        replace(pool, visibility=pool.visibility - 1),
        replace(pool, length=pool.length + 1),
        replace(pool, area=pool.area + 1),  # OKS divides by it
        replace(pool, to_image=pool.to_image + 1),
        replace(pool, ids=("x", "y", "z")),
        replace(pool, view=1.5),
        replace(pool, crops=crops),
        replace(pool, skeleton=Skeleton(("a", "c"))),
        replace(pool, skeleton=Skeleton(("a", "b"), flip_pairs=((0, 1),))),
        replace(pool, skeleton=Skeleton(("a", "b"), sigmas=(0.1, 0.2))),  # and by these
        pool.take(np.array([0, 2])),
    ]
    assert len({fingerprint(variant) for variant in variants}) == len(variants)
    assert fingerprint(pool) == fingerprint(make_pool([0, 1, 2]))


def test_a_cache_is_known_by_the_name_of_its_folder(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "crops.npy", make_pool([0, 1]).crops)
        found.append(replace(make_pool([0, 1]), crops=np.load(tmp_path / name / "crops.npy", mmap_mode="r")))
    assert fingerprint(found[0]) != fingerprint(found[1])
    assert fingerprint(found[0]) != fingerprint(replace(found[0], rows=np.array([1, 0])))


def test_images_of_one_name_in_two_folders_are_two_images() -> None:
    pool = replace(make_pool(list(range(8))), ids=tuple(f"same.jpg#{i}" for i in range(8)))
    split = draw(pool, ["labelled"] * 4 + ["val"] * 2 + ["unlabelled"] * 2, label=1.0, test=0.0)
    assert sorted(split.half_1 + split.half_2) == ["same.jpg#6", "same.jpg#7"]


def test_a_split_that_was_changed_is_refused() -> None:
    split = Split(("a",), ("b", "c"), ("d",), ("e",), ("f",))
    text = split.to_json()
    assert Split.from_json(text) == split
    with pytest.raises(ValueError, match="not what was written"):
        Split.from_json(text.replace('"c"', '"g"'))
    assert Split.from_json('{"labelled": ["a"], "half_1": [], "half_2": [], "val": [], "test": []}').labelled == ("a",)
