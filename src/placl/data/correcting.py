"""Corrections over the data of a training: accepted instances are labels, rejected ones take no part.

The split is drawn as if there were none, so that validation and test stay what they were and results can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placl.data.corrections import Correction, Corrections
from placl.data.pool import Pool
from placl.data.splits import Split
from placl.errors import InputError


@dataclass(frozen=True)
class Verdicts:
    """Instances by what was said of them."""

    accepted: frozenset[str] = frozenset()
    rejected: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.accepted or self.rejected)


def read_corrections(files: Iterable[Path], keypoints: tuple[str, ...]) -> dict[str, Correction]:
    """What the files say, a later one over an earlier one."""
    found: dict[str, Correction] = {}
    for file in files:
        corrections = Corrections(file)
        if corrections.skeleton.keypoints != keypoints:
            raise InputError(f"{file}: has corrections of other keypoints than the data ({', '.join(keypoints)}).")
        found |= corrections.latest
    return found


def correct(pool: Pool, corrections: Mapping[str, Correction]) -> tuple[Pool, Verdicts]:
    """The pool with the keypoints of accepted instances, and who they are."""
    accepted = {id_: one for id_, one in corrections.items() if one.verdict == "accepted" and any(one.visibility)}
    place = {id_: row for row, id_ in enumerate(pool.ids)}
    missing = [id_ for id_ in accepted if id_ not in place]
    if missing:
        raise InputError(
            f'the corrections name "{missing[0]}", which is not in the data. Name the data that they were made on.'
        )
    keypoints, visibility = pool.keypoints.copy(), pool.visibility.copy()
    for id_, one in accepted.items():
        row = place[id_]
        scale, *shift = pool.to_image[row]
        known = np.array(one.visibility, np.uint8)
        points = (np.array(one.keypoints) - shift) / scale
        keypoints[row], visibility[row] = np.where(known[:, None] > 0, points, 0), known
    rejected = frozenset(id_ for id_, one in corrections.items() if one.verdict == "rejected" and id_ in place)
    return replace(pool, keypoints=keypoints, visibility=visibility), Verdicts(frozenset(accepted), rejected)


def corrected_split(split: Split, verdicts: Verdicts) -> Split:
    """Accepted instances move to the labelled ones, rejected ones go; what is scored on is never touched."""
    for role in ("val", "test"):
        for id_ in getattr(split, role):
            if id_ in verdicts.accepted or id_ in verdicts.rejected:
                raise InputError(
                    f'the corrections name "{id_}", which is a {role} instance: what is scored on must stay as it is.'
                )
    kept = {
        role: tuple(
            id_ for id_ in ids if id_ not in verdicts.rejected and (role == "labelled" or id_ not in verdicts.accepted)
        )
        for role, ids in split.roles().items()
    }
    new = [id_ for ids in (split.half_1, split.half_2) for id_ in ids if id_ in verdicts.accepted]
    return Split(**{**kept, "labelled": (*kept["labelled"], *new)})
