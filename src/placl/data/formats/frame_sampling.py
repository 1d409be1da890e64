"""Which frames of a video are worth labelling: evenly spaced, where something moves, or as different as can be.

Pure arithmetic on frame numbers, on how much each frame differs from the one before, and on small thumbnails.
"""

from __future__ import annotations

import numpy as np

STILL = 0.01  # what a frame without any change counts, as a share of the mean change
ROUNDS = 25  # of k-means
SEED = 0


def evenly(length: int, count: int) -> np.ndarray:
    """(min(length, count),) int64: the middle frames of equally long pieces. First and last frames are often black."""
    count = min(length, count)
    return (2 * np.arange(count, dtype=np.int64) + 1) * length // (2 * max(1, count))


def moving(change: np.ndarray, count: int) -> np.ndarray:
    """(min(T, count),) different frame numbers, evenly spaced on the cumulative curve of the (T,) changes.

    A cut would catch many frames on its one step of the curve. So changes are capped at the distance between two of
    the chosen places, which depends on the cap: with the m largest at the cap c and a sum s of the others,
    c = (s + m c) / count.
    """
    if len(change) <= count:
        return np.arange(len(change))
    change = change + (STILL * change.mean() or 1.0)
    largest = np.sort(change)[::-1]
    m = np.arange(count)
    rest = largest.sum() - np.concatenate([[0.0], np.cumsum(largest)])[:count]  # of all but the m largest
    caps = rest / (count - m)
    enough = largest[:count] <= caps
    first = int(np.argmax(enough)) if enough.any() else count - 1
    # A hair less than the distance, lest rounding puts two places on one step.
    curve = np.cumsum(np.minimum(change, caps[first] * (1 - 1e-6)))
    places = (np.arange(count) + 0.5) / count * curve[-1]
    return np.asarray(np.searchsorted(curve, places))


def diverse(points: np.ndarray, count: int) -> np.ndarray:
    """(at most count,) numbers of the (T, D) points that lie nearest to the centres of as many k-means clusters.

    Fewer only if fewer points differ.
    """
    if len(points) <= count:
        return np.arange(len(points))
    points = points - points.mean(axis=0)
    centres = points[_seeds(points, count)]
    owner = np.full(len(points), -1)
    for _ in range(ROUNDS):
        nearest = _squared_distances(points, centres).argmin(axis=1)
        if (nearest == owner).all():
            break
        owner = nearest
        members = (owner == np.arange(len(centres))[:, None]).astype(points.dtype)  # (C, T)
        sizes = members.sum(axis=1, keepdims=True)
        centres = np.where(sizes > 0, members @ points / np.maximum(sizes, 1), centres)
    distance = _squared_distances(points, centres)[np.arange(len(points)), owner]
    order = np.lexsort((distance, owner))  # by cluster, the nearest first
    chosen = order[np.unique(owner[order], return_index=True)[1]]
    return np.sort(_filled(points, chosen, min(count, len(centres))))


def _seeds(points: np.ndarray, count: int) -> np.ndarray:
    """k-means++: each next seed drawn with the chance of its squared distance from those before."""
    rng = np.random.default_rng(SEED)
    seeds = [int(rng.integers(len(points)))]
    distance = ((points - points[seeds[0]]) ** 2).sum(axis=1, dtype=np.float64)
    while len(seeds) < count and distance.any():
        place = rng.random() * distance.sum()
        # Where the curve rises past the place: rounding must not hit a point at distance 0.
        new = min(int(np.searchsorted(np.cumsum(distance), place, side="right")), int(np.flatnonzero(distance)[-1]))
        seeds.append(new)
        distance = np.minimum(distance, ((points - points[new]) ** 2).sum(axis=1, dtype=np.float64))
    return np.array(seeds)


def _filled(points: np.ndarray, chosen: np.ndarray, count: int) -> np.ndarray:
    """Clusters may have run empty: then the points that are farthest from all chosen ones."""
    if len(chosen) == count:
        return chosen
    distance = _squared_distances(points, points[chosen]).min(axis=1)
    while len(chosen) < count:
        chosen = np.append(chosen, distance.argmax())
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return chosen


def _squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(T, C), never negative."""
    cross = points @ centres.T
    squares = (points**2).sum(axis=1)[:, None] - 2 * cross + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0))
