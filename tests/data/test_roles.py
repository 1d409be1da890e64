"""One class as the target of the others, and whose labels validate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placl.data.instances import Instances, Roles
from placl.data.roles import SOURCE_VAL, across_classes, as_role, validating_role, with_labels
from placl.data.skeleton import Skeleton
from placl.errors import InputError


def animals(prefix: str, classes: str, image_index: list[int] | None = None, labelled: str = "") -> Instances:
    """An instance for each letter, in an image of its own unless it is said which; ``labelled`` default: all."""
    n = len(classes)
    index = np.arange(n) if image_index is None else np.array(image_index)
    seen = np.array([[2 if not labelled or letter in labelled else 0] for letter in classes], np.uint8)
    return Instances(
        skeleton=Skeleton(("nose",)),
        images=tuple(Path(f"{prefix}{i}.jpg") for i in range(int(index.max()) + 1)),
        image_index=index,
        boxes=np.tile([0.0, 0.0, 9.0, 9.0], (n, 1)),
        keypoints=np.ones((n, 1, 2), np.float32),
        visibility=seen,
        area=np.full(n, 81, np.float32),
        ids=tuple(f"{prefix}{i}" for i in range(n)),
        classes=tuple(classes),
    )


def by_role(roles: Roles) -> dict[str, str]:
    return {role: "".join(part.classes) for role, part in roles}


def test_the_target_has_images_and_the_others_have_labels() -> None:
    roles = [("labelled", animals("a", "cdcs")), ("val", animals("b", "cds")), ("test", animals("c", "dcc"))]
    found = across_classes(roles, "c", "cds", "set")
    assert by_role(found) == {"unlabelled": "cc", "labelled": "ds", "val": "c", SOURCE_VAL: "ds", "test": "cc"}


def test_an_image_of_both_is_of_neither() -> None:
    roles = [("labelled", animals("a", "cdcds", [0, 0, 1, 2, 3]))]
    assert by_role(across_classes(roles, "c", "cds", "set")) == {"unlabelled": "c", "labelled": "ds"}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (animals("a", "cd"), "set: class s has no labelled instance to train on."),
        (animals("a", "cds", labelled="cd"), "set: class s has no labelled instance to train on."),
        (animals("a", "dss"), "set: class c, the target, has no image to train on."),
    ],
)
def test_a_class_without_an_instance_is_named(part: Instances, words: str) -> None:
    with pytest.raises(InputError) as caught:
        across_classes([("labelled", part)], "c", "cds", "set")
    assert str(caught.value) == words


def test_the_target_validates_unless_the_source_is_asked_for() -> None:
    both: Roles = [("val", animals("a", "c")), (SOURCE_VAL, animals("b", "d"))]
    assert validating_role(both, "target") == ("val", [])
    told = "data.val_from=source: 1 labelled validation instances of the target take no part."
    assert validating_role(both, "source") == (SOURCE_VAL, [told])
    assert validating_role(both[1:], "source") == (SOURCE_VAL, [])
    bare: Roles = [("val", animals("a", "c", labelled="x")), *both[1:]]
    role, notes = validating_role(bare, "target")
    assert role == SOURCE_VAL
    assert notes == ["the target has no labelled validation part: held-out source instances validate."]


def test_only_one_part_validates() -> None:
    assert [as_role(role, "val") for role in ("labelled", "val", SOURCE_VAL, "test")] == [
        "labelled",
        "val",
        None,
        "test",
    ]
    assert [as_role(role, SOURCE_VAL) for role in ("unlabelled", "val", SOURCE_VAL)] == ["unlabelled", None, "val"]


def test_instances_without_labels_are_not_a_source() -> None:
    assert with_labels(animals("a", "cdc", labelled="d")).ids == ("a1",)
