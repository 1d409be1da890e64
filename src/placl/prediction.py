"""Predictions of a trained model on images, folders, COCO boxes and videos. Nothing is cached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import numpy as np

from placl.data.crops import Pixels, crop_maps, crop_size, cut_out, make_pool, whole_where_nan
from placl.data.formats.coco import read_boxes
from placl.data.formats.coco_records import read_records
from placl.data.formats.folder import read_images
from placl.data.formats.frames import VIDEOS
from placl.data.images import UnreadableImageError, decode_shrunk
from placl.data.instances import Instances, plain_instances
from placl.data.pool import Pool, concatenate
from placl.errors import InputError
from placl.learn.label import label
from placl.learn.pseudo_labels import PseudoLabels
from placl.model import Model
from placl.outputs.predictions import Predictions
from placl.video.tracking import Tracking

IMAGES_AT_ONCE = 64  # whose crops are in memory together

OnProgress = Callable[[int, int], None]  # images done, of how many
Identity = tuple[int | str, int | str, str]  # image id, category id, file name


@dataclass(frozen=True)
class Reading:
    """What a model says about instances, in the order of the readable ones; ``pool`` has no crops any more."""

    pool: Pool
    labels: PseudoLabels
    kept: np.ndarray  # (N,) which of the instances were readable
    boxes: np.ndarray  # (N, 4)
    unreadable: dict[Path, str]  # image -> reason


def predict(
    model: Model | Path | str,
    source: Path | str | Sequence[np.ndarray | Path | str],
    boxes: Path | str | None = None,
    *,
    images: Path | str | None = None,
    track: Tracking | bool | None = None,
    overlay: Path | str | None = None,
    threshold: float = 0.0,
    besides: Collection[Path | str] = (),
    on_progress: OnProgress | None = None,
) -> Predictions:
    """Predict an image, a folder, the boxes of a COCO file (labels are not looked at), a video, or a list of images.

    ``boxes`` is a COCO file with boxes for the images of a folder or the frames of a video; without it, an object fills
    each image. ``images`` is the folder of a COCO source's images (default: its own). In a video, ``track`` follows one
    animal, and ``overlay`` is a video to write, with the keypoints drawn in that reach the ``threshold``. ``besides``
    are files and folders below a folder that are left out, such as pictures of an earlier prediction.
    """
    model = model if isinstance(model, Model) else Model.from_dir(model)
    if is_video(source):
        from placl.video.prediction import predict_video  # which asks the network through this module

        return predict_video(
            model,
            Path(source),
            Path(boxes) if boxes else None,
            tracking=Tracking() if track is True else track or None,
            overlay=Path(overlay) if overlay else None,
            threshold=threshold,
            on_progress=on_progress,
        )
    if track or overlay:
        raise InputError("track and overlay are for videos. Leave them out; placl.overlay draws on images.")
    if not isinstance(source, (str, Path)):
        return predict_list(model, source, on_progress)
    source = Path(source)
    if source.suffix.lower() == ".json":
        if boxes is not None:
            raise InputError(f"{boxes}: {source} brings its own boxes. Leave one of them out.")
        instances = read_boxes(source, Path(images) if images else source.parent)
        ids, notes = _coco_ids(source)
        return _predict_files(model, instances, ids, on_progress, notes=notes)
    found = read_images(source, Path(boxes) if boxes else None, [Path(place) for place in besides])
    ids = _coco_ids(Path(boxes))[0] if boxes else _counted_ids(found.instances)
    return _predict_files(model, found.instances, ids, on_progress, notes=found.notes)


def is_video(source: object) -> TypeGuard[Path | str]:
    """Whether a source is called as videos are, and is no folder."""
    return isinstance(source, (str, Path)) and str(source).lower().endswith(VIDEOS) and not Path(source).is_dir()


def predict_list(
    model: Model,
    images: Sequence[np.ndarray | Path | str] | np.ndarray | Path | str,
    on_progress: OnProgress | None = None,
) -> Predictions:
    """Whole images, from memory or from files; one by itself will do."""
    if isinstance(images, str | Path) or (isinstance(images, np.ndarray) and images.ndim == 3):
        images = [images]
    if not len(images):
        raise InputError("no images to predict.")
    arrays = {Path(f"array {i}"): _checked(i, image) for i, image in enumerate(images) if isinstance(image, np.ndarray)}
    files = [Path(f"array {i}") if isinstance(image, np.ndarray) else Path(image) for i, image in enumerate(images)]
    unique = {file: number for number, file in enumerate(dict.fromkeys(files))}
    ids: dict[str, Identity] = {f"{file}#{i}": (i, 1, str(file)) for i, file in enumerate(files, start=1)}
    instances = plain_instances(
        images=tuple(unique),
        ids=tuple(ids),
        image_index=np.array([unique[file] for file in files], np.int64),
        boxes=np.full((len(files), 4), np.nan),
        area=np.full(len(files), np.nan, np.float32),
    )

    def pixels(file: Path | str, shrink: int) -> tuple[np.ndarray, int]:
        array = arrays.get(Path(file))
        return decode_shrunk(file, shrink) if array is None else (array, 1)

    return _predict_files(model, instances, ids, on_progress, pixels)


def _checked(number: int, image: np.ndarray) -> np.ndarray:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        raise InputError(f"array {number}: is {image.dtype} of shape {image.shape}. Pass (H, W, 3) uint8 RGB arrays.")
    return image


def _coco_ids(path: Path) -> tuple[dict[str, Identity], tuple[str, ...]]:
    """Instance id -> what COCO results repeat of it, and how many images have none."""
    images, annotations, _ = read_records(path, with_categories=False)
    ids: dict[str, Identity] = {}
    for a in annotations:
        name = images[a["image_id"]]["file_name"]
        ids[f"{name}#{a['id']}"] = (a["image_id"], a.get("category_id", 1), name)
    without = len(images) - len({a["image_id"] for a in annotations})
    return ids, (f"{path.name}: {without} images have no annotation and are left out.",) if without else ()


def _counted_ids(instances: Instances) -> dict[str, Identity]:
    return {name: (number, 1, name) for number, name in enumerate(instances.ids, start=1)}


def _predict_files(
    model: Model,
    instances: Instances,
    ids: dict[str, Identity],
    on_progress: OnProgress | None,
    pixels: Pixels = decode_shrunk,
    notes: tuple[str, ...] = (),
) -> Predictions:
    reading = read_out(model, instances, on_progress, pixels)
    identities = [ids[name] for name in reading.pool.ids]
    return Predictions(
        keypoints=reading.pool.in_image(reading.labels.keypoints),
        confidence=reading.labels.confidence,
        boxes=reading.boxes,
        files=tuple(instances.images[i] for i in instances.image_index[reading.kept]),
        names=tuple(name for _, _, name in identities),
        image_ids=tuple(image for image, _, _ in identities),
        category_ids=tuple(category for _, category, _ in identities),
        skeleton=model.skeleton,
        skipped=tuple(f"{file}: {reason}" for file, reason in reading.unreadable.items()),
        notes=notes,
    )


def read_out(
    model: Model,
    instances: Instances,
    on_progress: OnProgress | None = None,
    pixels: Pixels = decode_shrunk,
) -> Reading:
    """Cut the instances out of their images, some images at a time, and ask the network."""
    instances = instances.with_skeleton(model.skeleton)
    rows_of = _rows_by_image(instances)
    sizes = np.zeros((len(instances.images), 2), np.int64)
    view, context = model.config.view, model.config.data.context
    size = crop_size(view, model.config.data.margin)
    maps = crop_maps(instances.boxes, view=view, context=context, size=size)
    nothing = np.zeros((1, size, size, 3), np.uint8)  # stands in for crops that have been read
    pools, labels, kept, unreadable = [], [], [], {}
    for start in range(0, len(rows_of), IMAGES_AT_ONCE):
        crops, rows = [], []
        for image in list(rows_of)[start : start + IMAGES_AT_ONCE]:
            try:
                found, sizes[image] = cut_out(
                    instances.images[image],
                    maps[rows_of[image]],
                    view=view,
                    context=context,
                    size=size,
                    pixels=pixels,
                )
            except UnreadableImageError as error:
                unreadable[instances.images[image]] = str(error)
                continue
            crops.append(found)
            rows += rows_of[image].tolist()
        if rows:
            index = np.array(rows)
            pool = _pool(model, instances, index, sizes, np.concatenate(crops))
            labels.append(label(model.net, pool, model.config, model=model.sha256))
            pools.append(replace(pool, crops=nothing, rows=np.zeros(len(rows), np.int64)))
            kept.append(index)
        if on_progress:
            on_progress(min(start + IMAGES_AT_ONCE, len(rows_of)), len(rows_of))
    if not pools:
        file, reason = next(iter(unreadable.items()))
        raise InputError(f"{file}: {reason}. None of the {len(unreadable)} images can be read; replace the files.")
    rows_read = np.concatenate(kept)
    order = np.argsort(rows_read)
    joined = PseudoLabels(
        np.concatenate([part.keypoints for part in labels]),
        np.concatenate([part.confidence for part in labels]),
        model.sha256,
    )
    rows_read = rows_read[order]
    boxes = whole_where_nan(instances.boxes[rows_read], sizes[instances.image_index[rows_read]])
    return Reading(concatenate(pools).take(order), joined.take(order), rows_read, boxes, unreadable)


def _rows_by_image(instances: Instances) -> dict[int, np.ndarray]:
    rows: dict[int, list[int]] = {}
    for row, image in enumerate(instances.image_index.tolist()):
        rows.setdefault(image, []).append(row)
    return {image: np.array(found, np.int64) for image, found in sorted(rows.items())}


def _pool(model: Model, instances: Instances, rows: np.ndarray, sizes: np.ndarray, crops: np.ndarray) -> Pool:
    view, context = model.config.view, model.config.data.context
    return make_pool(instances, rows, sizes, crops, np.arange(len(rows)), view=view, context=context)
