"""A simple tracker for one animal: look next where the last pose was.

The centre of the box follows the pose at once, or a fast animal would run out of it; its size is smoothed, or a few
unsure keypoints would make it jump. When the animal is lost, the whole frame is searched again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placl.data.formats.common import box_around

SMALLEST = 16.0  # pixels that a box is wide and high at least: there is nothing to see in less


@dataclass(frozen=True)
class Tracking:
    """How an animal is followed."""

    confident: float = 0.3  # a keypoint that is at least so confident tells where the animal is
    enough: float = 0.5  # share of the keypoints that have to be, or the frame is a miss
    margin: float = 0.25  # of the pose's longer side, put around it on every side
    inertia: float = 0.5  # share of its size that the box keeps from one frame to the next
    patience: int = 5  # misses in a row before the whole frame is searched


@dataclass(frozen=True)
class Track:
    """Where to look in the next frame."""

    box: np.ndarray  # (4,) xywh
    misses: int = 0  # frames in a row in which too little was confident


def follow(
    track: Track, keypoints: np.ndarray, confidence: np.ndarray, frame: tuple[int, int], settings: Tracking
) -> Track:
    """The track after a pose of (K, 2) keypoints was found in its box, in a frame of that width and height."""
    sure = confidence >= settings.confident
    if sure.sum() < max(1, settings.enough * len(sure)):
        misses = track.misses + 1
        return Track(track.box if misses < settings.patience else whole(frame), misses)
    pose = box_around(keypoints[sure])
    wanted = np.maximum(pose[2:] + 2 * settings.margin * pose[2:].max(), SMALLEST)
    size = settings.inertia * track.box[2:] + (1 - settings.inertia) * wanted
    return Track(_inside(pose[:2] + pose[2:] / 2, size, frame))


def whole(frame: tuple[int, int]) -> np.ndarray:
    """(4,) the box of a frame of that width and height."""
    return np.array([0.0, 0.0, *frame])


def _inside(centre: np.ndarray, size: np.ndarray, frame: tuple[int, int]) -> np.ndarray:
    """The part of a box that lies in the frame; boxes that would lie outside touch it with their smallest size."""
    room = np.array(frame, np.float64)
    least = np.minimum(SMALLEST, room)
    low = np.clip(centre - size / 2, 0, room - least)
    high = np.clip(centre + size / 2, low + least, room)
    return np.concatenate([low, high - low])
