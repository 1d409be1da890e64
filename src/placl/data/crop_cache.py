"""The crop cache: every image is decoded once, and its instances are cut out into an array that all workers map.

A cache is found by a hash of what went into its pixels. It is built beside its place and renamed into it, so one that
is found is whole.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
import uuid
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from placl.data.crew import Crew
from placl.data.crop_file import Syncing, Target, reserve
from placl.data.crops import crop_maps, crop_size, cut_out, make_pool, refuse_absurd
from placl.data.garbage import collecting_later
from placl.data.images import UnreadableImageError
from placl.data.instances import Instances
from placl.data.pool import Pool
from placl.errors import InputError, MachineError
from placl.files import write_atomic

FORMAT = 3  # part of the key: raise it when the same inputs give other pixels
IMAGES_PER_TASK = 32
LARGE = 1 << 20  # bytes of an annotation file: some 2,000 instances
MANY = 2000  # files of a folder

# An image, its width and height, why it is unreadable if it is, and its stamp from before it was read.
Result = tuple[int, tuple[int, int], str, str]


@dataclass(frozen=True)
class _Task:
    """Some images and their instances; plain values, which travel to another process faster than objects would."""

    images: list[int]
    paths: list[str]
    ends: list[int]  # of each image's instances among those below
    rows: np.ndarray  # (n,)
    boxes: np.ndarray  # (n, 4)


@dataclass(frozen=True)
class _Index:
    """What decoding found out, next to the pixels."""

    sizes: np.ndarray  # (M, 2) int64, width and height of images that are instances as a whole; else zeros
    unreadable: dict[int, str]  # image -> reason


@collecting_later()
def build_pool(
    instances: Instances,
    *,
    view: int,
    context: float = 1.25,
    margin: float = 1.25,
    cache: Path,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    crew: Crew | None = None,
) -> tuple[Pool, list[str]]:
    """The instances as a pool, and a line for each unreadable image, whose (unlabelled) instances are left out.

    A ``crew`` that was hired before, see :func:`crew_for`, saves the time that ``workers`` take to start.

    A square of ``context`` times the longer side of the box becomes the central ``view`` pixels of a crop that is
    ``margin`` times as large. What lies outside the image is black.
    """
    if instances.skeleton is None:
        raise InputError("nothing names the keypoints. Add a source with labels, or pass --keypoints.")
    if not len(instances):
        raise InputError("there are no instances to cut out. Add a source.")
    size = crop_size(view, margin)
    refuse_absurd(instances, view=view, context=context, size=size)
    name = partial(_key, instances, view, context, margin)
    shape = (len(instances), size, size, 3)
    found = None
    if any(cache.glob("*/index.json")):  # else, ten thousand files need not be asked for their stamps first
        stamps = dict(enumerate(map(_stamp, map(os.fspath, instances.images))))
        found = _load(cache / name(stamps), shape, len(instances.images))
    if found is None:
        folder = _build(instances, cache, name, shape, view, context, progress, crew or Crew(workers))
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


def crew_for(sources: Iterable[Path], workers: int) -> Crew:
    """Helpers that start while ``sources`` are read, where these look like thousands of images."""
    crew = Crew(workers)
    if workers > 1 and any(map(_is_large, sources)):
        crew.hire(knowing=__name__)
    return crew


def _is_large(source: Path) -> bool:
    if source.is_file():
        return source.stat().st_size > LARGE
    files = 0
    for place in (source, source / "images"):  # a large annotation file saves listing the images
        inside = list(os.scandir(place)) if place.is_dir() else []
        files += len(inside)
        if files > MANY or any(entry.is_file() and entry.stat().st_size > LARGE for entry in inside):
            return True
    return False


def _stamp(path: str) -> str:
    """A file and its state: another one may mean other pixels."""
    try:
        status = os.stat(path)
        # Files that are closed to us are skipped, until they are not.
        state = f"{status.st_size}\0{status.st_mtime_ns}" if os.access(path, os.R_OK) else "closed"
    except (OSError, ValueError):
        state = "missing"
    return f"{os.path.abspath(path)}\0{state}\n"


def _key(instances: Instances, view: int, context: float, margin: float, stamps: dict[int, str]) -> str:
    """Everything that decides a pixel, and no label."""
    digest = hashlib.sha256(json.dumps([FORMAT, int(view), float(context), float(margin)]).encode())
    lines = "".join(stamps[image] for image in range(len(instances.images)))
    digest.update(lines.encode("utf-8", "surrogatepass"))
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
    cache: Path,
    name: Callable[[dict[int, str]], str],
    shape: tuple[int, ...],
    view: int,
    context: float,
    progress: Callable[[int, int], None] | None,
    crew: Crew,
) -> Path:
    """The new cache's folder, whose ``name`` follows from the stamps of the images that were read."""
    threads = cv2.getNumThreads()
    building = cache / f"crops.{platform.node()}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(cache)
        building.mkdir()
        crops = building / "crops.npy"
        target = reserve(crops, shape)
        sizes, unreadable, stamps = [(0, 0)] * len(instances.images), {}, {}
        tasks = _tasks(instances)
        done, total = 0, sum(len(task.images) for task in tasks)
        cutting = crew.share(tasks, partial(_crop, target, view, context))
        with Syncing(crops) as syncing, closing(cutting) as parts:
            for results in parts:
                for image, found, reason, stamp in results:
                    sizes[image], stamps[image] = found, stamp
                    if reason:
                        _refuse_labelled(instances, image, reason)
                        unreadable[image] = reason
                done += len(results)
                syncing.tell(done / total)
                if progress is not None:
                    progress(done, total)
            syncing.finish()
        write_atomic(building / "index.json", json.dumps({"sizes": sizes, "unreadable": unreadable}))
        for image in set(range(len(instances.images))) - stamps.keys():  # without instances
            stamps[image] = _stamp(os.fspath(instances.images[image]))
        folder = cache / name(stamps)
        _publish(building, folder, shape, len(instances.images))
        return folder
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            need = f"{np.prod(shape, dtype=float) / 1e9:.1f} GB"
            raise MachineError(f"{cache}: no room for {need} of crops. Free some, or use another cache.") from error
        kind = InputError if isinstance(error, PermissionError | FileExistsError | NotADirectoryError) else MachineError
        raise kind(f"{cache}: cannot keep crops there ({error.strerror}). Use another cache.") from error
    finally:
        cv2.setNumThreads(threads)  # cutting out has changed it
        shutil.rmtree(building, ignore_errors=True)


