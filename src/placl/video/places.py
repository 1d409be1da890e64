"""Where to look in each frame of a video: everywhere, in the boxes of a file, or around the last pose."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from placl.data.formats.frame_boxes import FrameBox, read_frame_boxes
from placl.errors import InputError
from placl.prediction import IMAGES_AT_ONCE
from placl.video.tracking import Track, Tracking, follow, whole

Size = tuple[int, int]  # width and height of a frame


class Places(Protocol):
    at_once: int  # frames whose places can be told together
    last: int  # frame that a file has a box for; -1 without a file

    def of(self, number: int, size: Size) -> list[FrameBox]:
        """The boxes to look at in a frame, all of them given."""
        ...

    def saw(self, keypoints: np.ndarray, confidence: np.ndarray, size: Size) -> None:
        """What was found in the last frame: (n, K, 2) keypoints and (n, K) confidence."""
        ...


class GivenPlaces:
    """The boxes of a COCO file, and nothing in a frame that has none; without a file, the whole of every frame."""

    at_once = IMAGES_AT_ONCE

    def __init__(self, boxes: Path | None) -> None:
        self._boxes = None if boxes is None else read_frame_boxes(boxes)
        self.last = max(self._boxes or {}, default=-1)

    def of(self, number: int, size: Size) -> list[FrameBox]:
        if self._boxes is None:
            return [FrameBox(whole(size), number, 1)]
        return [
            found if found.box is not None else FrameBox(whole(size), found.image_id, found.category_id)
            for found in self._boxes.get(number, ())
        ]

    def saw(self, keypoints: np.ndarray, confidence: np.ndarray, size: Size) -> None:
        pass


class FollowedPlace:
    """One animal. A frame that has a box in the file is looked at there; any other, where the animal was last.

    Frames are images by their number: ids of a file that has some of them would clash with the others' numbers.
    """

    at_once = 1

    def __init__(self, boxes: Path | None, settings: Tracking) -> None:
        self._boxes = {} if boxes is None else read_frame_boxes(boxes)
        for number, found in self._boxes.items():
            if len(found) > 1:
                raise InputError(f"{boxes}: frame {number} has {len(found)} boxes. --track follows one animal.")
        self.last = max(self._boxes, default=-1)
        self._settings = settings
        self._track: Track | None = None

    def of(self, number: int, size: Size) -> list[FrameBox]:
        if number in self._boxes:
            box = self._boxes[number][0].box
            self._track = Track(whole(size) if box is None else box)
        elif self._track is None:
            self._track = Track(whole(size))
        return [FrameBox(self._track.box, number, 1)]

    def saw(self, keypoints: np.ndarray, confidence: np.ndarray, size: Size) -> None:
        assert self._track is not None
        self._track = follow(self._track, keypoints[0], confidence[0], size, self._settings)
