"""Does the exported file say what PyTorch says? On crops of the run's own data, or on drawn ones where it is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from placl.config import Config
from placl.data.crops import crop_maps, cut_out
from placl.data.images import UnreadableImageError
from placl.data.instances import Instances
from placl.data.sources import read_labelled
from placl.errors import InputError, MachineError
from placl.exporting.programs import Answer
from placl.run.folder import read_config

TOLERANCE = 1e-4  # pixels, and confidence
IMAGES = 100
AT_ONCE = 32
GREY_LEVELS = 1e-3  # what pixels are changed by, at most, to find keypoints that hang on rounding
TRIES = 8
ROUNDING = 1e-6  # of a heatmap, at most: confidence differs by as much in files that agree

Read = Callable[[np.ndarray], Answer]
Peaks = Callable[[np.ndarray, np.ndarray, float], np.ndarray]  # images, (N, K, 2) places, rounding -> (N, K) bool


@dataclass(frozen=True)
class Agreement:
    """How far two readings of the same images lie apart."""

    images: int
    source: str  # what the images are
    keypoints: int  # compared
    pixels: float  # largest difference of a coordinate, in crop pixels
    confidence: float  # largest difference
    undecided: int  # of the keypoints, not in the differences: PyTorch itself says either on the same images, nearly


def compare(
    reference: Read, other: Read, images: np.ndarray, source: str, name: str, peaks: Peaks | None = None
) -> Agreement:
    """Hold ``other`` against ``reference`` on (N, 3, S, S) images; above the tolerance, an error.

    An argmax between two equal peaks, or a Taylor step on a flat one, has no answer to four digits: rounding decides.
    Such a keypoint is known by the reference's own answers on the same images with a thousandth of a grey level added,
    or, if confidence agrees, by ``peaks``: there the reference's own heatmap is as high.
    """
    theirs = _all(other, images)
    apart, surer = _differences(_all(reference, images), theirs)
    off = np.maximum(apart, surer) > TOLERANCE  # (N, K)
    undecided = np.zeros_like(off)
    rows = np.flatnonzero(off.any(axis=1))
    if len(rows):
        slack_px, slack = _own_noise(reference, images[rows])
        undecided[rows] = off[rows] & (apart[rows] <= np.maximum(slack_px, TOLERANCE))
        undecided[rows] &= surer[rows] <= np.maximum(slack, TOLERANCE)
    left = off & ~undecided & (surer <= TOLERANCE)
    rows = np.flatnonzero(left.any(axis=1))
    if len(rows) and peaks is not None:
        rounding = min(ROUNDING, 2 * float(surer.max()))  # one pixel is rounded up, the other down
        undecided[rows] |= left[rows] & peaks(images[rows], theirs[0][rows], rounding)
    worst = float(np.where(undecided, 0.0, apart).max()), float(np.where(undecided, 0.0, surer).max())
    if max(worst) > TOLERANCE:
        raise MachineError(
            f"{name}: does not agree with PyTorch: keypoints differ by up to {worst[0]:.2g} px, confidence by up to "
            f"{worst[1]:.2g}. Nothing was written. Try other versions of torch and onnxruntime."
        )
    return Agreement(len(images), source, off.size, *worst, int(undecided.sum()))


def _all(read: Read, images: np.ndarray) -> Answer:
    parts = [read(images[start : start + AT_ONCE]) for start in range(0, len(images), AT_ONCE)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _differences(a: Answer, b: Answer) -> Answer:
    """(N, K) largest difference of a coordinate and difference of confidence. NaN is as far off as can be."""
    far = np.abs(a[0] - b[0]).max(axis=-1), np.abs(a[1] - b[1])
    return np.nan_to_num(far[0], nan=np.inf), np.nan_to_num(far[1], nan=np.inf)


def _own_noise(reference: Read, images: np.ndarray) -> Answer:
    """(N, K) how far the reference's own keypoints and confidence move under changes far below a grey level."""
    random = np.random.default_rng(0)
    plain = _all(reference, images)
    moved = []
    for _ in range(TRIES):
        noise = random.uniform(-GREY_LEVELS, GREY_LEVELS, images.shape).astype(np.float32)
        moved.append(_differences(plain, _all(reference, images + noise)))
    return np.max([px for px, _ in moved], axis=0), np.max([trust for _, trust in moved], axis=0)


def pictures(run: Path, size: int, context: float) -> tuple[np.ndarray, str]:
    """(N, 3, S, S) float32 crops to compare on, and what they are."""
    try:
        config = read_config(run)
        found = _crops(_instances(config), size, context)
    except (InputError, OSError):  # moved, deleted, or never in files
        found = np.zeros((0, size, size, 3), np.uint8)
    source = "crops of the run's data"
    if not len(found):
        found, source = drawn(IMAGES, size), "drawn images (the run's data are not within reach)"
    return np.ascontiguousarray(found.transpose(0, 3, 1, 2), dtype=np.float32), source


def _instances(config: Config) -> Instances:
    """Of the first source that scores are measured on, else of the first labelled one."""
    if config.data.protocol is not None:
        from placl.data.protocols import read_protocol

        return read_protocol(config.data.protocol, config.data.root)[0][-1][1]
    sources = config.data.test or config.data.val or config.data.labeled or config.data.source
    if not sources:
        raise InputError("the data are not in files.")
    return read_labelled(sources[0], config.data).instances


def _crops(instances: Instances, size: int, context: float) -> np.ndarray:
    """Some of the instances, from all over the source, as the network sees them."""
    crops = []
    for row in np.unique(np.linspace(0, len(instances) - 1, IMAGES).astype(int)) if len(instances) else ():
        maps = crop_maps(instances.boxes[row : row + 1], view=size, context=context, size=size)
        try:
            image = instances.images[instances.image_index[row]]
            crops.append(cut_out(image, maps, view=size, context=context, size=size)[0][0])
        except UnreadableImageError:
            continue
    return np.stack(crops) if crops else np.zeros((0, size, size, 3), np.uint8)


def drawn(count: int, size: int) -> np.ndarray:
    """(N, S, S, 3) uint8 clouds of colour, coarse and fine."""
    random = np.random.default_rng(0)
    images = np.empty((count, size, size, 3), np.uint8)
    for image in images:
        side = int(random.integers(3, max(4, size // 3)))
        few = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
        cv2.resize(few, (size, size), dst=image, interpolation=cv2.INTER_LINEAR)
    return images
