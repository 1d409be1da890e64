"""Corrections over the data of a training: accepted instances are labels, rejected ones take no part.

The split is drawn as if there were none, so that validation and test stay what they were and results can be compared.
Labels then go to instances that the split calls labelled, and to no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from placl.data.correction_images import by_images
from placl.data.corrections import Correction, Corrections
from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, Pool
from placl.data.splits import Split
from placl.errors import InputError

ByInstance = Mapping[str, Correction]  # under the ids of their instances


def read_corrections(files: Iterable[Path], instances: Instances) -> tuple[dict[str, Correction], list[str]]:
    """What the files say of the instances, a later one over an earlier one; and a line for each."""
    found: dict[str, Correction] = {}
    notes = []
    keypoints = instances.skeleton.keypoints if instances.skeleton is not None else ()
    for file in files:
        corrections = Corrections(file)
        if corrections.skeleton.keypoints != keypoints:
            raise InputError(f"{file}: has corrections of other keypoints than the data ({', '.join(keypoints)}).")
        found |= by_images(corrections.latest, instances)
        notes.append(f"{file}: {corrections.summary}.")
    return found, notes


def corrected_split(split: Split, corrections: ByInstance) -> Split:
    """Accepted instances of the halves become labelled ones, rejected ones go; what is scored on is not touched."""
    accepted, rejected = _accepted(corrections), _rejected(corrections)
    new = tuple(id_ for id_ in split.half_1 + split.half_2 if id_ in accepted)
    gone = {"labelled": rejected, "half_1": accepted | rejected, "half_2": accepted | rejected}
    kept = {role: tuple(id_ for id_ in ids if id_ not in gone.get(role, ())) for role, ids in split.roles().items()}
    return Split(**{**kept, "labelled": kept["labelled"] + new})


def check_corrections(pool: Pool, split: Split, corrections: ByInstance) -> None:
    """Refuse what would be left unused without a word, and what is said of instances that are scored on."""
    accepted, rejected = _accepted(corrections), _rejected(corrections)
    if missing := accepted - set(pool.ids):
        raise InputError(
            f'the corrections name "{min(missing)}", which is not in the data. Name the data that they were made on.'
        )
    for role in ("val", "test"):
        if scored := (accepted | rejected) & set(getattr(split, role)):
            raise InputError(
                f'the corrections name "{min(scored)}", which is a {role} instance: what is scored on stays as it is. '
                "Use the split that they were made with."
            )
    training = {*split.labelled, *split.half_1, *split.half_2}
    if late := (accepted & training) - set(split.labelled) | (rejected & training):
        raise InputError(
            f'the corrections name "{min(late)}", which they did not when the run was begun. Start another with --out.'
        )
    if unused := accepted - training:
        raise InputError(f'the corrections name "{min(unused)}", which lies on an image that is scored on.')


def correct(pool: Pool, split: Split, corrections: ByInstance) -> Pool:
    """The pool with the keypoints that people gave to labelled instances."""
    accepted = _accepted(corrections).intersection(split.labelled)
    keypoints, visibility = pool.keypoints.copy(), pool.visibility.copy()
    for row, id_ in enumerate(pool.ids):
        if id_ in accepted:
            scale, *shift = pool.to_image[row]
            known = np.array(corrections[id_].visibility, np.uint8)
            places = (np.array(corrections[id_].keypoints) - shift) / scale
            keypoints[row] = np.where(known[:, None] > UNLABELLED, places, 0)
            visibility[row] = known
    return replace(pool, keypoints=keypoints, visibility=visibility)


def _accepted(corrections: ByInstance) -> set[str]:
    return {id_ for id_, one in corrections.items() if one.is_label}


def _rejected(corrections: ByInstance) -> set[str]:
    return {id_ for id_, one in corrections.items() if one.verdict == "rejected"}
