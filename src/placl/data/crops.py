"""The crop cache: every image is decoded once, and its instances are cut out into an array that all workers map.

A cache is found by a hash of what went into its pixels. It is built beside its place and renamed into it, so one that
is found is whole.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import platform
import shutil
import uuid
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from placl.data.instances import Instances
from placl.data.pool import UNLABELLED, Pool
from placl.errors import InputError, MachineError

FORMAT = 1  # part of the key: raise it when the same inputs give other pixels
IMAGES_PER_TASK = 16
ENDINGS = {b"\xff\xd8": b"\xff\xd9", b"\x89PNG": b"IEND"}  # how a whole file of that beginning ends


Result = tuple[int, tuple[int, int], str]  # image, its width and height, and why it is unreadable if it is


class UnreadableImageError(Exception):
    """The message is the reason, in a few words."""


@dataclass(frozen=True)
class _Task:
    """The instances of one image."""

    image: int
    path: Path
    rows: np.ndarray  # (n,) int64
    boxes: np.ndarray  # (n, 4)


@dataclass(frozen=True)
class _Index:
    """What decoding found out, next to the pixels."""

    sizes: np.ndarray  # (M, 2) int64, width and height; zeros where unreadable
    unreadable: dict[int, str]  # image -> reason


def build_pool(
    instances: Instances,
    *,
    view: int,
    context: float = 1.25,
    margin: float = 1.25,
    cache: Path,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> tuple[Pool, list[str]]:
    """The instances as a pool, and a line for each unreadable image, whose (unlabelled) instances are left out.

    A square of ``context`` times the longer side of the box becomes the central ``view`` pixels of a crop that is
    ``margin`` times as large. What lies outside the image is black.
    """
    if instances.skeleton is None:
        raise InputError("nothing names the keypoints. Add a source with labels, or pass --keypoints.")
    if not len(instances):
        raise InputError("there are no instances to cut out. Add a source.")
    size = crop_size(view, margin)
    folder = cache / _key(instances, view, context, margin)
    shape = (len(instances), size, size, 3)
    found = _load(folder, shape, len(instances.images))
    if found is None:
        _build(instances, folder, shape, partial(crop_maps, view=view, context=context, size=size), progress, workers)
        found = _load(folder, shape, len(instances.images))
        if found is None:
            raise MachineError(f"{folder}: the crop cache vanished or was damaged while in use. Run again.")
    crops, index = found
    for image, reason in index.unreadable.items():
        _refuse_labelled(instances, image, reason)
    kept = np.flatnonzero(~np.isin(instances.image_index, list(index.unreadable)))
    skipped = [f"{instances.images[image]}: {reason}" for image, reason in index.unreadable.items()]
    if not len(kept):
        raise InputError(f"none of the {len(skipped)} images can be read, first {skipped[0]}. Replace the files.")
    return make_pool(instances, kept, index.sizes, crops, kept, view=view, context=context), skipped


def make_pool(
    instances: Instances,
    kept: np.ndarray,  # (N,) which of the instances
    sizes: np.ndarray,  # (M, 2) width and height of the images
    crops: np.ndarray,  # (R, S, S, 3)
    rows: np.ndarray,  # (N,) where the crops of those instances are
    *,
    view: int,
    context: float,
) -> Pool:
    """The kept instances with their keypoints in crop pixels, once their crops are there."""
    if instances.skeleton is None:
        raise ValueError("instances without a skeleton make no pool")
    boxes = whole_where_nan(instances.boxes[kept], sizes[instances.image_index[kept]])
    maps = crop_maps(boxes, view=view, context=context, size=crops.shape[1])
    visibility = instances.visibility[kept]
    points = (instances.keypoints[kept] - maps[:, None, 1:]) / maps[:, None, :1]
    area = instances.area[kept]
    return Pool(
        skeleton=instances.skeleton,
        crops=crops,
        rows=rows.astype(np.int64),
        keypoints=np.where(visibility[..., None] > UNLABELLED, points, 0).astype(np.float32),
        visibility=visibility,
        length=np.full(len(kept), view / context, np.float32),
        area=np.where(np.isnan(area), boxes[:, 2] * boxes[:, 3], area).astype(np.float32),
        to_image=maps,
        image=instances.image_index[kept].astype(np.int64),
        ids=tuple(instances.ids[i] for i in kept),
        view=float(view),
    )


def crop_size(view: int, margin: float) -> int:
    """``margin * view``, and as many pixels left of the field of view as right of it."""
    if view < 1 or margin < 1:
        raise ValueError(f"view must be at least 1 and margin at least 1, not {view} and {margin}")
    size = round(view * margin)
    return size + (size - view) % 2


def crop_maps(boxes: np.ndarray, *, view: int, context: float, size: int) -> np.ndarray:
    """(N, 3) float64 (scale, tx, ty): image = scale * crop + (tx, ty) for the crops of (N, 4) boxes."""
    scale = context * boxes[:, 2:].max(axis=1, keepdims=True) / view  # (N, 1)
    centre = boxes[:, :2] + boxes[:, 2:] / 2 - 0.5  # (N, 2), from edges to pixel centres
    return np.concatenate([scale, centre - scale * (size - 1) / 2], axis=1)


def cut(image: np.ndarray, to_image: np.ndarray, size: int) -> np.ndarray:
    """(size, size, 3) uint8 crop of an (H, W, 3) image by one row of :func:`crop_maps`; black outside the image.

    Interpolation alone would skip pixels when shrinking, so blocks of ``step`` x ``step`` pixels are averaged first.
    Their grid starts at the crop's corner: shrinking by a whole number is then exactly the mean of the pixels.
    """
    scale, shift = float(to_image[0]), to_image[1:]
    step = max(1, round(scale))
    extent = np.array(image.shape[1::-1])  # width, height
    corner = np.rint(shift - scale / 2 + 0.5)  # x, y of the first block's first pixel
    # The blocks that the crop needs, with some around it to interpolate from, as far as the image reaches.
    first = np.maximum(np.floor(-corner / step), -2)
    last = np.minimum(np.ceil((extent - corner) / step), np.ceil(size * scale / step) + 2)
    if (last <= first).any():
        return np.zeros((size, size, 3), np.uint8)
    low, high = (corner + first * step).astype(int), (corner + last * step).astype(int)  # in pixels of the image
    (x0, y0), (x1, y1) = np.maximum(low, 0), np.minimum(high, extent)
    region = image[y0:y1, x0:x1]
    if step > 1:
        columns, rows = (last - first).astype(int).tolist()
        left, top, right, bottom = map(int, (x0 - low[0], y0 - low[1], high[0] - x1, high[1] - y1))
        # One axis at a time: blocks may pass the border by far, and a long thin image must not grow into a square.
        region = cv2.copyMakeBorder(region, 0, 0, left, right, cv2.BORDER_REPLICATE)
        region = cv2.resize(region, (columns, region.shape[0]), interpolation=cv2.INTER_AREA)
        region = cv2.copyMakeBorder(region, top, bottom, 0, 0, cv2.BORDER_REPLICATE)
        region = cv2.resize(region, (columns, rows), interpolation=cv2.INTER_AREA)
    x, y = (shift - low + 0.5) / step - 0.5  # where the crop's pixel (0, 0) lies among the blocks
    affine = np.array([[scale / step, 0, x], [0, scale / step, y]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    region = np.ascontiguousarray(region)
    crop = np.asarray(cv2.warpAffine(region, affine, (size, size), flags=flags, borderMode=cv2.BORDER_REPLICATE))
    start, end = (np.clip(np.ceil((e - 0.5 - shift) / scale), 0, size).astype(int) for e in (0, extent))
    crop[: start[1]] = crop[end[1] :] = 0
    crop[:, : start[0]] = crop[:, end[0] :] = 0
    return crop


def decode(path: Path) -> np.ndarray:
    """(H, W, 3) uint8 RGB, turned as its EXIF data says."""
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # what is wrong is said once, by us
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableImageError(error.strerror or "cannot be opened") from error
    except ValueError as error:
        raise UnreadableImageError("not a file name") from error
    if not data:
        raise UnreadableImageError("the file is empty")
    # OpenCV fills up a truncated file with grey. Pillow refuses it, but is slower.
    whole = all(end in data[-64:] for start, end in ENDINGS.items() if data.startswith(start))
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if whole else None
    except cv2.error:
        image = None
    return _decode_with_pillow(data) if image is None else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))


def _decode_with_pillow(data: bytes) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
            if image.mode.startswith("I"):  # 16 bits, which convert() would clip
                image = Image.fromarray((np.clip(np.asarray(image), 0, 65535) >> 8).astype(np.uint8))
            return np.asarray(image.convert("RGB"))
    except UnidentifiedImageError as error:
        raise UnreadableImageError("not a known image format") from error
    except Exception as error:  # Pillow's decoders raise whatever they meet in a broken file
        raise UnreadableImageError(" ".join(str(error).split()) or type(error).__name__) from error


def _key(instances: Instances, view: int, context: float, margin: float) -> str:
    """Everything that decides a pixel, and no label."""
    digest = hashlib.sha256(json.dumps([FORMAT, int(view), float(context), float(margin)]).encode())
    for path in instances.images:
        try:
            status = os.stat(path)
            stamp = f"{status.st_size}\0{status.st_mtime_ns}"
        except (OSError, ValueError):
            stamp = "missing"
        digest.update(f"{os.path.abspath(path)}\0{stamp}\n".encode("utf-8", "surrogatepass"))
    digest.update(instances.image_index.astype("<i8").tobytes())
    digest.update(np.where(np.isnan(instances.boxes), np.nan, instances.boxes).astype("<f8").tobytes())
    return digest.hexdigest()


def _load(folder: Path, shape: tuple[int, ...], images: int) -> tuple[np.ndarray, _Index] | None:
    try:
        record = json.loads((folder / "index.json").read_bytes())
        sizes = np.array(record["sizes"], np.int64).reshape(images, 2)
        unreadable = {int(image): str(reason) for image, reason in record["unreadable"].items()}
        crops = np.load(folder / "crops.npy", mmap_mode="r")
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return (crops, _Index(sizes, unreadable)) if crops.shape == shape and crops.dtype == np.uint8 else None


def _build(
    instances: Instances,
    folder: Path,
    shape: tuple[int, ...],
    maps: Callable[[np.ndarray], np.ndarray],
    progress: Callable[[int, int], None] | None,
    workers: int,
) -> None:
    cache = folder.parent
    building = cache / f"{folder.name}.{platform.node()}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(cache)
        building.mkdir()
        crops = building / "crops.npy"
        _reserve(crops, shape)
        sizes, unreadable = [(0, 0)] * len(instances.images), {}
        tasks = _tasks(instances)
        with closing(_run(tasks, partial(_crop, crops, maps), workers)) as results:
            for done, (image, found, reason) in enumerate(results, start=1):
                sizes[image] = found
                if reason:
                    _refuse_labelled(instances, image, reason)
                    unreadable[image] = reason
                if progress is not None:
                    progress(done, len(tasks))
        _sync(crops)
        (building / "index.json").write_text(json.dumps({"sizes": sizes, "unreadable": unreadable}), encoding="utf-8")
        _publish(building, folder, shape, len(instances.images))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            need = f"{np.prod(shape, dtype=float) / 1e9:.1f} GB"
            raise MachineError(f"{cache}: no room for {need} of crops. Free some, or use another cache.") from error
        kind = InputError if isinstance(error, PermissionError | FileExistsError | NotADirectoryError) else MachineError
        raise kind(f"{cache}: cannot keep crops there ({error.strerror}). Use another cache.") from error
    except BrokenProcessPool as error:
        raise MachineError("a worker died while cutting out crops, perhaps for lack of memory. Use fewer.") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _tasks(instances: Instances) -> list[_Task]:
    """One for each image that has instances."""
    order = np.argsort(instances.image_index, kind="stable")
    used, starts = np.unique(instances.image_index[order], return_index=True)
    return [
        _Task(int(image), instances.images[image], rows, instances.boxes[rows])
        for image, rows in zip(used, np.split(order, starts[1:]), strict=True)
    ]


def _run(tasks: list[_Task], crop: Callable[[list[_Task]], list[Result]], workers: int) -> Generator[Result]:
    groups = [tasks[i : i + IMAGES_PER_TASK] for i in range(0, len(tasks), IMAGES_PER_TASK)]
    if workers <= 1:
        for group in groups:
            yield from crop(group)
        return
    executor = ProcessPoolExecutor(workers, get_context("spawn"), initializer=cv2.setNumThreads, initargs=(0,))
    try:
        for results in executor.map(crop, groups):
            yield from results
    finally:
        executor.shutdown(cancel_futures=True)


def _crop(crops: Path, maps: Callable[[np.ndarray], np.ndarray], tasks: list[_Task]) -> list[Result]:
    """Write the crops of some images into the array, where they are read."""
    pixels = np.load(crops, mmap_mode="r+")  # (R, S, S, 3)
    results: list[Result] = []
    for task in tasks:
        try:
            image = decode(task.path)
        except UnreadableImageError as error:
            results.append((task.image, (0, 0), str(error)))
            continue
        height, width = image.shape[:2]
        boxes = whole_where_nan(task.boxes, np.array([[width, height]]))
        for row, to_image in zip(task.rows, maps(boxes), strict=True):
            pixels[row] = cut(image, to_image, pixels.shape[1])
        results.append((task.image, (width, height), ""))
    return results


def whole_where_nan(boxes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(N, 4) boxes, those of whole images filled in from the images' sizes (N or 1, 2)."""
    return np.where(np.isnan(boxes), np.concatenate([np.zeros_like(sizes), sizes], axis=1), boxes)


