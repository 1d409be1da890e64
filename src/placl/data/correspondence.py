"""Which keypoints of two skeletons are the same: by their names, however they are spelled, and by what names mean.

``L_F_Paw``, ``leftFrontPaw`` and ``left front paw`` are spelled differently and are one name: side, pair of legs and
part are taken apart and compared. A few names mean the same without being alike (``SAME``). What is in doubt does not
meet: a keypoint that is wrongly trained costs more than one that is missing. docs/domains.md has the table for people.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

# Words of a name: leftEar_l1 is left, Ear, l, 1; pawLF is paw, LF.
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W0-9A-Za-z_]+")
_SIDES = {"l": "left", "left": "left", "r": "right", "right": "right"}
_LEGS = {"front": "front", "fore": "front", "back": "back", "hind": "back", "rear": "back"}
_LETTERS = {"f": "front", "b": "back", "h": "back"}  # of legs, only beside a side: L_F_Paw, pawLH
_OF_LEGS = re.compile(r"(fore|front|hind|rear|back)(paw|foot|hoof|leg|limb|toe|knee|elbow|ankle|wrist)")  # hindpaw


class Name(NamedTuple):
    """A keypoint's name, taken apart."""

    side: str  # "left", "right" or ""
    legs: str  # "front", "back" or ""
    part: str  # "paw"; the other words in their order, without anything between them


# Names that mean one place on a body, each with the name that they are read as. A wrist is the joint that an animal's
# front knee is; elbows are of front legs. Neither holds for hind legs: a person's knee is the stifle, and what datasets
# call the knee of a hind leg is often the hock.
SAME = {
    "earbase": "ear",
    "nosetip": "nose",
    "tipofnose": "nose",
    "tailroot": "tailbase",
    "rootoftail": "tailbase",
    "baseoftail": "tailbase",
    "foot": "paw",
    "hoof": "paw",
}
SAME_OF_FRONT_LEGS = {"elbow": "elbow", "wrist": "knee"}  # where a name does not say which legs


def take_apart(name: str) -> Name:
    words = [word.lower() for word in _WORDS.findall(name)] or [name]
    side = legs = ""
    part: list[str] = []
    for word in _apart(words):
        prefix = next((one for one in ("left", "right") if word.startswith(one) and len(word) > len(one) + 1), "")
        code = _code(word) if len(words) > 1 else None
        if not side and word in _SIDES:
            side = _SIDES[word]
        elif not side and prefix:  # lefteye
            side = prefix
            part.append(word.removeprefix(prefix))
        elif not (side or legs) and code:
            side, legs = code
        elif not legs and (word in _LEGS or (side and word in _LETTERS)):
            legs = _LEGS.get(word) or _LETTERS[word]
        else:
            part.append(word)
    if not part:  # "back" is a part of a bird, not a pair of legs
        return Name(side, "", legs or side)
    return Name(side, legs, "".join(part))


def _apart(words: list[str]) -> list[str]:
    """Words of which none is several: lefthindpaw is left, hind, paw; forehead is no pair of legs."""
    found: list[str] = []
    for word in words:
        side = next((one for one in ("left", "right") if word.startswith(one)), "")
        legs = _OF_LEGS.fullmatch(word.removeprefix(side))
        found += [word] if legs is None else [*filter(None, [side]), *legs.groups()]
    return found


def _code(word: str) -> tuple[str, str] | None:
    """Side and legs of a code such as LF and FL."""
    for letters in (word, word[::-1]):
        if len(letters) == 2 and letters[0] in _SIDES and letters[1] in _LETTERS:
            return _SIDES[letters[0]], _LETTERS[letters[1]]
    return None


def meaning(name: str) -> Name:
    """The name that stands for all that mean the same."""
    side, legs, part = take_apart(name)
    if side and not legs and part in SAME_OF_FRONT_LEGS:
        return Name(side, "front", SAME_OF_FRONT_LEGS[part])
    return Name(side, legs, SAME.get(part, part))


def correspond(keypoints: Sequence[str], to: Sequence[str]) -> tuple[int, ...]:
    """For each keypoint of ``to``, the place of the same one in ``keypoints``, or -1.

    Spelling goes before meaning, and a name that would meet two others meets none.
    """
    found = dict.fromkeys(range(len(to)), -1)
    ways: tuple[Callable[[str], Hashable], ...] = (str, take_apart, meaning)
    for way in ways:
        free = [i for i in range(len(keypoints)) if i not in found.values()]
        place = _only({i: way(keypoints[i]) for i in free})
        wanted = _only({k: way(to[k]) for k, i in found.items() if i < 0})
        found |= {k: place[key] for key, k in wanted.items() if key in place}
    return tuple(found.values())


def _only(keys: dict[int, Hashable]) -> dict[Hashable, int]:
    """Places by key, where a key has one place only."""
    counts = Counter(keys.values())
    return {key: place for place, key in keys.items() if counts[key] == 1}
