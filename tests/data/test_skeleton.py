"""Skeletons: bad ones are refused, mirroring is an involution, pairs are found by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.data.skeleton import COCO_SIGMAS, DEFAULT_SIGMA, Skeleton, flip_pairs_by_name

COCO = ("nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow",
        "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
        "right_ankle")  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keypoints": ()}, "at least one keypoint"),
        ({"keypoints": ("a", "b", "a")}, r"names repeat: \['a', 'b', 'a'\]"),
        ({"keypoints": ("a", "b"), "edges": ((0, 2),)}, r"pair \(0, 2\) points outside the 2 keypoints"),
        ({"keypoints": ("a", "b"), "flip_pairs": ((-1, 0),)}, r"pair \(-1, 0\) points outside"),
        ({"keypoints": ("a", "b", "c"), "flip_pairs": ((0, 1), (1, 2))}, "in two flip pairs"),
        ({"keypoints": ("a", "b"), "flip_pairs": ((0, 0),)}, "in two flip pairs"),
        ({"keypoints": ("a", "b"), "sigmas": (0.1,)}, "1 sigmas for 2 keypoints"),
        ({"keypoints": ("a", "")}, "keypoint 2 has no name"),
        ({"keypoints": (" ", "b")}, "keypoint 1 has no name"),
        ({"keypoints": ("a", "b"), "sigmas": (0.1, -1.0)}, 'sigma of "b" is -1, expected a positive number'),
        ({"keypoints": ("a", "b"), "sigmas": (0.0, 0.1)}, 'sigma of "a" is 0, expected'),
        ({"keypoints": ("a",), "sigmas": (float("nan"),)}, 'sigma of "a" is nan, expected'),
        ({"keypoints": ("a",), "sigmas": (float("inf"),)}, 'sigma of "a" is inf, expected'),
    ],
)
def test_a_bad_skeleton_is_refused(arguments: dict[str, tuple[object, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Skeleton(**arguments)


def test_coco_people_get_cocos_sigmas_and_others_one_for_all() -> None:
    assert Skeleton(COCO).sigmas == COCO_SIGMAS
    assert len(COCO_SIGMAS) == 17
    assert Skeleton(("beak", "tail")).sigmas == (DEFAULT_SIGMA, DEFAULT_SIGMA)
    assert Skeleton(("beak", "tail"), sigmas=(0.1, 0.2)).sigmas == (0.1, 0.2)


def test_flip_order_by_hand() -> None:
    skeleton = Skeleton(("nose", "l", "r", "tail"), flip_pairs=((1, 2),))
    assert skeleton.flip_order.tolist() == [0, 2, 1, 3]


@given(st.permutations(range(6)), st.integers(0, 3))
def test_mirroring_twice_is_no_change(order: list[int], pairs: int) -> None:
    skeleton = Skeleton(tuple("abcdef"), flip_pairs=tuple((order[2 * i], order[2 * i + 1]) for i in range(pairs)))
    assert np.array_equal(skeleton.flip_order[skeleton.flip_order], np.arange(6))
    assert (skeleton.flip_order != np.arange(6)).sum() == 2 * pairs


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (COCO, tuple((i, i + 1) for i in range(1, 17, 2))),
        (("L_paw", "R_paw", "nose"), ((0, 1),)),
        (("eye_l", "eye_r"), ((0, 1),)),
        (("eye-L", "eye-R"), ((0, 1),)),
        (("l-eye", "r-eye"), ((0, 1),)),
        (("Right Ankle", "Left Ankle"), ((1, 0),)),
        (("left_eye", "nose"), ()),
        (("r_eye",), ()),
        (("tail", "trail", "lip", "rip"), ()),
        (("snout", "leftear", "rightear", "tailbase"), ((1, 2),)),
        (("leftWing", "rightWing", "ear_left", "ear_right"), ((0, 1), (2, 3))),
        (("EarL", "EarR", "LPaw", "RPaw"), ((0, 1), (2, 3))),
        (("wingL", "wingR", "forelegL4", "forelegR4", "forelegL1"), ((0, 1), (2, 3))),
        (("EarL_top", "EarR_top", "EarL_bot", "EarR_bot"), ((0, 1), (2, 3))),
        (("front_l_paw", "front_r_paw", "eye.l", "eye.r", "Eye L", "Eye R"), ((0, 1), (2, 3), (4, 5))),
        (("FL_paw", "FR_paw", "HL_paw", "HR_paw"), ((0, 1), (2, 3))),
        (("pawLF", "pawRF", "pawLH", "pawRH"), ((0, 1), (2, 3))),
        (("FL", "FR", "RL", "RR"), ((0, 1), (2, 3))),
        (("LF", "RF", "LR", "RR"), ((0, 1), (2, 3))),
    ],
)
def test_pairs_by_name(names: tuple[str, ...], pairs: tuple[tuple[int, int], ...]) -> None:
    assert flip_pairs_by_name(names) == pairs


@pytest.mark.parametrize(
    "names", [("left_l", "right_l", "left_r", "right_r"), ("right_r", "left_r", "right_l", "left_l")]
)
def test_a_name_that_could_pair_twice_pairs_once(names: tuple[str, ...]) -> None:
    pairs = flip_pairs_by_name(names)
    assert {(names[a], names[b]) for a, b in pairs} == {("left_l", "right_l"), ("left_r", "right_r")}
    Skeleton(names, flip_pairs=pairs)


@pytest.mark.parametrize(
    "names",
    [
        ("paw1LH_top", "paw2LF_top", "paw3RF_top", "paw4RH_top"),  # the numbers differ too: who knows the scheme?
        ("LR", "RL", "RR"),  # rear or right?
        ("l_eye_l", "r_eye_l", "l_eye_r", "r_eye_r"),
        ("lear", "rear", "Lear", "Rear"),
        ("earl", "earr"),
        ("L", "nose"),
        ("hl", "hrx"),
        ("wingL1", "wingR2"),
        ("LEye", "REar"),
        ("ALL", "ALR"),
        ("tail_tip", "trail_tip", "lat", "rat"),
    ],
)
def test_a_doubtful_pair_is_none(names: tuple[str, ...]) -> None:
    assert flip_pairs_by_name(names) == ()


@given(st.lists(st.text("lrLReftighEa_1", min_size=1, max_size=10), min_size=1, max_size=12, unique=True))
def test_pairs_by_name_make_a_skeleton(names: list[str]) -> None:
    pairs = flip_pairs_by_name(tuple(names))
    Skeleton(tuple(names), flip_pairs=pairs)
    for a, b in pairs:
        assert {"l", "r"} <= set((names[a] + names[b]).lower())