def _refuse_labelled(instances: Instances, image: int, reason: str) -> None:
    if instances.labelled[instances.image_index == image].any():
        source = instances.sources[image] if instances.sources and instances.sources[image] else "the annotations"
        raise InputError(
            f"{instances.images[image]}: cannot be read as an image ({reason}). "
            f"Remove it from {source} or replace the file."
        )


def _reserve(crops: Path, shape: tuple[int, ...]) -> None:
    """An array file with its room on the disk: writing to a map on a full disk would kill the process."""
    np.lib.format.open_memmap(crops, mode="w+", dtype=np.uint8, shape=shape)
    size = crops.stat().st_size
    if hasattr(os, "posix_fallocate"):
        with crops.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    elif shutil.disk_usage(crops.parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _publish(building: Path, folder: Path, shape: tuple[int, ...], images: int) -> None:
    try:
        os.rename(building, folder)
    except OSError:
        if _load(folder, shape, images) is None:  # damaged; had another process been faster, its cache would do
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(building, folder)


def _remove_leftovers(cache: Path) -> None:
    """Folders of builds that were killed. Those of other machines, or of processes that live, are left alone."""
    for folder in cache.glob("*.tmp"):
        _, _, rest = folder.name.partition(".")
        node, pid, _, _ = rest.rsplit(".", 3) if rest.count(".") >= 3 else ("", "", "", "")
        if node == platform.node() and pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    if os.name == "nt":  # there, os.kill would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
