"""Whose instances they are, which tools keep in different places: ids carry it from one to another.

An id ends in an individual as DeepLabCut has it (``img.png#mus1``), in a number and a track as SLEAP does
(``img.png#2:female``), or in a number alone, which counts instances or annotations and is nobody's name.
"""

from __future__ import annotations

import re

import numpy as np

from placl.data.instances import Instances

TRACK = re.compile(r"\d+:(.+)", re.DOTALL)
COUNT = re.compile(r"[\d-]+(@\d+)*")  # of instances, of annotations, of tasks and instances


def individuals_in(instances: Instances) -> list[str]:
    """(N,) names; "" for instances that have none."""
    images = [instances.images[i].name for i in instances.image_index]
    ends = [_end(identity, image) for identity, image in zip(instances.ids, images, strict=True)]
    names = [_name(end) for end in ends]
    return names if any(names) or _are_counts(instances.image_index, ends) else ends


def _end(identity: str, image: str) -> str:
    """What an id says behind its image's name."""
    if identity.endswith(image):
        return ""
    _, found, end = identity.rpartition(f"{image}#")
    return end if found or "#" not in identity else identity.rpartition("#")[2]


def _name(end: str) -> str:
    track = TRACK.fullmatch(end)
    if track is not None:
        return track[1]
    return "" if COUNT.fullmatch(end) else end


def _are_counts(image_index: np.ndarray, ends: list[str]) -> bool:
    """Whether numbers are only that: 1, 2, ... in every image, or none of them twice. Animals may be called 1 and 2."""
    if len(set(ends)) == len(ends) or not all(end.isdigit() for end in ends if end):
        return True
    seen: dict[int, int] = {}
    for image, end in zip(image_index.tolist(), ends, strict=True):
        seen[image] = seen.get(image, 0) + 1
        if end and int(end) != seen[image]:
            return False
    return True
