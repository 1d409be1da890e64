"""SLEAP's ``.slp`` and ``.pkg.slp`` files <-> :class:`~placl.data.instances.Instances`, through sleap-io.

SLEAP has no boxes and no splits; its tracks go into the ids, as in fly_000012.png#2:female.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from placl.data.formats.common import boxes_where_none_are, common_folder, drawn_boxes, way_from
from placl.data.formats.format import Format, Found, Options
from placl.data.formats.hdf5 import comes_to_an_end
from placl.data.formats.individuals import individuals_in
from placl.data.formats.sleap_frames import frame_files, is_package
from placl.data.images import image_size
from placl.data.instances import Instances
from placl.data.pool import OCCLUDED, UNLABELLED, VISIBLE
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.errors import InputError
from placl.files import disk_errors, replacing


def read_sleap(path: Path, options: Options) -> Found:
    """Instances that a person has labelled. In a file of predictions alone, these are boxes without labels."""
    labels = _load(path)
    people = any(frame.user_instances for frame in labels.labeled_frames)
    rows = list(_rows(labels, people))  # (frame, instance or None) of each
    if not rows:
        raise InputError(f"{path}: has no labelled frame. Label some in SLEAP, or pass the video itself.")
    skeleton = _skeleton(path, labels, [instance for _, instance in rows if instance is not None], options)
    points, visible = _points(path, rows, skeleton)  # (N, K, 2) float64 with NaN, (N, K) bool
    visibility = np.where(np.isnan(points[..., 0]), UNLABELLED, np.where(visible, VISIBLE, OCCLUDED)).astype(np.uint8)
    notes = _notes(path, labels, people, visibility)
    files = frame_files(path, [frame for frame, _ in rows], options)
    images = tuple(dict.fromkeys(files))
    position = {file: i for i, file in enumerate(images)}
    index = np.array([position[file] for file in files], np.int64)
    if people:
        keypoints = np.nan_to_num(points).astype(np.float32)
        boxes, area, drawn = boxes_where_none_are(index, keypoints, visibility)
    else:
        boxes, drawn = drawn_boxes(points, visibility)[0], np.zeros(len(rows), bool)  # no label shows in them
        keypoints, visibility = np.zeros(points.shape, np.float32), np.zeros_like(visibility)
        area = (boxes[:, 2] * boxes[:, 3]).astype(np.float32)
    ids = _ids(images, index, [instance.track if instance is not None else None for _, instance in rows])
    sources = (str(path),) * len(images)
    found = Instances(skeleton, images, index, boxes, keypoints, visibility, area, ids, sources=sources, drawn=drawn)
    return Found(found, notes)


def _load(path: Path) -> Any:
    if not comes_to_an_end(path):
        raise InputError(f"{path}: is damaged: reading it does not come to an end. Save it again in SLEAP.")
    import sleap_io  # slow to import, so only where it is used

    try:
        return sleap_io.load_slp(str(path), open_videos=False)
    except Exception as error:  # h5py and sleap-io raise whatever they meet in a broken file
        raise InputError(f"{path}: is not a SLEAP file ({_one_line(error)}).") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _rows(labels: Any, people: bool) -> Iterator[tuple[Any, Any]]:
    """An instance each; a frame that has none is an unlabelled image. Beside people's labels, predictions are none."""
    for frame in labels.labeled_frames:
        chosen = frame.user_instances if people else frame.predicted_instances
        # A package has the images of labelled frames only.
        if chosen or not (frame.predicted_instances or is_package(frame.video)):
            yield from ((frame, instance) for instance in chosen or [None])


def _skeleton(path: Path, labels: Any, instances: list[Any], options: Options) -> Skeleton:
    used = list({id(i.skeleton): i.skeleton for i in instances}.values()) or labels.skeletons
    if not used:
        raise InputError(f"{path}: has no skeleton. Make one in SLEAP.")
    names = tuple(used[0].node_names)
    for other in used[1:]:
        if tuple(other.node_names) != names:
            raise InputError(
                f"{path}: its skeletons name different keypoints: {', '.join(names)} against "
                f"{', '.join(other.node_names)}. Use one file for each."
            )
    pairs = tuple(sorted(tuple(pair) for pair in used[0].symmetry_inds)) or flip_pairs_by_name(names)
    if options.keypoints is not None:
        if len(options.keypoints) != len(names):
            raise InputError(f"{path}: has {len(names)} keypoints, --keypoints names {len(options.keypoints)}.")
        names = options.keypoints
    try:
        return Skeleton(names, tuple((int(a), int(b)) for a, b in used[0].edge_inds), pairs)
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from error


