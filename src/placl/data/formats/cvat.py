"""CVAT's "CVAT for images 1.1", an annotations.xml beside its images -> :class:`~placl.data.instances.Instances`.

CVAT draws on the image as SVG: its origin is the corner of the first pixel and a 1920 px wide image ends at 1920, so
the centre of the first pixel is at 0.5.
"""

from __future__ import annotations

import html
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np

from placl.data.formats.common import Leads, require_image
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.objects import Box, Object, holds, instances_of, upright
from placl.data.pool import OCCLUDED, VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

FILE = "annotations.xml"
SPLITS = {"training": "train", "validation": "val", "valid": "val", "testing": "test", "default": ""}
Points = dict[str, tuple[float, float, int]]


class _Plain(ET.TreeBuilder):
    """CVAT writes no document type; one could blow the file up to any size with entities."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise ValueError("it has a document type, which no CVAT export has")


def read_cvat(path: Path, options: Options) -> Found:
    """Skeletons, or single points that a group or a box holds together. Other shapes are left out."""
    file = path / FILE if path.is_dir() else path
    root = _parse(file)
    roots = [folder for folder in (options.images, file.parent) if folder is not None]
    skeletons = root.find("./image/skeleton") is not None
    objects: list[Object] = []
    splits: dict[Path, str] = {}
    stated: dict[Path, tuple[float, float]] = {}
    leads = Leads()
    left = 0
    for number, image in enumerate(root.iterfind("image")):
        name = image.get("name")
        where = f'{file}: image "{name}"'
        if not name:
            raise InputError(f"{file}: the image at place {number} has no name.")
        found = require_image(roots, name, where)
        leads.add(found, name, where)
        if found in splits:
            raise InputError(f"{where}: occurs twice. Keep one.")
        subset = image.get("subset", "").lower()
        splits[found] = SPLITS.get(subset, subset)
        stated[found] = _size(image)
        objects += _objects(where, image, Object(found, f"{name}#"), skeletons)
        left += len(image.findall("points")) if skeletons else 0
    if not objects:
        raise InputError(f'{file}: has no images. Export as "CVAT for images 1.1".')
    notes = [f"{file.name}: {left} points that are in no skeleton are left out."] if left else []
    instances = instances_of(file, objects, _skeleton(file, root, objects, options))
    instances = replace(instances, stated=np.array([stated[image] for image in instances.images]))
    if any(splits.values()):
        instances = replace(instances, splits=tuple(splits[image] for image in instances.images))
    return Found(instances, tuple(notes))


def _size(image: ET.Element) -> tuple[float, float]:
    """Width and height as CVAT has them; NaN where it does not tell."""
    sides = [image.get(key, "") for key in ("width", "height")]
    told = all(side.isascii() and side.isdigit() and len(side) < 10 for side in sides)
    return (float(sides[0]), float(sides[1])) if told else (math.nan, math.nan)


def _parse(file: Path) -> ET.Element:
    try:
        root = ET.parse(file, ET.XMLParser(target=_Plain())).getroot()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from error
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{file}: is not a CVAT file ({error}).") from error
    if not isinstance(root, ET.Element) or root.tag != "annotations":
        raise InputError(f'{file}: is not a CVAT file. Export as "CVAT for images 1.1".')
    if root.find("track") is not None:
        raise InputError(f'{file}: is an export for video. Export as "CVAT for images 1.1" instead.')
    return root


def _objects(where: str, image: ET.Element, blank: Object, skeletons: bool) -> list[Object]:
    """What is in one image; the image itself if nothing is."""
    boxes = []
    for shape in image.iterfind("box"):
        box = replace(blank, kind=shape.get("label", ""), box=_box(where, shape), points={})
        boxes.append((shape.get("group_id"), box))
    gather = _with_skeletons if skeletons else _with_points
    return gather(where, image, blank, boxes) or [blank]


def _with_skeletons(
    where: str, image: ET.Element, blank: Object, boxes: list[tuple[str | None, Object]]
) -> list[Object]:
    """Each with the box of its group or, without a group, the only free box around all of its points."""
    found = []
    free = list(boxes)
    for shape in image.iterfind("skeleton"):
        points: Points = {}
        for element in shape.iterfind("points"):
            _add(where, points, element)
        group = shape.get("group_id")
        own = [entry for entry in free if group and entry[0] == group]
        if not group and points:
            own = [entry for entry in free if not entry[0] and all(_in(entry[1], point) for point in points.values())]
        box = own[0][1].box if len(own) == 1 else None
        if box is not None:
            free.remove(own[0])
        found.append(replace(blank, kind=shape.get("label", ""), box=box, points=points))
    return found + [rest for _, rest in free]


def _with_points(where: str, image: ET.Element, blank: Object, boxes: list[tuple[str | None, Object]]) -> list[Object]:
    """Points of one group are one object; those of no group belong to the only box, or the only one around them."""
    groups = {group: box for group, box in boxes if group}
    if len(groups) < sum(bool(group) for group, _ in boxes):
        raise InputError(f"{where}: a group has two boxes. Give each instance a group of its own.")
    free = [box for group, box in boxes if not group]
    single: Object | None = None  # the points without a box in an image without boxes
    for element in image.iterfind("points"):
        group = element.get("group_id")
        one: Points = {}
        _add(where, one, element)
        if group:
            owner = groups.setdefault(group, replace(blank, points={}))
        elif not boxes:
            owner = single = single or replace(blank, points={})
        else:
            around = [box for box in free if all(_in(box, point) for point in one.values())]
            around = free if len(free) == len(boxes) == 1 else around
            if len(around) != 1:
                label = element.get("label")
                raise InputError(f'{where}: point "{label}" is inside {len(around)} boxes. Group it with its own.')
            owner = around[0]
        for name, point in one.items():
            if name in owner.points:
                raise InputError(
                    f'{where}: keypoint "{name}" occurs twice in an instance. Group those of one instance.'
                )
            owner.points[name] = point
    return list(groups.values()) + free + ([single] if single else [])


def _in(found: Object, point: tuple[float, float, int]) -> bool:
    return found.box is not None and holds(found.box, point[0], point[1])


def _add(where: str, points: Points, element: ET.Element) -> None:
    """A keypoint as ``<points label="nose" points="12.30,45.60" occluded="0" outside="0"/>``."""
    name = element.get("label", "")
    if name in points:
        raise InputError(f'{where}: keypoint "{name}" occurs twice in a skeleton.')
    places = element.get("points", "").split(";")
    if len(places) != 1:
        raise InputError(f'{where}: "{name}" holds {len(places)} points. Give each keypoint a label of its own.')
    if element.get("outside") != "1":
        x, y = _numbers(where, name, places[0].split(","), 2)
        points[name] = (x - 0.5, y - 0.5, OCCLUDED if element.get("occluded") == "1" else VISIBLE)


def _numbers(where: str, name: str, texts: list[str | None] | list[str], count: int) -> list[float]:
    try:
        numbers = [float(text or "") for text in texts]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise InputError(f'{where}: "{name}" has coordinates {texts}, expected {count} finite numbers.')
    return numbers


def _box(where: str, shape: ET.Element) -> Box:
    """xywh around a box, which may be turned about its centre."""
    corners = [shape.get(key) for key in ("xtl", "ytl", "xbr", "ybr")]
    left, top, right, bottom = _numbers(where, shape.get("label", ""), corners, 4)
    if right <= left or bottom <= top:
        raise InputError(f'{where}: a box "{shape.get("label")}" has no size. Delete it in CVAT.')
    (rotation,) = _numbers(where, "rotation", [shape.get("rotation", "0")], 1)
    if not rotation:
        return left, top, right - left, bottom - top
    middle, half = np.array([left + right, top + bottom]) / 2, np.array([right - left, bottom - top]) / 2
    angle = math.radians(rotation)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return upright(middle + np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half @ turn)


def _skeleton(file: Path, root: ET.Element, objects: list[Object], options: Options) -> Skeleton | None:
    """Names in the order in which the task lists them, edges from the drawing of the skeleton."""
    used = {name for found in objects for name in found.points}
    labels = root.findall("./meta//label")
    kinds = {found.kind for found in objects}
    drawings = {
        label.findtext("name", ""): label.findtext("svg", "") for label in labels if label.find("svg") is not None
    }
    lists = {kind: [x.findtext("name", "") for x in labels if x.findtext("parent") == kind] for kind in drawings}
    parents = [kind for kind in drawings if kind in kinds]
    for other in parents[1:]:
        if lists[other] != lists[parents[0]]:
            raise InputError(f'{file}: skeletons "{parents[0]}" and "{other}" differ. Export a task for each.')
    listed = lists[parents[0]] if parents else [x.findtext("name", "") for x in labels]
    names = tuple(name for name in dict.fromkeys(listed) if parents or name in used)
    names += tuple(sorted(used - set(names)))
    if not names:
        return None
    edges = _edges(drawings[parents[0]], names) if parents else ()
    pairs = flip_pairs_by_name(names)
    if options.keypoints is not None:
        if len(options.keypoints) != len(names):
            raise InputError(f"{file}: has {len(names)} keypoints, --keypoints names {len(options.keypoints)}.")
        new = dict(zip(names, options.keypoints, strict=True))
        for found in objects:
            found.points = {new[name]: point for name, point in found.points.items()}
        names, pairs = options.keypoints, pairs or flip_pairs_by_name(options.keypoints)
    try:
        return Skeleton(names, edges, pairs)
    except ValueError as error:
        raise InputError(f"{file}: {error}.") from error


def _edges(drawing: str, names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Lines of an SVG go from node to node, and circles tell which node is which label."""
    tags = [dict(re.findall(r'([\w-]+)="([^"]*)"', tag)) for tag in re.findall(r"<[^>]*>", html.unescape(drawing))]
    label = {tag["data-node-id"]: tag.get("data-label-name") for tag in tags if "data-node-id" in tag}
    ends = [
        (label.get(tag["data-node-from"]), label.get(tag.get("data-node-to", "")))
        for tag in tags
        if "data-node-from" in tag
    ]
    return tuple((names.index(a), names.index(b)) for a, b in ends if a in names and b in names)


def _claims(path: Path) -> bool:
    file = path / FILE if path.is_dir() else path
    if file.suffix.lower() != ".xml" or not file.is_file():
        return False
    try:
        with open(file, "rb") as content:
            head = content.read(512)
    except OSError:
        return False
    return re.search(rb"<annotations>\s*(<version>|<meta>|<image )", head) is not None


FORMAT = Format("cvat", "CVAT for images", _claims, read_cvat)
