"""Predictions on a video: every frame, in order, decoded once. Pixels of a few frames are in memory, never of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from placl.data.formats.frame_boxes import FrameBox
from placl.data.formats.frames import VideoHead, decoded, video_head
from placl.data.instances import plain_instances
from placl.errors import InputError
from placl.model import Model
from placl.outputs.predictions import Clip, Predictions
from placl.prediction import OnProgress, read_out
from placl.video.overlay import overlay_video
from placl.video.places import FollowedPlace, GivenPlaces, Places, Size
from placl.video.tracking import Tracking

BYTES_AT_ONCE = 128 * 2**20  # of frames that go through the network together, at least one


@dataclass(frozen=True)
class Seen:
    """The n instances in some frames."""

    frames: np.ndarray  # (n,) int64
    keypoints: np.ndarray  # (n, K, 2)
    confidence: np.ndarray  # (n, K)
    boxes: np.ndarray  # (n, 4)
    places: list[FrameBox]  # n


def predict_video(
    model: Model,
    video: Path,
    boxes: Path | None = None,
    *,
    tracking: Tracking | None = None,
    overlay: Path | None = None,
    threshold: float = 0.0,
    on_progress: OnProgress | None = None,
) -> Predictions:
    """Predict every frame: the whole of it, its ``boxes``, or a box that follows one animal.

    ``overlay`` is a video to write; keypoints less confident than ``threshold`` are not drawn in it.
    """
    if not video.is_file():
        raise InputError(f"{video}: does not exist. Pass a video, a folder of images or an image.")
    places: Places = GivenPlaces(boxes) if tracking is None else FollowedPlace(boxes, tracking)
    head = video_head(video)
    parts: list[Seen] = []
    length, lost, size = 0, 0, (0, 0)
    with ExitStack() as stack:
        show = stack.enter_context(overlay_video(overlay, head.fps, model.skeleton, threshold)) if overlay else None
        for images in passages(video, places.at_once):
            found = look(model, images, length, places)
            parts.append(found)
            for number, image in enumerate(images, start=length):
                rows = found.frames == number
                if image is None:
                    lost += 1
                else:
                    size = size if any(size) else size_of(image)
                    places.saw(found.keypoints[rows], found.confidence[rows], size_of(image))
                if show:
                    show(image, found.keypoints[rows], found.confidence[rows], found.boxes[rows])
            length += len(images)
            if on_progress:
                on_progress(length, max(head.promised, length + 1))
        if length == lost:
            raise InputError(f"{video}: no frame can be decoded. It may be empty, cut off, or of a codec unknown here.")
        if not any(len(found.frames) for found in parts):
            raise InputError(
                f"{boxes}: none of its boxes is on one of the {length} frames, counted from 0, of {video}."
            )
    if on_progress:
        on_progress(length, length)
    frames = np.concatenate([found.frames for found in parts])
    looked_at = [place for found in parts for place in found.places]
    return Predictions(
        keypoints=np.concatenate([found.keypoints for found in parts]),
        confidence=np.concatenate([found.confidence for found in parts]),
        boxes=np.concatenate([found.boxes for found in parts]),
        files=(video,) * len(frames),
        names=tuple(f"{video.name}#{number:06d}" for number in frames.tolist()),
        image_ids=tuple(place.image_id for place in looked_at),
        category_ids=tuple(place.category_id for place in looked_at),
        skeleton=model.skeleton,
        skipped=tuple(_notes(video, head, length, lost, boxes, places.last)),
        clip=Clip(video, frames, length, head.promised, head.fps, size),
    )


def passages(video: Path, at_once: int) -> Iterator[list[np.ndarray | None]]:
    """All frames in order as (H, W, 3) uint8 RGB, some at a time; None stands for one that cannot be decoded."""
    passage: list[np.ndarray | None] = []
    room = BYTES_AT_ONCE
    for frame in decoded(video):
        passage.append(None if frame is None else cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        room -= 0 if frame is None else frame.nbytes
        if len(passage) == at_once or room <= 0:
            yield passage
            passage, room = [], BYTES_AT_ONCE
    if passage:
        yield passage


def size_of(image: np.ndarray) -> Size:
    return image.shape[1], image.shape[0]


def look(model: Model, images: list[np.ndarray | None], start: int, places: Places) -> Seen:
    """Ask the network about all places in the frames from number ``start`` on, together."""
    looked_at: list[tuple[int, FrameBox]] = []
    for number, image in enumerate(images, start=start):
        if image is not None:
            looked_at += [(number, place) for place in places.of(number, size_of(image))]
    k = len(model.skeleton)
    if not looked_at:
        return Seen(np.zeros(0, np.int64), np.zeros((0, k, 2)), np.zeros((0, k), np.float32), np.zeros((0, 4)), [])
    numbers = np.array([number for number, _ in looked_at], np.int64)
    boxes = np.array([place.box for _, place in looked_at], np.float64)
    used = np.unique(numbers)
    shown = {Path(f"frame {number}"): images[number - start] for number in used.tolist()}
    instances = plain_instances(
        images=tuple(shown),
        ids=tuple(map(str, range(len(numbers)))),
        image_index=np.searchsorted(used, numbers).astype(np.int64),
        boxes=boxes,
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
    )

    def pixels(file: Path | str, shrink: int) -> tuple[np.ndarray, int]:
        image = shown[Path(file)]
        assert image is not None
        return image, 1

    reading = read_out(model, instances, pixels=pixels)
    keypoints = reading.pool.in_image(reading.labels.keypoints)
    return Seen(numbers, keypoints, reading.labels.confidence, boxes, [place for _, place in looked_at])


def _notes(video: Path, head: VideoHead, length: int, lost: int, boxes: Path | None, last: int) -> Iterator[str]:
    if length < head.promised:
        yield (
            f"{video.name}: its header promises {head.promised} frames, {length} came. "
            "What is missing is cut off or damaged."
        )
    if lost:
        yield f"{video.name}: {lost} of its {length} frames cannot be decoded; nothing is predicted in them."
    if boxes is not None and last >= length:
        yield (
            f"{boxes.name}: its boxes go up to frame {last}, but {video.name} ends with frame {length - 1}; "
            "those beyond are left out."
        )
