"""Label Studio's JSON and JSON-MIN exports -> :class:`~placl.data.instances.Instances`.

Coordinates are percentages of the image's width and height, measured from the image's corner: the centre of the first
pixel is at 50 / width. sleap-io's reader is of no use here: it takes the first annotation, wants a "meta" with a video,
and knows no boxes, parents or images on the disk.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from placl.data.formats.common import find_image, load_json, peek_json
from placl.data.formats.folder import SUFFIXES
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.objects import Box, Object, holds, instances_of, upright
from placl.data.images import image_size
from placl.data.pool import VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

Record = dict[str, Any]
UPLOAD = re.compile(r"^[0-9a-f]{8}-")  # what Label Studio puts before the name of an uploaded file
LARGEST = 1e6  # per cent, or degrees; what is beyond is no place, and neither is NaN
SHAPES = ("keypointlabels", "rectanglelabels", "rectangle")


def read_label_studio(path: Path, options: Options) -> Found:
    """One annotation of each task; a task without one is an unlabelled image."""
    notes: list[str] = []
    roots = [root for root in (options.images, path.parent) if root is not None]
    objects: list[Object] = []
    leads: dict[Path, str] = {}  # image -> the name that led to it
    for task in _tasks(path):
        where = f"{path}: task {task['id']}"
        results = _results(where, task, notes)
        if results is None:
            continue
        name = _image_name(where, task)
        image = _find(where, roots, name)
        if leads.setdefault(image, name) != name:
            raise InputError(f'{where}: "{leads[image]}" and "{name}" both lead to {image}. Pass --images DIR.')
        objects += _objects(where, image, f"{image.name}#{task['id']}-", results)
    if not objects:
        raise InputError(f"{path}: has no task that is not skipped. Export some that are labelled.")
    counted = [f"{path.name}: {text.format(notes.count(text))}" for text in dict.fromkeys(notes)]
    return Found(instances_of(path, objects, _skeleton(path, objects, options)), tuple(counted))


def _skeleton(path: Path, objects: list[Object], options: Options) -> Skeleton | None:
    """The export does not tell the order of the labels: the alphabet's, or that of --keypoints."""
    names = tuple(sorted({name for found in objects for name in found.points}))
    if options.keypoints is not None:
        for name in names:
            if name not in options.keypoints:
                raise InputError(f'{path}: has the keypoint label "{name}", which --keypoints does not name.')
        names = options.keypoints
    try:
        return Skeleton(names, (), flip_pairs_by_name(names)) if names else None
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from error


def _tasks(path: Path) -> list[Record]:
    data = load_json(path)
    if not isinstance(data, list) or not data:
        raise InputError(f"{path}: is not a list of tasks. Export from Label Studio as JSON.")
    tasks: dict[str, Record] = {}
    for i, task in enumerate(data):
        if not isinstance(task, dict):
            raise InputError(f"{path}: entry {i} is not a task. Export from Label Studio as JSON.")
        key = str(task.get("id", i))
        if key in tasks:
            raise InputError(f"{path}: task {key} occurs twice. Ids must be unique.")
        tasks[key] = {**task, "id": key}
    return list(tasks.values())


def _results(where: str, task: Record, notes: list[str]) -> list[Record] | None:
    """The regions and relations of the annotation that counts; None if all annotations were skipped."""
    if "data" not in task:  # JSON-MIN: regions under the name of the tag that made them, without ids
        lists = [value for value in task.values() if isinstance(value, list)]
        regions = [value for values in lists for value in values if isinstance(value, dict)]
        return [{**region, "type": _shape(region), "value": region} for region in regions]
    annotations = task.get("annotations", task.get("completions")) or []
    if not isinstance(annotations, list) or not all(isinstance(annotation, dict) for annotation in annotations):
        raise InputError(f'{where}: "annotations" is not a list of objects.')
    kept = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    if annotations and not kept:
        notes.append("{} tasks were skipped by the annotator and are left out.")
        return None
    if len(kept) > 1:
        notes.append("{} tasks have several annotations; the ground truth counts, else the last.")
    # max takes the first of equals: from the back, that is the last of the list.
    best: Record = max(
        reversed(kept), key=lambda a: (bool(a.get("ground_truth")), str(a.get("updated_at", ""))), default={}
    )
    results = best.get("result", [])
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise InputError(f'{where}: "result" is not a list of objects.')
    return results


def _shape(region: Record) -> str:
    return next((shape for shape in SHAPES if shape in region), "")


def _image_name(where: str, task: Record) -> str:
    data = task.get("data", task)
    values = [data.get("image"), data.get("img"), *data.values()] if isinstance(data, dict) else []
    for i, value in enumerate(values):
        if isinstance(value, str) and (i < 2 or value.lower().endswith(SUFFIXES)):
            return value
    raise InputError(f'{where}: names no image. Its "data" needs an "image".')


def _find(where: str, roots: list[Path], name: str) -> Path:
    """Uploads are called /data/upload/1/1a2b3c4d-name.jpg, local files /data/local-files/?d=folder/name.jpg."""
    try:
        parts = urlsplit(name)
    except ValueError as error:
        raise InputError(f"{where}: its image {json.dumps(name)} is no address ({error}).") from error
    local = parse_qs(parts.query).get("d")
    plain = local[0] if local else unquote(parts.path)
    last = plain.replace("\\", "/").rpartition("/")[2]
    for candidate in dict.fromkeys((plain, UPLOAD.sub("", last), name)):
        image = find_image(roots, candidate)
        if image is not None:
            return image
    raise InputError(f"{where}: image {json.dumps(name)} does not exist under {roots[0]}. Pass --images DIR.")


