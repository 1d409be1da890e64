"""Label Studio's JSON and JSON-MIN exports -> :class:`~placl.data.instances.Instances`.

Tasks, which of their annotations counts, and where their images are. sleap-io's reader is of no use here: it takes the
first annotation, wants a "meta" with a video, and knows no boxes, parents or images on the disk.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from placl.data.formats.common import Leads, find_image, load_json, peek_json, shown
from placl.data.formats.folder import SUFFIXES
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.label_studio_regions import SHAPES, Record, objects_in
from placl.data.formats.objects import Object, instances_of
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError

UPLOAD = re.compile(r"^[0-9a-f]{8}-")  # what Label Studio puts before the name of an uploaded file


def read_label_studio(path: Path, options: Options) -> Found:
    """One annotation of each task; a task without one is an unlabelled image."""
    notes: list[str] = []
    roots = [root for root in (options.images, path.parent) if root is not None]
    objects: list[Object] = []
    leads = Leads()
    for task in _tasks(path):
        where = f"{path}: task {task['id']}"
        results = _results(where, task, notes)
        if results is None:
            continue
        name = _image_name(where, task)
        image = _find(where, roots, name)
        leads.add(image, name, where)
        objects += objects_in(where, image, f"{image.name}#{task['id']}-", results)
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
    raise InputError(f"{where}: image {json.dumps(name)} does not exist under {shown(roots[0])}. Pass --images DIR.")


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
