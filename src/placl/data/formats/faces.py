"""Which of a face's landmarks mirror each other, for the two schemes whose files name no keypoints.

300-W (iBUG) has 68 landmarks, WFLW 98; both are numbered in the order of their papers.
"""

from __future__ import annotations

Pairs = tuple[tuple[int, int], ...]


def _mirrored(*runs: tuple[int, int, int]) -> Pairs:
    """Runs of ``count`` landmarks from ``first`` up, mirrored by those from ``last`` down."""
    return tuple((first + i, last - i) for first, last, count in runs for i in range(count))


FACE_PAIRS: dict[int, Pairs] = {
    68: _mirrored(
        (0, 16, 8),  # jaw; 8 is the chin
        (17, 26, 5),  # brows
        (31, 35, 2),  # nostrils
        (36, 45, 4),  # upper eyelids
        (40, 47, 2),  # lower eyelids
        (48, 54, 3),  # upper lip, outside
        (55, 59, 2),  # lower lip, outside
        (60, 64, 2),  # upper lip, inside
        (65, 67, 1),  # lower lip, inside
    ),
    98: _mirrored(
        (0, 32, 16),  # jaw; 16 is the chin
        (33, 46, 5),  # brows, upper edge
        (38, 50, 4),  # brows, lower edge
        (55, 59, 2),  # nostrils
        (60, 72, 5),  # upper eyelids
        (65, 75, 3),  # lower eyelids
        (76, 82, 3),  # upper lip, outside
        (83, 87, 2),  # lower lip, outside
        (88, 92, 2),  # upper lip, inside
        (93, 95, 1),  # lower lip, inside
        (96, 97, 1),  # pupils
    ),
}
