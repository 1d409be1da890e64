"""Small sane files of formats that take a library, or several files, to write."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import h5py
import numpy as np
import pandas as pd
import scipy.io
import sleap_io

from placl.data.packed import write_pool
from placl.data.synthetic import animals

CUB = {
    "CUB_200_2011/images.txt": b"1 001.Crow/a.jpg\n2 001.Crow/b.jpg\n",
    "CUB_200_2011/classes.txt": b"1 001.Crow\n",
    "CUB_200_2011/image_class_labels.txt": b"1 1\n2 1\n",
    "CUB_200_2011/train_test_split.txt": b"1 0\n2 1\n",
    "CUB_200_2011/bounding_boxes.txt": b"1 1.0 2.0 9.0 8.0\n2 0.0 1.0 9.0 8.0\n",
    "CUB_200_2011/parts/parts.txt": b"1 back\n2 left eye\n3 right eye\n",
}
PART_LOCS = b"1 1 2.0 3.0 1\n1 2 4.0 5.0 1\n1 3 0.0 0.0 0\n2 1 2.5 3.0 1\n2 2 4.0 5.5 1\n2 3 6.0 7.0 1\n"


def deeplabcut_h5(frames: tuple[str, ...]) -> bytes:
    """As DeepLabCut writes it, by pandas."""
    levels = [["Ada"], ["snout", "leftear"], ["x", "y"]]
    columns = pd.MultiIndex.from_product(levels, names=["scorer", "bodyparts", "coords"])
    data = pd.DataFrame(np.arange(4.0 * len(frames)).reshape(-1, 4), index=list(frames), columns=columns)
    with TemporaryDirectory() as folder:
        data.to_hdf(Path(folder) / "a.h5", key="df_with_missing", mode="w")
        return (Path(folder) / "a.h5").read_bytes()


def sleap(images: tuple[str, ...]) -> bytes:
    """A fly with two nodes on each image, which the file knows by a relative path."""
    skeleton = sleap_io.Skeleton(["head", "wing"], edges=[(0, 1)])
    fly = sleap_io.Instance.from_numpy(np.array([[1.5, 2.0], [4.0, 5.0]]), skeleton=skeleton)
    with TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in images]
        for place in places:
            place.parent.mkdir(exist_ok=True)
            cv2.imwrite(str(place), np.zeros((12, 16, 3), np.uint8))
        video = sleap_io.Video.from_filename([str(place) for place in places])
        frames = [sleap_io.LabeledFrame(video=video, frame_idx=i, instances=[fly]) for i in range(len(images))]
        file = Path(folder, "labels.slp")
        sleap_io.save_slp(sleap_io.Labels(frames), str(file), verbose=False)
        with h5py.File(file, "r+") as content:
            content["videos_json"][0] = content["videos_json"][0].replace(f"{folder}/".encode(), b"")
        return file.read_bytes()


def mpii_release() -> bytes:
    """Two images: a person with two joints and one without."""
    points = {"point": _structures([{"x": 3.0, "y": 4.0, "id": 0, "is_visible": 1},
                                    {"x": 5.0, "y": 6.0, "id": 9, "is_visible": "0"}])}  # fmt: skip
    place = {"scale": 0.1, "objpos": {"x": 8.0, "y": 6.0}}
    rects = ({**place, "annopoints": points}, {**place, "annopoints": np.zeros((0, 0))})
    named = zip(("a.jpg", "b.jpg"), rects, strict=True)
    listed = [{"image": {"name": name}, "annorect": _structures([rect]), "vididx": 1.0} for name, rect in named]
    file = BytesIO()
    release = {"annolist": _structures(listed), "img_train": np.array([[1, 0]]), "version": "12"}
    scipy.io.savemat(file, {"RELEASE": release})
    return file.getvalue()


def _structures(records: list[dict[str, Any]]) -> np.ndarray:
    """A 1 x n structure array, as savemat writes one."""
    array = np.empty((1, len(records)), dtype=[(key, object) for key in records[0]])
    for i, record in enumerate(records):
        array[0, i] = tuple(record.values())
    return array


def pool() -> dict[str, bytes]:
    """The files of a packed pool of two drawn animals."""
    with TemporaryDirectory() as folder:
        write_pool(animals(2, seed=0, size=16), Path(folder) / "pool")
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}
