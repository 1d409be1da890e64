"""Which instance a correction is of: its id, held against the image that the person saw.

Ids are names within a source. With other sources, or in another order, an id may be that of another image.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath

import numpy as np

from placl.data.corrections import Correction
from placl.data.identity import Identity, identify
from placl.data.instances import Instances
from placl.errors import InputError

AGAIN = re.compile(r"(@\d+)+$")  # what joining sources puts behind an id that is taken


def by_images(corrections: Mapping[str, Correction], instances: Instances) -> dict[str, Correction]:
    """Each under the id that its instance has here; those of no instance keep theirs, for others to complain of.

    Images that lie where they lay, or are linked or copied, are known. Where the image is gone, the dataset was moved:
    then the id holds, and of several instances that it may stand for, the one whose path ends most alike.
    """
    row_of = {id_: row for row, id_ in enumerate(instances.ids)}
    doubtful = [one for one in corrections.values() if one.verdict != "open" and not _in_place(one, row_of, instances)]
    if not doubtful:
        return dict(corrections)
    seen, here = identify([[Path(one.image) for one in doubtful], instances.images])
    on_image: dict[Identity, list[int]] = defaultdict(list)
    alike: dict[str, list[int]] = defaultdict(list)  # rows by their ids in their own source
    for number, (id_, image) in enumerate(zip(instances.ids, instances.image_index.tolist(), strict=True)):
        on_image[here[image]].append(number)
        alike[_own(id_)].append(number)
    ids = {id_: id_ for id_ in corrections}
    for one, identity in zip(doubtful, seen, strict=True):
        own = row_of.get(one.id)
        if identity[0] != "missing":
            row = _on_image(one, on_image.get(identity, []), own, instances)
        else:
            row = None if own is None else _moved(one, alike[_own(one.id)], instances)
        if row is not None:
            ids[one.id] = instances.ids[row]
    return {ids[id_]: replace(one, id=ids[id_]) for id_, one in corrections.items()}


def _in_place(one: Correction, row_of: Mapping[str, int], instances: Instances) -> bool:
    row = row_of.get(one.id)
    return row is not None and os.path.abspath(one.image) == os.path.abspath(_image(instances, row))


def _on_image(one: Correction, rows: list[int], own: int | None, instances: Instances) -> int | None:
    """The instance on the image that was seen: of that id, else the only one that is called alike or has its box."""
    if own in rows:
        return own
    called = [row for row in rows if _own(instances.ids[row]) == _own(one.id)]
    like = called or [row for row in rows if _has_box(one, instances.boxes[row])]
    if len(like) == 1:
        return like[0]
    if own is None and not rows:
        return None
    there = f"{len(like)} instances there may be it" if rows else f"here that is {_image(instances, own or 0)}"
    raise InputError(
        f'the corrections name "{one.id}" on {one.image}, and {there}. Name the data that they were made on.'
    )


def _moved(one: Correction, rows: list[int], instances: Instances) -> int:
    """The instance whose image's path shares most of its last parts with the path that is gone."""
    shared = [_shared_end(one.image, _image(instances, row)) for row in rows]
    best = [row for row, length in zip(rows, shared, strict=True) if length == max(shared)]
    if len(best) > 1:
        raise InputError(
            f'the corrections name "{one.id}" on {one.image}, which is gone, and {len(best)} images may be it. Put it '
            "back, or name the data that they were made on, and nothing else."
        )
    return best[0]


def _shared_end(gone: str, image: Path) -> int:
    ends = zip(reversed(gone.replace("\\", "/").split("/")), reversed(PurePath(image).parts), strict=False)
    return next((n for n, (a, b) in enumerate(ends) if a != b), len(image.parts))


def _has_box(one: Correction, box: np.ndarray) -> bool:
    if one.box is None:
        return bool(np.isnan(box).any())
    return bool((np.abs(np.array(one.box) - box) < 1).all())


def _own(id_: str) -> str:
    return AGAIN.sub("", id_)


def _image(instances: Instances, row: int) -> Path:
    return instances.images[int(instances.image_index[row])]
