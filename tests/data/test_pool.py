"""Pools: subsets share their crops, labels come off whole, and a journey to another process copies no pixel."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.data.pool import Pool, concatenate
from placl.data.skeleton import Skeleton

N, K, SIDE = 5, 3, 4


def make_pool(crops: np.ndarray | None = None) -> Pool:
    """Instance i is row N - 1 - i of the crops, whose pixels hold their row's number."""
    if crops is None:
        crops = np.broadcast_to(np.arange(N, dtype=np.uint8)[:, None, None, None], (N, SIDE, SIDE, 3)).copy()
    return Pool(
        skeleton=Skeleton(("a", "b", "c")),
        crops=crops,
        rows=np.arange(N)[::-1].copy(),
        keypoints=np.arange(N * K * 2, dtype=np.float32).reshape(N, K, 2),
        visibility=np.array([[2, 2, 2], [1, 0, 0], [0, 0, 0], [0, 2, 1], [2, 0, 0]], np.uint8),
        length=np.arange(1, N + 1, dtype=np.float32),
        area=np.arange(11, N + 11, dtype=np.float32),
        to_image=np.column_stack([np.full(N, 2.0), np.arange(N), np.arange(N) + 10.0]),
        image=np.arange(N) // 2,
        ids=tuple(f"im{i}#{i}" for i in range(N)),
        view=3.0,
    )


def mapped(folder: Path) -> Pool:
    pool = make_pool()
    np.save(folder / "crops.npy", pool.crops)
    return replace(pool, crops=np.load(folder / "crops.npy", mmap_mode="r"))


def assert_same(a: Pool, b: Pool) -> None:
    for field in fields(Pool):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)
        else:
            assert left == right


def test_images_follow_rows() -> None:
    pool = make_pool()
    assert pool.images(np.array([0, 3]))[:, 0, 0, 0].tolist() == [4, 1]
    assert pool.crop_size == SIDE


def test_labelled_means_at_least_one_keypoint() -> None:
    assert make_pool().labelled.tolist() == [True, True, False, True, True]


@given(st.lists(st.integers(0, N - 1), max_size=8))
def test_take_takes_everything_of_an_instance(index: list[int]) -> None:
    pool = make_pool()
    part = pool.take(np.array(index, dtype=np.int64))
    assert part.crops is pool.crops
    assert len(part) == len(index)
    for place, i in enumerate(index):
        assert part.ids[place] == pool.ids[i]
        assert part.images(np.array([place]))[0, 0, 0, 0] == N - 1 - i
        for name in ("keypoints", "visibility", "length", "area", "to_image"):
            np.testing.assert_array_equal(getattr(part, name)[place], getattr(pool, name)[i])


def test_a_mask_takes_what_its_indices_take() -> None:
    pool = make_pool()
    assert_same(pool.take(pool.labelled), pool.take(np.array([0, 1, 3, 4])))
    assert len(pool.take(np.zeros(N, bool))) == 0


def test_nothing_of_a_label_is_left() -> None:
    pool = make_pool()
    bare = pool.without_labels()
    assert not bare.labelled.any()
    assert not bare.keypoints.any()
    assert not bare.visibility.any()
    assert bare.length.tolist() == bare.area.tolist() == [1.0] * N  # both may come from a box around the keypoints
    assert bare.crops is pool.crops
    assert bare.ids == pool.ids


def test_in_image_by_hand() -> None:
    # Instance 1 has scale 2 and shift (1, 11); its first keypoint is (6, 7).
    assert make_pool().in_image(make_pool().keypoints)[1, 0].tolist() == [2 * 6 + 1, 2 * 7 + 11]


@pytest.mark.parametrize("name", ["keypoints", "visibility", "length", "area", "to_image", "ids"])
def test_a_pool_of_uneven_arrays_is_refused(name: str) -> None:
    pool = make_pool()
    with pytest.raises(ValueError, match=f"pool: {name} has shape"):
        replace(pool, **{name: getattr(pool, name)[:-1]})


def test_concatenate_is_the_inverse_of_take() -> None:
    pool = make_pool()
    assert_same(concatenate([pool.take(np.array([0, 1])), pool.take(np.array([2, 3, 4]))]), pool)


def test_pools_of_different_crops_or_keypoints_are_not_joined() -> None:
    with pytest.raises(ValueError, match="share their crops"):
        concatenate([make_pool(), make_pool()])
    pool = make_pool()
    with pytest.raises(ValueError, match="share their crops"):
        concatenate([pool, replace(pool, skeleton=Skeleton(("x", "y", "z")))])


def test_a_pool_in_memory_travels_as_it_is() -> None:
    assert_same(pickle.loads(pickle.dumps(make_pool())), make_pool())


def test_a_mapped_pool_travels_as_a_path(tmp_path: Path) -> None:
    pool = mapped(tmp_path)
    sent = pickle.dumps(pool)
    arrived = pickle.loads(sent)
    assert isinstance(arrived.crops, np.memmap)
    assert_same(arrived, pool)
    assert tmp_path.name.encode() in sent
    assert pool.crops.tobytes() not in sent


def test_mapped_pools_can_still_be_joined_after_the_journey(tmp_path: Path) -> None:
    # What a worker of the pool executor gets: a labelled and an unlabelled pool of one cache, in one message.
    pool = mapped(tmp_path)
    parts = pool.take(np.array([0, 1])), pool.take(np.array([2, 3, 4]))
    assert_same(concatenate(list(pickle.loads(pickle.dumps(parts)))), pool)


def test_labels_that_are_gone_take_no_memory_nor_time_to_send() -> None:
    everyone = make_pool().take(np.zeros(10_000, np.int64))
    hidden = replace(everyone, ids=tuple("x" * len(everyone))).without_labels()
    gone = ("keypoints", "visibility", "length", "area")
    for pool in (hidden, hidden.take(np.arange(5000)), concatenate([hidden, hidden.take(np.arange(3))])):
        assert all(getattr(pool, name).strides[0] == 0 for name in gone)
        there = pickle.loads(pickle.dumps(pool))
        for name in gone:
            assert getattr(there, name).strides[0] == 0
            np.testing.assert_array_equal(getattr(there, name), getattr(pool, name))
    assert not hidden.take(np.array([1])).labelled.any()
    mixed = concatenate([make_pool(hidden.crops), hidden])
    np.testing.assert_array_equal(mixed.keypoints[:N], make_pool().keypoints)
    assert not mixed.keypoints[N:].any()
