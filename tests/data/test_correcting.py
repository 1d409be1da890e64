"""Corrections over a training's data: labels go to labelled instances, and what is scored on stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.data.correcting import check_corrections, correct, corrected_split, read_corrections
from placl.data.corrections import Correction, Corrections
from placl.data.instances import Instances, plain_instances
from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.data.splits import Split
from placl.data.synthetic import ANIMAL
from placl.errors import InputError

SPLIT = Split(("a", "b"), ("c", "d"), ("e", "f"), ("g",), ("h",))


def said(id_: str, verdict: str = "accepted", place: float = 5.0) -> Correction:
    visibility = (2, 1, 0, *(2,) * 11)
    return Correction(id_, verdict, ((place, place + 1),) * 14, visibility, f"{id_}.jpg", None)


def by_id(*corrections: Correction) -> dict[str, Correction]:
    return {one.id: one for one in corrections}


def plain(*ids: str) -> Instances:
    """Whole images of those names, which may be no files."""
    whole, area = np.full((len(ids), 4), np.nan), np.full(len(ids), np.nan, np.float32)
    images = tuple(Path(f"{id_}.jpg") for id_ in ids)
    return plain_instances(images, ids, np.arange(len(ids)), whole, area).with_skeleton(ANIMAL)


@pytest.fixture(scope="module")
def eight(pool: Pool) -> Pool:
    """Instances a to h, whose crops are half as large as their images."""
    maps = np.tile([2.0, 10.0, 20.0], (8, 1))
    return replace(pool.take(np.arange(8)), ids=tuple("abcdefgh"), to_image=maps)


def test_accepted_ones_become_labelled_and_rejected_ones_go() -> None:
    found = corrected_split(SPLIT, by_id(said("f"), said("c"), said("d", "rejected"), said("e", "open"), said("a")))
    assert found == Split(("a", "b", "c", "f"), (), ("e",), ("g",), ("h",))


def test_a_rejected_label_goes_too() -> None:
    assert corrected_split(SPLIT, by_id(said("a", "rejected"))) == replace(SPLIT, labelled=("b",))


def test_an_accepted_one_without_keypoints_is_no_label() -> None:
    assert corrected_split(SPLIT, by_id(replace(said("c"), visibility=(0,) * 14))) == SPLIT


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["accepted", "rejected", "open"])))
def test_validation_and_test_stay_whatever_is_said(verdicts: dict[str, str]) -> None:
    found = corrected_split(SPLIT, {id_: said(id_, verdict) for id_, verdict in verdicts.items()})
    assert (found.val, found.test) == (("g",), ("h",))
    assert set(found.labelled) <= set("abcdef")
    assert set(found.half_1) <= {"c", "d"}
    assert set(found.half_2) <= {"e", "f"}


def test_labels_are_where_people_said_and_nowhere_else(eight: Pool) -> None:
    corrections = by_id(said("c"), said("a", place=7.0), said("e"), said("g"), said("h"), said("b", "open"))
    split = corrected_split(SPLIT, by_id(said("c")))  # e stays unlabelled, g and h are scored on
    found = correct(eight, split, corrections)
    changed = [0, 2]
    for row, place in ((0, 7.0), (2, 5.0)):
        assert found.visibility[row].tolist() == [2, 1, 0, *[2] * 11]
        assert found.keypoints[row, 0].tolist() == [(place - 10) / 2, (place + 1 - 20) / 2]
        assert found.keypoints[row, 2].tolist() == [0, 0]
    others = np.setdiff1d(np.arange(8), changed)
    assert np.array_equal(found.keypoints[others], eight.keypoints[others])
    assert np.array_equal(found.visibility[others], eight.visibility[others])


@pytest.mark.parametrize(("id_", "role"), [("g", "val"), ("h", "test")])
@pytest.mark.parametrize("verdict", ["accepted", "rejected"])
def test_what_is_scored_on_is_refused(eight: Pool, id_: str, role: str, verdict: str) -> None:
    with pytest.raises(InputError, match=f'"{id_}", which is a {role} instance'):
        check_corrections(eight, SPLIT, by_id(said(id_, verdict)))


def test_what_would_be_left_unused_is_refused(eight: Pool) -> None:
    with pytest.raises(InputError, match='"z", which is not in the data'):
        check_corrections(eight, SPLIT, by_id(said("z")))
    with pytest.raises(InputError, match='"a", which lies on an image that is scored on'):
        check_corrections(eight, replace(SPLIT, labelled=("b",)), by_id(said("a")))


@pytest.mark.parametrize("verdict", ["accepted", "rejected"])
def test_what_was_said_after_a_run_was_begun_is_refused(eight: Pool, verdict: str) -> None:
    corrections = by_id(said("c", verdict))
    check_corrections(eight, corrected_split(SPLIT, corrections), corrections)
    with pytest.raises(InputError, match='"c", which they did not when the run was begun'):
        check_corrections(eight, SPLIT, corrections)


def test_a_later_file_holds_over_an_earlier_one(tmp_path: Path) -> None:
    files = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for n, file in enumerate(files):
        Corrections(file, ANIMAL).save(said("c", place=n))
    Corrections(files[0], ANIMAL).save(said("d"))
    found, notes = read_corrections(files, plain("c", "d"))
    assert found == by_id(said("c", place=1), said("d"))
    assert notes == [
        f"{files[0]}: 2 instances accepted, 0 rejected.",
        f"{files[1]}: 1 instances accepted, 0 rejected.",
    ]


def test_other_keypoints_are_refused(tmp_path: Path) -> None:
    other = Corrections(tmp_path / "c.jsonl", Skeleton(tuple("abcdefghijklmn")))
    other.save(said("c"))
    with pytest.raises(InputError, match=r"c.jsonl: has corrections of other keypoints than the data \(nose"):
        read_corrections([tmp_path / "c.jsonl"], plain("c"))
