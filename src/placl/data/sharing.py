"""The keypoints that several skeletons share, every part brought to them, and a record of what maps to what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placl.data.correspondence import correspond
from placl.data.instances import Instances
from placl.data.roles import with_labels
from placl.data.skeleton import Skeleton
from placl.errors import InputError


@dataclass(frozen=True)
class Part:
    """Instances in a role, and where they are from."""

    role: str
    instances: Instances
    name: str  # of the source, for people
    is_source: bool  # of labels to train on
    skeleton: Skeleton | None = None  # what it names, also where its labels have been taken off


@dataclass(frozen=True)
class Shared:
    """The keypoints of a training across domains, and what each source and target calls them."""

    skeleton: Skeleton
    names: dict[str, dict[str, str]]  # by source or target: its own name -> that of the training
    unused: dict[str, tuple[str, ...]]  # by source or target: its keypoints that nothing is trained of
    val_of: str = "target"  # whose labels validate, or "source"; those that test are always the target's

    def to_dict(self) -> dict[str, Any]:
        return {
            "keypoints": list(self.skeleton.keypoints),
            "maps": self.names,
            "unused": {name: list(keypoints) for name, keypoints in self.unused.items()},
            "val_of": self.val_of,
        }

    def lines(self) -> list[str]:
        """A line for each source and target: what maps, and what does not."""
        lines = []
        for part, names in self.names.items():
            unused = self.unused[part]
            if not unused and all(own == name for own, name in names.items()):
                lines.append(f"{part}: all {len(names)} keypoints are trained.")
                continue
            told = ", ".join(own if own == name else f"{own} = {name}" for own, name in names.items()) or "none"
            rest = f"; not {', '.join(unused)}" if unused else ""
            lines.append(f"{part}: {len(names)} of {len(names) + len(unused)} keypoints are trained: {told}{rest}.")
        return lines


def share(parts: list[Part], notes: list[str]) -> tuple[Shared, list[Part]]:
    """The target's keypoints that a source has (the first source's, where the target names none), in all parts.

    Keypoints that a source lacks are unlabelled in it. Source instances without any label that is left take no part.
    """
    whole, kept = _in_common(parts, notes)
    skeleton = restricted(whole, kept)
    names: dict[str, dict[str, str]] = {}
    unused: dict[str, tuple[str, ...]] = {}
    brought = []
    for part in parts:
        own = _skeleton(part)
        if own is None:  # plain images take on whatever skeleton there is
            brought.append(part)
            continue
        found = correspond(own.keypoints, whole.keypoints)
        places = [found[k] for k in kept]
        pairs = zip(places, skeleton.keypoints, strict=True)
        names[part.name] = {own.keypoints[i]: name for i, name in pairs if i >= 0}
        unused[part.name] = tuple(name for name in own.keypoints if name not in names[part.name])
        brought.append(_brought(part, skeleton, places, notes))
    shared = Shared(skeleton, names, unused)
    notes += shared.lines()
    return shared, brought


def _in_common(parts: list[Part], notes: list[str]) -> tuple[Skeleton, list[int]]:
    """What the target names (else the first source), and which of it at least one source names too.

    A left keypoint goes without its right one, and the other way round: mirrored images would teach it wrong places.
    """
    sources = [(part.name, own) for part in parts if part.is_source and (own := _skeleton(part))]
    targets = [(part.name, own) for part in parts if not part.is_source and (own := _skeleton(part))]
    if not sources:
        raise InputError(f"{parts[0].name}: no annotation has keypoints. Name a source that has labels.")
    name, whole = (targets or sources)[0]
    found = [correspond(own.keypoints, whole.keypoints) for _, own in sources]
    named = [k for k in range(len(whole)) if any(places[k] >= 0 for places in found)]
    kept = [k for k in named if whole.flip_order[k] in named]
    if lone := [whole.keypoints[k] for k in named if k not in kept]:
        notes.append(f"{', '.join(lone)}: left out, since no source has the same of the other side.")
    if not kept:
        first, own = sources[0]
        raise InputError(
            f"{first} and {name} have no keypoint in common: {', '.join(own.keypoints)} against "
            f"{', '.join(whole.keypoints)}. Where only names differ, give them: source={{path: ..., keypoints: [...]}}."
        )
    return whole, kept


def restricted(skeleton: Skeleton, kept: list[int]) -> Skeleton:
    """Some keypoints of a skeleton, with the edges and pairs between them."""
    place = {k: i for i, k in enumerate(kept)}

    def between(pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        return tuple((place[a], place[b]) for a, b in pairs if a in place and b in place)

    return Skeleton(
        tuple(skeleton.keypoints[k] for k in kept),
        between(skeleton.edges),
        between(skeleton.flip_pairs),
        tuple(skeleton.sigmas[k] for k in kept),
    )


def _skeleton(part: Part) -> Skeleton | None:
    return part.skeleton or part.instances.skeleton


def _brought(part: Part, skeleton: Skeleton, places: list[int], notes: list[str]) -> Part:
    if part.instances.skeleton is None:  # its labels have been taken off
        return part
    found = brought_to(part.instances, skeleton, places)
    if part.is_source:
        found = with_labels(found)
        left_out = len(part.instances) - len(found)
        if not len(found):
            raise InputError(f"{part.name}: none of its instances has a label of a shared keypoint.")
        if left_out:
            notes.append(f"{part.name}: {left_out} instances have no label of a shared keypoint; left out.")
    return replace(part, instances=found)


def brought_to(instances: Instances, skeleton: Skeleton, places: Sequence[int]) -> Instances:
    """The same instances with the keypoints of ``skeleton``, from the given places; -1 is unlabelled."""
    index = np.array(places, np.int64)
    there = index >= 0
    return replace(
        instances,
        skeleton=skeleton,
        keypoints=np.where(there[:, None], instances.keypoints[:, index], 0).astype(np.float32),
        visibility=np.where(there, instances.visibility[:, index], 0).astype(np.uint8),
    )
