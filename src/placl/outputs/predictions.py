"""What a model has found: keypoints of instances in images or in the frames of a video."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.skeleton import Skeleton


@dataclass(frozen=True)
class Clip:
    """The video that instances are in. Frames are counted from 0, as they were decoded."""

    path: Path
    frames: np.ndarray  # (N,) int64, the frame of each instance
    length: int  # frames that were decoded
    promised: int  # by the header; 0 if it does not tell
    fps: float  # 0 if the header does not tell
    size: tuple[int, int]  # width and height of the first frame


@dataclass(frozen=True)
class Predictions:
    """N instances in image pixels."""

    keypoints: np.ndarray  # (N, K, 2) float64
    confidence: np.ndarray  # (N, K) float32
    boxes: np.ndarray  # (N, 4) float64 xywh
    files: tuple[Path, ...]  # (N,) the image of each, or the video
    names: tuple[str, ...]  # (N,) its file name as the source has it
    image_ids: tuple[int | str, ...]  # (N,) from the COCO file, else counted from 1; frames of a video from 0
    category_ids: tuple[int | str, ...]  # (N,)
    skeleton: Skeleton  # of K keypoints
    skipped: tuple[str, ...] = ()  # unreadable images and why, missing frames, boxes on none; a line each
    clip: Clip | None = None  # of a video
    notes: tuple[str, ...] = ()  # how many images were left out on purpose, and why; a line each

    def __len__(self) -> int:
        return len(self.keypoints)

    @property
    def scores(self) -> np.ndarray:
        """(N,) mean confidence of the keypoints."""
        return np.asarray(self.confidence.mean(axis=1))

    def to_coco(self) -> list[dict[str, Any]]:
        """COCO keypoint results, as pycocotools' ``loadRes`` takes them; ``file_name`` is an extra."""
        return list(self.records())

    def records(self) -> Iterator[dict[str, Any]]:
        """The same, one at a time; those of a video have their ``frame_index``, too."""
        scores = self.scores
        for i in range(len(self)):
            points = np.concatenate([np.round(self.keypoints[i], 3), np.round(self.confidence[i], 4)[:, None]], axis=1)
            record: dict[str, Any] = {
                "image_id": self.image_ids[i],
                "category_id": self.category_ids[i],
                "keypoints": [round(float(value), 4) for value in points.ravel()],
                "score": round(float(scores[i]), 4),
                "bbox": [round(float(value), 3) for value in self.boxes[i]],
                "file_name": self.names[i],
            }
            if self.clip is not None:
                record["frame_index"] = int(self.clip.frames[i])
            yield record

    def save(self, path: Path | str, kind: str | None = None) -> None:
        """Write a file: COCO results, csv, DeepLabCut or SLEAP, as ``kind`` or the suffix of its name tells."""
        from placl.outputs.writing import write_predictions

        write_predictions(self, Path(path), kind)