def _objects(where: str, image: Path, name: str, results: list[Record]) -> list[Object]:
    """A rectangle each, with its keypoints. Keypoints that no rectangle is for are one instance."""
    rectangles: dict[str, Object] = {}
    for i, region in enumerate(results):
        if region.get("type") in SHAPES[1:]:
            box = _box(where, region, image)
            label = region["value"].get("rectanglelabels")
            kind = str(label[0]) if isinstance(label, list) and label else ""
            rectangles[str(region.get("id", i))] = Object(image, name, kind, box)
    linked = _links(results)
    groups: dict[str, Object] = dict(rectangles)
    for region in results:
        if region.get("type") != "keypointlabels":
            continue
        value = region.get("value")
        names = value.get("keypointlabels") if isinstance(value, dict) else None
        if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
            raise InputError(f"{where}: a keypoint has not exactly one label. Fix it in Label Studio.")
        x, y = (number - 0.5 for number in _numbers(where, region, ("x", "y"), image))
        key = _owner(where, names[0], (x, y), rectangles, linked.get(str(region.get("id")), []), region)
        points = groups.setdefault(key, Object(image, name)).points
        if names[0] in points:
            raise InputError(
                f'{where}: keypoint "{names[0]}" occurs twice in an instance. Delete one, or tie each to its rectangle.'
            )
        points[names[0]] = (x, y, VISIBLE)
    return list(groups.values()) or [Object(image, name)]


def _links(results: list[Record]) -> dict[str, list[str]]:
    """What each region is tied to by a relation, whichever way the arrow goes."""
    links: dict[str, list[str]] = defaultdict(list)
    for relation in results:
        if relation.get("type") == "relation":
            ends = str(relation.get("from_id")), str(relation.get("to_id"))
            links[ends[0]].append(ends[1])
            links[ends[1]].append(ends[0])
    return links


def _owner(
    where: str,
    name: str,
    point: tuple[float, float],
    rectangles: dict[str, Object],
    linked: list[str],
    region: Record,
) -> str:
    """The rectangle of a keypoint: its parent, one that it is tied to, the only one, or the only one around it."""
    for candidate in (str(region.get("parentID")), *linked):
        if candidate in rectangles:
            return candidate
    if not rectangles:  # Label Studio's own YOLO backend then tells instances apart by their notes
        meta = region.get("meta")
        return json.dumps(meta["text"]) if isinstance(meta, dict) and "text" in meta else ""
    around = [key for key, found in rectangles.items() if found.box is not None and holds(found.box, *point)]
    if len(rectangles) == 1:
        around = list(rectangles)
    if len(around) != 1:
        raise InputError(
            f'{where}: keypoint "{name}" is inside {len(around)} rectangles. Tie it to its own with a relation.'
        )
    return around[0]


def _numbers(where: str, region: Record, keys: tuple[str, ...], image: Path) -> list[float]:
    """The given values of a region in pixels of the image, from its corner."""
    value = region.get("value")
    numbers: list[Any] = [value.get(key) if isinstance(value, dict) else None for key in keys]
    for key, number in zip(keys, numbers, strict=True):
        if type(number) not in (int, float) or not abs(number) < LARGEST:
            raise InputError(f'{where}: "{key}" of a {region.get("type")} is {json.dumps(number)}, not a number.')
    if region.get("image_rotation"):
        raise InputError(f"{where}: its image was turned in Label Studio. Turn the file itself instead.")
    width, height = region.get("original_width"), region.get("original_height")
    if not (type(width) is type(height) is int and width > 0 and height > 0):
        width, height = image_size(image)
    return [
        number / 100 * (height if key in ("y", "height") else width) for key, number in zip(keys, numbers, strict=True)
    ]


def _box(where: str, region: Record, image: Path) -> Box:
    """xywh around a rectangle, which may be turned about its first corner."""
    x, y, width, height = _numbers(where, region, ("x", "y", "width", "height"), image)
    if width <= 0 or height <= 0:
        raise InputError(f"{where}: a rectangle has no size. Delete it in Label Studio.")
    rotation = region["value"].get("rotation") or 0
    if type(rotation) not in (int, float) or not abs(rotation) < LARGEST:
        raise InputError(f"{where}: a rectangle is turned by {json.dumps(rotation)}, not by a number of degrees.")
    if not rotation:
        return x, y, width, height
    angle = math.radians(rotation)
    across, down = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    return upright(
        np.array([x, y]) + np.array([across * 0, across * width, down * height, across * width + down * height])
    )


def _claims(path: Path) -> bool:
    data = peek_json(path)
    if not isinstance(data, list) or not data or not isinstance(data[0], dict):
        return False
    if isinstance(data[0].get("data"), dict):
        return any(isinstance(data[0].get(key), list) for key in ("annotations", "completions"))
    regions = [value[0] for task in data if isinstance(task, dict) for value in task.values() if _is_regions(value)]
    return any(_shape(region) for region in regions)


def _is_regions(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


FORMAT = Format("label_studio", "Label Studio", _claims, read_label_studio)