def _tasks(instances: Instances) -> list[_Task]:
    """All images that have instances, some at a time."""
    order = np.argsort(instances.image_index, kind="stable")
    used, starts = np.unique(instances.image_index[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    tasks = []
    for first in range(0, len(used), IMAGES_PER_TASK):
        images = used[first : first + IMAGES_PER_TASK].tolist()
        some = ends[first : first + IMAGES_PER_TASK]
        rows = order[starts[first] : some[-1]]
        paths = [os.fspath(instances.images[image]) for image in images]
        tasks.append(_Task(images, paths, (some - starts[first]).tolist(), rows, instances.boxes[rows]))
    return tasks


def _crop(target: Target, view: int, context: float, task: _Task) -> list[Result]:
    """Write the crops of some images into the array's file."""
    cv2.setNumThreads(0)  # all cores are at it
    maps = crop_maps(task.boxes, view=view, context=context, size=target.size)
    crops = np.zeros((len(task.rows), target.size, target.size, 3), np.uint8)
    results: list[Result] = []
    readable = np.ones(len(task.rows), bool)
    end = 0
    for image, path, until in zip(task.images, task.paths, task.ends, strict=True):
        start, end = end, until
        stamp = _stamp(path)
        try:
            _, extent = cut_out(
                path, maps[start:end], view=view, context=context, size=target.size, out=crops[start:end]
            )
        except UnreadableImageError as error:
            results.append((image, (0, 0), str(error), stamp))
            readable[start:end] = False
            continue
        results.append((image, extent, "", stamp))
    whole = bool(readable.all())
    target.write(task.rows if whole else task.rows[readable], crops if whole else crops[readable])
    return results


def _refuse_labelled(instances: Instances, image: int, reason: str) -> None:
    if instances.labelled[instances.image_index == image].any():
        source = instances.sources[image] if instances.sources and instances.sources[image] else "the annotations"
        raise InputError(
            f"{instances.images[image]}: cannot be read as an image ({reason}). "
            f"Remove it from {source} or replace the file."
        )


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
