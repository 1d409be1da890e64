"""What is being localized: keypoint names, edges to draw, left/right pairs, and OKS sigmas."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

# From cocoeval.py; the order is nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles.
COCO_SIGMAS = (
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072,
    0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089,
)  # fmt: skip
DEFAULT_SIGMA = 0.05


@dataclass(frozen=True)
class Skeleton:
    """Names, edges (0-based), left/right pairs (0-based) and OKS sigmas of K keypoints."""

    keypoints: tuple[str, ...]
    edges: tuple[tuple[int, int], ...] = ()
    flip_pairs: tuple[tuple[int, int], ...] = ()
    sigmas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.keypoints:
            raise ValueError("a skeleton needs at least one keypoint")
        for i, name in enumerate(self.keypoints, start=1):
            if not name.strip():
                raise ValueError(f"keypoint {i} has no name")
        if len(set(self.keypoints)) != len(self.keypoints):
            raise ValueError(f"keypoint names repeat: {list(self.keypoints)}")
        for a, b in (*self.edges, *self.flip_pairs):
            if not (0 <= a < len(self) and 0 <= b < len(self)):
                raise ValueError(f"pair ({a}, {b}) points outside the {len(self)} keypoints")
        paired = [i for pair in self.flip_pairs for i in pair]
        if len(set(paired)) != len(paired):
            raise ValueError(f"a keypoint is in two flip pairs: {self.flip_pairs}")
        if not self.sigmas:
            is_coco = len(self) == 17 and self.keypoints[0] == "nose" and self.keypoints[-1] == "right_ankle"
            sigmas = COCO_SIGMAS if is_coco else (DEFAULT_SIGMA,) * len(self)
            object.__setattr__(self, "sigmas", sigmas)
        if len(self.sigmas) != len(self):
            raise ValueError(f"{len(self.sigmas)} sigmas for {len(self)} keypoints")
        for name, sigma in zip(self.keypoints, self.sigmas, strict=True):
            if not 0 < sigma < math.inf:
                raise ValueError(f'sigma of "{name}" is {sigma:g}, expected a positive number')

    def __len__(self) -> int:
        return len(self.keypoints)

    @property
    def flip_order(self) -> np.ndarray:
        """(K,) indices: keypoint k of a mirrored image is keypoint ``flip_order[k]`` of the original."""
        order = np.arange(len(self))
        for a, b in self.flip_pairs:
            order[a], order[b] = b, a
        return order


# Words of a name: leftEar_l1 is left, Ear, _, l, 1; pawLF is paw, LF.
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
# Front, hind, back, middle, rear, top: beside the side, as in LF and FL.
_LEFT_WORD = re.compile(r"l|l[fhbmrt]|[fhbmrt]l")


def flip_pairs_by_name(keypoints: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs whose names differ only in left/right: ``left_eye``, ``L_paw``, ``EarL``, ``wingL2``, ``paw_FL``.

    A wrong pair would spoil every mirrored image, so that a letter counts only as a word by itself or in a code such as
    FL, and a name that could pair in two ways by letters is left alone.
    """
    index = {name.lower(): i for i, name in enumerate(keypoints)}
    pairs: list[tuple[int, int]] = []
    paired: set[int] = set()
    for name, i in index.items():
        other = index.get(name.replace("left", "right"), i)
        if other != i and not {i, other} & paired:
            pairs.append((i, other))
            paired |= {i, other}
    possible = [
        (i, index[mirrored])
        for i, name in enumerate(keypoints)
        for mirrored in _mirrored_by_letter(name)
        if mirrored in index and not {i, index[mirrored]} & paired
    ]
    ways = Counter(end for pair in possible for end in pair)
    return tuple(sorted(pairs + [(a, b) for a, b in possible if ways[a] == ways[b] == 1]))


def _mirrored_by_letter(name: str) -> set[str]:
    """The name, in lower case, with an l that stands for left turned into an r; one for each such l."""
    words = _WORDS.findall(name)
    found = set()
    for i, word in enumerate(words):
        low = word.lower()
        if _LEFT_WORD.fullmatch(low):
            found.add("".join([*words[:i], low.replace("l", "r"), *words[i + 1 :]]).lower())
    return found
