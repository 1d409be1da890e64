"""AnimalPose as its authors publish it: a ``keypoints.json`` that resembles COCO and differs in four ways.

``images`` maps ids to file names, keypoints are nested, boxes are two corners, and a labelled keypoint has v = 1.
mmpose's conversion is plain COCO and read as such.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.coco import coco_skeleton
from placl.data.formats.common import Leads, checked_numbers, load_json, peek_json, renamed, require_image
from placl.data.formats.format import Format, Found, Options
from placl.data.instances import Instances
from placl.data.pool import VISIBLE
from placl.data.skeleton import Skeleton
from placl.errors import InputError

Record = dict[str, Any]
# From configs/_base_/datasets/animalpose.py of mmpose, whose names stand on the right of the authors'; the paper has
# none. They were made from COCO's by hand: one ear's is that of COCO's nose, and the nose's that of COCO's ears.
SIGMAS = {
    name: sigma
    for names, sigma in (
        ("left_eye L_Eye right_eye R_Eye", 0.025),
        ("left_ear L_EarBase", 0.026),
        ("right_ear R_EarBase nose Nose", 0.035),
        ("throat Throat tailbase TailBase withers Withers", 0.1),
        ("left_front_elbow L_F_Elbow right_front_elbow R_F_Elbow", 0.107),
        ("left_back_elbow L_B_Elbow right_back_elbow R_B_Elbow", 0.107),
        ("left_front_knee L_F_Knee right_front_knee R_F_Knee", 0.087),
        ("left_back_knee L_B_Knee right_back_knee R_B_Knee", 0.087),
        ("left_front_paw L_F_Paw right_front_paw R_F_Paw", 0.089),
        ("left_back_paw L_B_Paw right_back_paw R_B_Paw", 0.089),
    )
    for name in names.split()
}


def with_sigmas(skeleton: Skeleton) -> Skeleton:
    """AnimalPose's skeleton, under the names of its authors or of mmpose, with the OKS sigmas that mmpose gave it."""
    known = zip(skeleton.keypoints, skeleton.sigmas, strict=True)
    return replace(skeleton, sigmas=tuple(SIGMAS.get(name, sigma) for name, sigma in known))


def read_animalpose(path: Path, options: Options) -> Found:
    """Every annotation; its class is its category: dog, cat, sheep, horse or cow."""
    file = path / "keypoints.json" if path.is_dir() else path
    images, annotations, categories = _records(file)
    skeleton = _skeleton(file, categories)
    labels = checked_numbers(file, "annotation", annotations, "keypoints", (len(skeleton), 3))
    for row, point in np.argwhere(~np.isin(labels[..., 2], (0, 1))):
        where, name = f"{file}: annotation {row}", skeleton.keypoints[point]
        raise InputError(f"{where}: keypoint {name} has visibility {labels[row, point, 2]:g}, expected 0 or 1.")
    labelled = labels[..., 2] == 1
    boxes = _boxes(file, annotations)
    files, index = _files(file, options.images or file.parent, images, annotations)
    names = [images[str(annotation["image_id"])] for annotation in annotations]
    instances = Instances(
        skeleton=renamed(skeleton, options.keypoints),
        images=files,
        image_index=index,
        boxes=boxes,
        # Whole pixels, counted from 0 as far as pictures can tell.
        keypoints=np.where(labelled[..., None], labels[..., :2], 0).astype(np.float32),
        visibility=np.where(labelled, VISIBLE, 0).astype(np.uint8),
        area=(boxes[:, 2] * boxes[:, 3]).astype(np.float32),
        ids=tuple(f"{name}#{row}" for row, name in enumerate(names)),  # annotations have no id
        sources=(str(file),) * len(files),
        classes=tuple(str(categories[annotation["category_id"]]["name"]) for annotation in annotations),
    )
    return Found(instances)


def _records(file: Path) -> tuple[dict[str, str], list[Record], dict[int, Record]]:
    """File names by image id (as text), annotations in order and categories by id, all in their places."""
    data = load_json(file)
    if not isinstance(data, dict):
        raise InputError(f"{file}: is not a JSON object. AnimalPose has images, annotations and categories.")
    images, annotations = data.get("images"), data.get("annotations")
    if not isinstance(images, dict) or not all(isinstance(name, str) and name for name in images.values()):
        raise InputError(f'{file}: "images" does not map ids to file names. Is this the authors\' own file?')
    if not isinstance(annotations, list) or not annotations:
        raise InputError(f'{file}: "annotations" is missing or empty. Is this the authors\' own file?')
    categories: dict[int, Record] = {}
    listed = data.get("categories")
    for i, category in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(category, dict) or type(category.get("id")) is not int or "name" not in category:
            raise InputError(f"{file}: category {i} is not an object with an integer id and a name.")
        categories[category["id"]] = category
    if not categories:
        raise InputError(f'{file}: "categories" is missing or empty. They name the animals and keypoints.')
    for row, annotation in enumerate(annotations):
        if not isinstance(annotation, dict):
            raise InputError(f"{file}: annotation {row} is not an object.")
        if type(annotation.get("image_id")) not in (int, str) or str(annotation["image_id"]) not in images:
            raise InputError(f'{file}: annotation {row} points to an image that "images" lacks.')
        if type(annotation.get("category_id")) is not int or annotation["category_id"] not in categories:
            raise InputError(f'{file}: annotation {row} points to a category that "categories" lacks.')
    return images, annotations, categories


def _skeleton(file: Path, categories: dict[int, Record]) -> Skeleton:
    """All categories have one; its edges are counted from 0."""
    try:
        skeletons = [coco_skeleton(category) for category in categories.values()]
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    if len({skeleton.keypoints for skeleton in skeletons}) > 1:
        raise InputError(f"{file}: its categories name different keypoints. Give all of them one list.")
    return with_sigmas(skeletons[0])


def _boxes(file: Path, annotations: list[Record]) -> np.ndarray:
    """(N, 4) xywh from two corners."""
    corners = checked_numbers(file, "annotation", annotations, "bbox", (4,))
    sizes = corners[:, 2:] - corners[:, :2]
    for row in np.flatnonzero((sizes <= 0).any(axis=1)):
        box = annotations[row]["bbox"]
        raise InputError(f"{file}: annotation {row}: its box {box} (x1, y1, x2, y2) has no size. Fix or remove it.")
    return np.concatenate([corners[:, :2], sizes], axis=1)


def _files(
    file: Path, root: Path, images: dict[str, str], annotations: list[Record]
) -> tuple[tuple[Path, ...], np.ndarray]:
    """The image files that are annotated, each once, and (N,) int64 into them."""
    used = dict.fromkeys(str(annotation["image_id"]) for annotation in annotations)
    found, leads = {}, Leads()
    for key in used:
        where = f"{file}: image {key}"
        found[key] = require_image([root], images[key], where)
        leads.add(found[key], images[key], where)
    position = {place: i for i, place in enumerate(dict.fromkeys(found.values()))}
    return tuple(position), np.array([position[found[str(a["image_id"])]] for a in annotations], np.int64)


def _claims(path: Path) -> bool:
    data = peek_json(path / "keypoints.json" if path.is_dir() else path)
    return isinstance(data, dict) and isinstance(data.get("images"), dict) and isinstance(data.get("annotations"), list)


FORMAT = Format("animalpose", "AnimalPose", _claims, read_animalpose)
