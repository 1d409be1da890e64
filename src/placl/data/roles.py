"""Roles across domains: one class of a dataset as the target of the others, and whose labels validate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from placl.data.instances import Instances, Roles
from placl.errors import InputError

SOURCE_VAL = "source_val"  # source instances that validate where no label of the target may be used
ValFrom = Literal["target", "source"]


def across_classes(roles: Roles, target: str, classes: Iterable[str], of: str) -> Roles:
    """The other classes train with their labels; the target's images are unlabelled, validate and test.

    The classes' validation images become ``val`` (the target's) and ``source_val``; of the test images, only the
    target's are used.
    """
    moved: Roles = []
    for role, part in roles:
        of_target = np.array([name == target for name in part.classes], dtype=bool)
        of_target_role = {"labelled": "unlabelled"}.get(role, role)
        moved.append((of_target_role, _pure(part, of_target)))
        if role != "test":
            moved.append(({"val": SOURCE_VAL}.get(role, role), _pure(part, ~of_target)))
    trained = {name for role, part in moved if role == "labelled" for name in with_labels(part).classes}
    for name in classes:
        if name != target and name not in trained:
            raise InputError(f"{of}: class {name} has no labelled instance to train on.")
    if not any(role == "unlabelled" and len(part) for role, part in moved):
        raise InputError(f"{of}: class {target}, the target, has no image to train on.")
    return [(role, part) for role, part in moved if len(part)]


def _pure(instances: Instances, wanted: np.ndarray) -> Instances:
    """The wanted instances of images that have no other kind: an image cannot have two roles."""
    mixed = np.unique(instances.image_index[~wanted])
    return instances.take(np.flatnonzero(wanted & ~np.isin(instances.image_index, mixed)))


def with_labels(instances: Instances) -> Instances:
    """Those with a labelled keypoint: a source's others would count as unlabelled images, which are the target's."""
    return instances if instances.labelled.all() else instances.take(np.flatnonzero(instances.labelled))


def validating_role(roles: Iterable[tuple[str, Instances]], val_from: ValFrom) -> tuple[str, list[str]]:
    """Which of ``val`` (the target's) and ``source_val`` validates, never both; and what a person should know.

    Where that one is empty, a part of the labelled source instances is held out when the split is drawn.
    """
    labelled = sum(int(part.labelled.sum()) for role, part in roles if role == "val")
    if val_from == "source":
        told = f"data.val_from=source: {labelled} labelled validation instances of the target take no part."
        return SOURCE_VAL, [told] if labelled else []
    if labelled:
        return "val", []
    return SOURCE_VAL, ["the target has no labelled validation part: held-out source instances validate."]


def as_role(role: str, validating: str) -> str | None:
    """The role that a part has in a training, None for validation parts that take no part."""
    if role in ("val", SOURCE_VAL):
        return "val" if role == validating else None
    return role
