"""What is being localized: keypoint names, edges to draw, left/right pairs, and OKS sigmas."""

from __future__ import annotations

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

    def __len__(self) -> int:
        return len(self.keypoints)

    @property
    def flip_order(self) -> np.ndarray:
        """(K,) indices: keypoint k of a mirrored image is keypoint ``flip_order[k]`` of the original."""
        order = np.arange(len(self))
        for a, b in self.flip_pairs:
            order[a], order[b] = b, a
        return order


def flip_pairs_by_name(keypoints: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs whose names differ only in left/right, e.g. ``left_eye``/``right_eye``, ``L_paw``/``R_paw``."""
    index = {name.lower(): i for i, name in enumerate(keypoints)}
    pairs: list[tuple[int, int]] = []
    paired: set[int] = set()  # left_wing_l could pair with right_wing_l and with left_wing_r: the first way holds
    for left, right in (("left", "right"), ("l_", "r_"), ("_l", "_r"), ("l-", "r-"), ("-l", "-r")):
        for name, i in index.items():
            if left == "left":
                mirrored = name.replace(left, right)
            elif left.startswith(("_", "-")):
                mirrored = name[: -len(left)] + right if name.endswith(left) else name
            else:
                mirrored = right + name[len(left) :] if name.startswith(left) else name
            other = index.get(mirrored, i)
            if other != i and not {i, other} & paired:
                pairs.append((i, other))
                paired |= {i, other}
    return tuple(sorted(pairs))