def _points(path: Path, rows: list[tuple[Any, Any]], skeleton: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    # SLEAP has pixel centres at integers, as we have. Until format 1.1 its GUI had them at halves (SLEAP issue 296);
    # sleap-io takes that into account.
    points = np.full((len(rows), len(skeleton), 2), np.nan)
    visible = np.zeros(points.shape[:2], bool)
    for i, (_, instance) in enumerate(rows):
        if instance is not None:
            points[i], visible[i] = instance.points["xy"], instance.points["visible"]
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
        too_large = np.isinf(points.astype(np.float32)).any(axis=2)
    for i, k in np.argwhere(too_large):
        frame = rows[i][0].frame_idx
        raise InputError(f'{path}: frame {frame}: keypoint "{skeleton.keypoints[k]}" is not finite. Fix the file.')
    points[np.isnan(points).any(axis=2)] = np.nan
    return points, visible


def _notes(path: Path, labels: Any, people: bool, visibility: np.ndarray) -> tuple[str, ...]:
    notes = []
    predicted = sum(len(frame.predicted_instances) for frame in labels.labeled_frames)
    if predicted and people:
        notes.append(f"{path.name}: {predicted} predicted instances are not labels and are left out.")
    elif predicted:
        notes.append(f"{path.name}: its {predicted} predicted instances are not labels; read as unlabelled boxes.")
    occluded = int((visibility == OCCLUDED).sum())
    if occluded and people:
        notes.append(
            f"{path.name}: {occluded} keypoints are marked as not visible. They are read as occluded, where they "
            "were placed; SLEAP itself leaves them out."
        )
    return tuple(notes)


def _ids(images: tuple[Path, ...], index: np.ndarray, tracks: list[Any]) -> tuple[str, ...]:
    names = [image.name for image in images]
    if len(set(names)) < len(names):
        base = common_folder(images)
        names = [way_from(base, image).as_posix() for image in images]
    ids, count = [], Counter[int]()
    for i, track in zip(index.tolist(), tracks, strict=True):
        count[i] += 1
        ids.append(f"{names[i]}#{count[i]}" + (f":{track.name}" if track is not None and track.name else ""))
    return tuple(ids)


def write_sleap(instances: Instances, path: Path) -> list[Path]:
    """A ``.slp`` file (or labels.slp in a folder) on the images as they are.

    Images are named by their full path: neither SLEAP nor sleap-io looks for a sequence's images beside the file.
    """
    import sleap_io

    file = path if path.suffix.lower() == ".slp" else path / "labels.slp"
    if instances.skeleton is None:
        raise InputError(f"{file}: a SLEAP file needs a skeleton, and plain images have none. Pass --keypoints.")
    skeleton = sleap_skeleton(instances.skeleton)
    places = image_sequences(instances.images)
    names = individuals_in(instances)
    tracks: dict[str, Any] = {name: sleap_io.Track(name) for name in names if name}
    labelled = instances.labelled
    frames = []
    for i, rows in enumerate(_rows_by_image(instances)):
        video, number = places[i]
        alone = len(rows) == 1 and not labelled[rows[0]]  # an image without labels: a frame without instances
        chosen = [] if alone else [_instance(instances, row, skeleton, tracks.get(names[row])) for row in rows]
        frames.append(sleap_io.LabeledFrame(video=video, frame_idx=number, instances=chosen))
    videos = list({id(video): video for video, _ in places}.values())
    labels = sleap_io.Labels(frames, videos=videos, skeletons=[skeleton], tracks=list(tracks.values()))
    save_labels(labels, file)
    return [file]


def sleap_skeleton(skeleton: Skeleton) -> Any:
    """sleap-io's own of the same keypoints."""
    import sleap_io

    return sleap_io.Skeleton(
        nodes=list(skeleton.keypoints),
        edges=[tuple(edge) for edge in skeleton.edges],
        symmetries=[tuple(pair) for pair in skeleton.flip_pairs],
    )


def save_labels(labels: Any, file: Path) -> None:
    """Write sleap-io's labels, whole or not at all."""
    import sleap_io

    with disk_errors(file), replacing(file, ".slp") as part:
        sleap_io.save_slp(labels, str(part), embed=False, verbose=False)


def image_sequences(images: tuple[Path, ...]) -> list[tuple[Any, int]]:
    """The image sequence and the number in it of each image. A sequence is of one folder and size, as SLEAP wants."""
    import sleap_io

    sequences: dict[tuple[Path, tuple[int, int]], list[str]] = {}
    places = []
    for image in images:
        key = (image.parent, image_size(image))
        names = sequences.setdefault(key, [])
        places.append((key, len(names)))
        names.append(image.absolute().as_posix())
    videos = {key: sleap_io.Video.from_filename(names) for key, names in sequences.items()}
    return [(videos[key], number) for key, number in places]


def _rows_by_image(instances: Instances) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in instances.images]
    for row, image in enumerate(instances.image_index.tolist()):
        rows[image].append(row)
    return rows


def _instance(instances: Instances, row: int, skeleton: Any, track: Any) -> Any:
    import sleap_io

    visibility = instances.visibility[row]
    points = np.where(visibility[:, None] > UNLABELLED, instances.keypoints[row].astype(np.float64), np.nan)
    instance = sleap_io.Instance.from_numpy(points, skeleton=skeleton, track=track)
    instance.points["visible"] = visibility == VISIBLE
    instance.points["complete"] = True  # a person has placed it: the GUI shows it so
    return instance


def _claims(path: Path) -> bool:
    return path.suffix.lower() == ".slp" and path.is_file()


FORMAT = Format("sleap", "SLEAP", _claims, read_sleap, write_sleap)
