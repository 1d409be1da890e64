"""Skeletons that overlap in part: what is kept, where it comes from, and what is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placl.data.dividing import without_labels
from placl.data.instances import Instances
from placl.data.sharing import Part, restricted, share
from placl.data.skeleton import Skeleton
from placl.errors import InputError

HUMAN = Skeleton(("nose", "left_eye", "right_eye", "left_hip"))
ANIMAL = Skeleton(
    ("R_Eye", "tail", "L_Eye", "Nose", "left_hip"),
    edges=((0, 2), (1, 3), (2, 3)),
    flip_pairs=((0, 2),),
    sigmas=(0.1, 0.2, 0.3, 0.4, 0.5),
)


def instances(name: str, skeleton: Skeleton, seen: list[list[int]]) -> Instances:
    """Keypoint k of an instance lies at (k, 10 k)."""
    n, k = len(seen), len(skeleton)
    places = np.stack([np.arange(k), 10 * np.arange(k)], axis=1).astype(np.float32)
    return Instances(
        skeleton=skeleton,
        images=tuple(Path(f"{name}{i}.jpg") for i in range(n)),
        image_index=np.arange(n),
        boxes=np.tile([0.0, 0.0, 50.0, 50.0], (n, 1)),
        keypoints=np.tile(places, (n, 1, 1)),
        visibility=np.array(seen, np.uint8),
        area=np.full(n, 2500, np.float32),
        ids=tuple(f"{name}{i}" for i in range(n)),
    )


def test_a_source_is_brought_to_what_the_target_names() -> None:
    people = Part("labelled", instances("p", HUMAN, [[2, 1, 0, 2], [0, 0, 0, 0]]), "people.json", True)
    animals = Part("val", instances("a", ANIMAL, [[2, 2, 2, 2, 0]]), "animals.json", False)
    notes: list[str] = []
    shared, (first, second) = share([people, animals], notes)
    # The target's order and names, without its tail, which nobody has.
    assert shared.skeleton == Skeleton(
        ("R_Eye", "L_Eye", "Nose", "left_hip"),
        edges=((0, 1), (1, 2)),
        flip_pairs=((0, 1),),
        sigmas=(0.1, 0.3, 0.4, 0.5),
    )
    assert first.instances.ids == ("p0",)  # the other one has no label
    assert first.instances.visibility.tolist() == [[0, 1, 2, 2]]
    assert first.instances.keypoints[0, 1:].tolist() == [[1, 10], [0, 0], [3, 30]]
    assert second.instances.keypoints[0].tolist() == [[0, 0], [2, 20], [3, 30], [4, 40]]
    assert shared.to_dict() == {
        "keypoints": ["R_Eye", "L_Eye", "Nose", "left_hip"],
        "maps": {
            "people.json": {"right_eye": "R_Eye", "left_eye": "L_Eye", "nose": "Nose", "left_hip": "left_hip"},
            "animals.json": {"R_Eye": "R_Eye", "L_Eye": "L_Eye", "Nose": "Nose", "left_hip": "left_hip"},
        },
        "unused": {"people.json": [], "animals.json": ["tail"]},
        "val_of": "target",
    }
    assert notes == [
        "people.json: 1 instances have no label of a shared keypoint; left out.",
        "people.json: 4 of 4 keypoints are trained: right_eye = R_Eye, left_eye = L_Eye, nose = Nose, left_hip.",
        "animals.json: 4 of 5 keypoints are trained: R_Eye, L_Eye, Nose, left_hip; not tail.",
    ]


def test_without_names_of_the_target_the_first_source_decides() -> None:
    animals = Part("labelled", instances("a", ANIMAL, [[2] * 5]), "animals.json", True)
    people = Part("labelled", instances("p", HUMAN, [[2] * 4]), "people.json", True)
    images = Part("unlabelled", without_labels(instances("t", HUMAN, [[2] * 4])), "photos", False)
    notes: list[str] = []
    shared, parts = share([animals, people, images], notes)
    assert shared.skeleton == ANIMAL
    assert parts[1].instances.visibility.tolist() == [[2, 0, 2, 2, 2]]  # people have no tail
    assert parts[2] is images
    assert notes[0] == "animals.json: all 5 keypoints are trained."


def test_a_keypoint_is_kept_that_one_of_several_sources_has() -> None:
    target = Part("test", instances("t", Skeleton(("nose", "tail", "wing")), [[2, 2, 2]]), "target", False)
    one = Part("labelled", instances("a", Skeleton(("nose",)), [[2]]), "one", True)
    other = Part("labelled", instances("b", Skeleton(("tail", "x")), [[2, 2]]), "other", True)
    shared, parts = share([one, other, target], [])
    assert shared.skeleton.keypoints == ("nose", "tail")
    assert [part.instances.visibility.tolist() for part in parts] == [[[2, 0]], [[0, 2]], [[2, 2]]]
    assert shared.unused == {"one": (), "other": ("x",), "target": ("wing",)}


def test_a_left_keypoint_goes_without_its_right_one() -> None:
    target = Part("test", instances("t", ANIMAL, [[2] * 5]), "target", False)
    source = Part("labelled", instances("a", Skeleton(("nose", "left_eye")), [[2, 2]]), "source", True)
    notes: list[str] = []
    shared, _ = share([source, target], notes)
    assert shared.skeleton == Skeleton(("Nose",), sigmas=(0.4,))
    assert notes[0] == "L_Eye: left out, since no source has the same of the other side."
    assert notes[1] == "source: 1 of 2 keypoints are trained: nose = Nose; not left_eye."


def test_names_of_a_target_count_without_its_labels() -> None:
    whole = instances("t", Skeleton(("Nose", "wing")), [[2, 2]])
    target = Part("unlabelled", without_labels(whole), "target", False, whole.skeleton)
    shared, parts = share([Part("labelled", instances("p", HUMAN, [[2] * 4]), "people", True), target], [])
    assert shared.skeleton.keypoints == ("Nose",)
    assert parts[1].instances.skeleton is None


def test_what_has_nothing_in_common_is_refused() -> None:
    people = Part("labelled", instances("p", HUMAN, [[2] * 4]), "people.json", True)
    birds = Part("val", instances("b", Skeleton(("beak", "tail")), [[2, 2]]), "birds.json", False)
    with pytest.raises(InputError) as caught:
        share([people, birds], [])
    assert str(caught.value) == (
        "people.json and birds.json have no keypoint in common: nose, left_eye, right_eye, left_hip against beak, "
        "tail. Where only names differ, give them: source={path: ..., keypoints: [...]}."
    )


def test_a_source_whose_shared_keypoints_are_never_labelled_is_refused() -> None:
    people = Part("labelled", instances("p", HUMAN, [[0, 0, 0, 2]]), "people.json", True)
    noses = Part("val", instances("b", Skeleton(("nose",)), [[2]]), "noses.json", False)
    with pytest.raises(InputError, match=r"people\.json: none of its instances has a label of a shared keypoint"):
        share([people, noses], [])


def test_plain_images_alone_have_no_keypoints() -> None:
    plain = Part("labelled", without_labels(instances("p", HUMAN, [[2] * 4])), "people.json", True)
    with pytest.raises(InputError, match=r"people\.json: no annotation has keypoints"):
        share([plain], [])


def test_a_part_of_a_skeleton_keeps_what_is_within_it() -> None:
    assert restricted(ANIMAL, [0, 1]) == Skeleton(("R_Eye", "tail"), sigmas=(0.1, 0.2))
