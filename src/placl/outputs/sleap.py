"""Predictions as a SLEAP file: predicted instances with their scores on the frames of the video, or on the images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placl.data.formats.sleap import image_sequences, save_labels, sleap_skeleton
from placl.errors import InputError
from placl.outputs.predictions import Clip, Predictions


def write_sleap(found: Predictions, path: Path) -> None:
    """The video, or the images, are named by their full path, as :func:`placl.data.formats.sleap.write_sleap` does."""
    import sleap_io  # slow to import, so only where it is used

    skeleton = sleap_skeleton(found.skeleton)
    places = _places(found, path) if found.clip is None else _frames(found.clip)
    scores = found.scores
    videos = {id(video): video for video, _ in places}  # in the order of the images
    frames: dict[tuple[int, int], Any] = {}
    for i, (video, number) in enumerate(places):
        instance = sleap_io.PredictedInstance.from_numpy(
            found.keypoints[i], skeleton=skeleton, point_scores=found.confidence[i], score=float(scores[i])
        )
        if (id(video), number) not in frames:
            frames[id(video), number] = sleap_io.LabeledFrame(video=video, frame_idx=number)
        frames[id(video), number].instances.append(instance)
    labels = sleap_io.Labels(list(frames.values()), videos=list(videos.values()), skeletons=[skeleton])
    save_labels(labels, path)


def _frames(clip: Clip) -> list[tuple[Any, int]]:
    """The one video and the frame of each instance. It is described as it was decoded: nothing is opened again."""
    import sleap_io

    width, height = clip.size
    about = {"shape": (clip.length, height, width, 3), **({"fps": clip.fps} if clip.fps else {})}
    video = sleap_io.Video(filename=clip.path.absolute().as_posix(), open_backend=False, backend_metadata=about)
    return [(video, number) for number in clip.frames.tolist()]


def _places(found: Predictions, path: Path) -> list[tuple[Any, int]]:
    images = tuple(dict.fromkeys(found.files))
    for image in images:
        if not image.is_file():
            raise InputError(
                f"{path}: a SLEAP file names image files, and {image} is none. Write .json or .csv instead."
            )
    place = dict(zip(images, image_sequences(images), strict=True))
    return [place[file] for file in found.files]
