"""Names of keypoints that meet, and those that do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placl.data.correspondence import Name, correspond, meaning, take_apart

COCO = (
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow",
    "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
    "right_ankle",
)  # fmt: skip
ANIMALPOSE = (
    "left_eye", "right_eye", "nose", "left_ear", "right_ear", "left_front_elbow", "right_front_elbow",
    "left_back_elbow", "right_back_elbow", "left_front_knee", "right_front_knee", "left_back_knee", "right_back_knee",
    "left_front_paw", "right_front_paw", "left_back_paw", "right_back_paw", "throat", "withers", "tailbase",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "left_front_paw",
        "Left Front Paw",
        "leftFrontPaw",
        "L_F_Paw",
        "l_fore_paw",
        "paw_LF",
        "pawFL",
        "LEFT-FRONT-PAW",
        "left_forepaw",
        "leftforepaw",
        "forepawL",
        "frontpaw_left",
    ],
)
def test_spellings_of_one_name(name: str) -> None:
    assert take_apart(name) == Name("left", "front", "paw")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nose", Name("", "", "nose")),
        ("R_EarBase", Name("right", "", "earbase")),
        ("lefteye", Name("left", "", "eye")),
        ("eyeL", Name("left", "", "eye")),
        ("hind_right_hoof", Name("right", "back", "hoof")),
        ("pawRH", Name("right", "back", "paw")),
        ("hindleg", Name("", "back", "leg")),
        ("forehead", Name("", "", "forehead")),
        ("left_forearm", Name("left", "", "forearm")),
        ("tail_base", Name("", "", "tailbase")),
        ("wingL2", Name("left", "", "wing2")),
        ("back", Name("", "", "back")),  # of a bird
        ("left", Name("left", "", "left")),
        ("leftovers", Name("left", "", "overs")),
        ("B", Name("", "", "b")),
        ("spine_f", Name("", "", "spinef")),  # a letter says nothing of legs where there is no side
        ("keypoint_1", Name("", "", "keypoint1")),
        ("lr", Name("", "", "lr")),
        ("鼻", Name("", "", "鼻")),
        ("левый глаз", Name("", "", "левыйглаз")),
        ("??", Name("", "", "??")),
    ],
)
def test_names_taken_apart(name: str, expected: Name) -> None:
    assert take_apart(name) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("left_ear", "L_EarBase"),
        ("tailbase", "root_of_tail"),
        ("left_hoof_front", "left_front_paw"),
        ("left_elbow", "L_F_Elbow"),
        ("right_wrist", "right_front_knee"),
    ],
)
def test_names_that_mean_the_same(one: str, other: str) -> None:
    assert meaning(one) == meaning(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("left_ear", "right_ear"),
        ("ear", "left_ear"),
        ("left_elbow", "left_back_elbow"),
        ("left_knee", "left_back_knee"),  # a stifle and a hock
        ("left_knee", "left_front_knee"),
        ("left_ankle", "left_back_paw"),
        ("neck", "throat"),
        ("tail", "tailbase"),
    ],
)
def test_names_that_do_not(one: str, other: str) -> None:
    assert meaning(one) != meaning(other)


def in_common(keypoints: tuple[str, ...], to: tuple[str, ...]) -> dict[str, str]:
    return {keypoints[i]: name for i, name in zip(correspond(keypoints, to), to, strict=True) if i >= 0}


def test_people_and_animals_share_nine_keypoints() -> None:
    assert in_common(COCO, ANIMALPOSE) == {
        "left_eye": "left_eye",
        "right_eye": "right_eye",
        "nose": "nose",
        "left_ear": "left_ear",
        "right_ear": "right_ear",
        "left_elbow": "left_front_elbow",
        "right_elbow": "right_front_elbow",
        "left_wrist": "left_front_knee",
        "right_wrist": "right_front_knee",
    }


def test_an_order_is_kept_and_what_is_missing_is_marked() -> None:
    assert correspond(("b", "a", "c"), ("a", "x", "b")) == (1, -1, 0)
    assert correspond(COCO, COCO) == tuple(range(17))
    assert correspond((), ("a",)) == (-1,)


def test_what_would_meet_twice_meets_as_it_is_spelled_or_not_at_all() -> None:
    assert in_common(("left_ear", "left_ear_base"), ("L_EarBase",)) == {"left_ear_base": "L_EarBase"}
    assert in_common(("foot", "hoof"), ("paw",)) == {}
    assert in_common(("Nose", "nose"), ("nose",)) == {"nose": "nose"}
    assert in_common(("Nose", "NOSE"), ("nose",)) == {}


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("file", "count"),
    [("animalpose_mmpose/test_animalpose.json", 20), ("ap10k/test_ap10k.json", 10), ("atrw/test_atrw.json", 7)],
)  # fmt: skip
def test_animals_of_other_datasets(shared: Path, file: str, count: int) -> None:
    names = tuple(json.loads((shared / "formats" / file).read_text())["categories"][0]["keypoints"])
    assert len(in_common(names, ANIMALPOSE)) == count
