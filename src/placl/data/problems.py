"""What may be wrong with labels: a line for each kind of problem, how often it occurs, and where for the first time."""

from __future__ import annotations

import re

import numpy as np

from placl.data.instances import Instances
from placl.data.pool import UNLABELLED

TINY = 16  # longest side of a box, pixels, below which there is hardly anything to see
SIDED = re.compile(r"(?i:left|right|^[lr][_-]|[_-][lr]$)|[a-z][LR]$|^[LR][A-Z][a-z]")  # names that tell a side


def outside_image(instances: Instances, sizes: np.ndarray) -> np.ndarray:
    """(N, K) bool: labelled, but not in the image. Comparisons with unknown sizes are false."""
    extent = sizes[instances.image_index][:, None]  # (N, 1, 2)
    points = instances.keypoints
    beyond = ((points < -0.5) & ~np.isnan(extent)) | (points > extent - 0.5)
    return np.asarray(beyond.any(axis=2) & (instances.visibility > UNLABELLED))


def place_problems(instances: Instances, sizes: np.ndarray, outside: np.ndarray) -> list[str]:
    """Keypoints and boxes outside their images, and boxes too small to see anything in."""
    problems = []
    looked_at = int((~np.isnan(sizes[:, 0])).sum())
    the_image = "the image" + (f" (in the {looked_at:,} images looked at)" if looked_at < len(sizes) else "")
    if instances.skeleton is not None and outside.any():
        row, k = np.argwhere(outside)[0]
        example = f"{instances.skeleton.keypoints[k]} of {instances.ids[row]}"
        problems.append(f"{many(int(outside.sum()), 'keypoint')} outside {the_image}, e.g. {example}")
    boxes, extent = instances.boxes, sizes[instances.image_index]
    far = boxes[:, :2] + boxes[:, 2:]
    # One pixel is a matter of convention. A box drawn around keypoints is as right or wrong as they are.
    known = ~np.isnan(extent[:, 0])
    beyond = known & ((boxes[:, :2] < -1) | (far > extent + 1)).any(axis=1)
    gone = known & ((far <= 0) | (boxes[:, :2] >= extent)).any(axis=1)
    if instances.drawn is not None:
        beyond &= ~instances.drawn
    for rows, what in ((beyond & ~gone, "partly outside"), (gone, "wholly outside")):
        if rows.any():
            problems.append(
                f"{many(int(rows.sum()), 'box')} {what} {the_image}, e.g. that of {_example(instances, rows)}"
            )
    tiny = boxes[:, 2:].max(axis=1) < TINY
    if tiny.any():
        problems.append(
            f"{many(int(tiny.sum()), 'box')} smaller than {TINY} px, e.g. that of {_example(instances, tiny)}"
        )
    return problems


def size_problems(instances: Instances, sizes: np.ndarray) -> list[str]:
    """Images of another size than their source says: labels were made on others, or before these were turned."""
    if instances.stated is None:
        return []
    stated = instances.stated
    other = ~np.isnan(sizes[:, 0]) & ~np.isnan(stated[:, 0]) & (sizes != stated).any(axis=1)
    swapped = other & (sizes == stated[:, ::-1]).all(axis=1)
    problems = []
    for rows, hint in ((swapped, "; turned by EXIF?"), (other & ~swapped, "; resized since?")):
        if rows.any():
            i = int(np.argmax(rows))
            (width, height), (said_width, said_height) = sizes[i], stated[i]
            example = f"{instances.images[i].name} of {width:.0f}x{height:.0f} px as {said_width:.0f}x{said_height:.0f}"
            problems.append(f"{many(int(rows.sum()), 'image')} annotated in another size, e.g. {example}{hint}")
    return problems


def label_problems(instances: Instances) -> list[str]:
    """Instances with hardly a label, or with those of another."""
    problems = []
    counts = (instances.visibility > UNLABELLED).sum(axis=1)
    single = counts == 1
    if single.any() and instances.visibility.shape[1] > 1:
        example = _example(instances, single)
        problems.append(f"{many(int(single.sum()), 'instance')} with a single labelled keypoint, e.g. {example}")
    rows = np.flatnonzero(counts)
    points = instances.keypoints[rows].reshape(len(rows), 2 * instances.visibility.shape[1]) + 0.0  # -0 becomes 0
    labels = (instances.image_index[rows, None], instances.visibility[rows], points)
    table = np.ascontiguousarray(np.concatenate(labels, axis=1, dtype=np.float64))
    # Each row as one value: many times as fast as np.unique(axis=0).
    keys = table.view(np.dtype((np.void, table.itemsize * table.shape[1])))[:, 0]
    first, inverse = np.unique(keys, return_index=True, return_inverse=True)[1:]
    copies = np.flatnonzero(first[inverse] != np.arange(len(rows)))
    if len(copies):
        copy, original = instances.ids[rows[copies[0]]], instances.ids[rows[first[inverse[copies[0]]]]]
        text = f"{many(len(copies), 'instance')} with the keypoints of another in the same image"
        problems.append(f"{text}, e.g. {copy} as {original}")
    return problems


def name_problems(instances: Instances) -> list[str]:
    """Keypoints that lack a partner on the other side, or any label."""
    if instances.skeleton is None:
        return []
    names, problems = instances.skeleton.keypoints, []
    paired = {i for pair in instances.skeleton.flip_pairs for i in pair}
    alone = [name for i, name in enumerate(names) if i not in paired and SIDED.search(name)]
    if alone:
        problems.append(f"{many(len(alone), 'keypoint')} without a left/right partner: {_listed(alone)}")
    never = np.flatnonzero(~(instances.visibility > UNLABELLED).any(axis=0))
    if len(never) and instances.labelled.any():
        problems.append(f"{many(len(never), 'keypoint')} never labelled: {_listed([names[k] for k in never])}")
    return problems


def _example(instances: Instances, rows: np.ndarray) -> str:
    return instances.ids[int(np.argmax(rows))]


def many(count: int, noun: str) -> str:
    plural = {"box": "boxes"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
