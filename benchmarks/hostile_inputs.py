"""Everything that reads a file which placl did not write, with a small sane file for each to start from.

`benchmarks/fuzz.py` makes wrong ones of them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import safetensors.numpy
import scipy.io
import torch
import yaml

import sane_files
from placl import config as configuration
from placl.data.formats.format import Options
from placl.data.formats.frame_boxes import read_frame_boxes
from placl.data.formats.registry import FORMATS, read_source
from placl.data.images import decode, image_size
from placl.data.packed import read_facts, read_pool
from placl.errors import PlaclError
from placl.models.weights import read_state
from placl.report.collecting import collect
from placl.report.page import page
from placl.run.folder import read_config, read_split
from placl.run.journal import Journal

NAMES = ["tail", "left_eye", "right_eye"]


@dataclass(frozen=True)
class Target:
    name: str
    file: str  # below a folder of its own
    sane: bytes
    read: Callable[[Path], object]  # gets the file
    around: tuple[str, ...] = ("images/a.jpg", "images/b.jpg")  # images that the sane file names
    beside: Mapping[str, bytes] = field(default_factory=dict)  # other files that it needs
    cost: int = 1  # of an input, over that of most readers: it gets so many times fewer


def _through(name: str, file: Path, up: int = 0) -> object:
    """What a format says of a file or of a folder above it, named and by itself."""
    place = file.parents[up - 1] if up else file
    with suppress(PlaclError):
        read_source(place)
    return FORMATS[name].read(place, Options())


def _json(content: object) -> bytes:
    return json.dumps(content).encode()


def _coco(number: str = "id") -> dict[str, Any]:
    box = {"category_id": 1, "bbox": [1, 2, 9, 8], "area": 72, "iscrowd": 0, "num_keypoints": 3}
    points = {"keypoints": [2, 3, 2, 4, 5, 1, 0, 0, 0]}
    names = {1: "images/a.jpg", 2: "images/b.jpg"}
    return {
        "images": [{"id": i, "file_name": name, "width": 16, "height": 12, number: i} for i, name in names.items()],
        "annotations": [{"id": i, "image_id": i, **box, **points} for i in names],
        "categories": [{"id": 1, "name": "bird", "keypoints": NAMES, "skeleton": [[1, 2]]}],
    }


def _label_studio() -> list[Any]:
    place = {"original_width": 16, "original_height": 12, "image_rotation": 0, "from_name": "label", "to_name": "image"}
    spot = {"x": 9.5, "y": 8, "width": 0.4, "keypointlabels": ["tail"]}
    extent = {"x": 1, "y": 2, "width": 50, "height": 60, "rotation": 0, "rectanglelabels": ["bird"]}
    point = {**place, "id": "p", "type": "keypointlabels", "value": spot}
    box = {**place, "id": "b", "type": "rectanglelabels", "value": extent}
    relation = {"from_id": "p", "to_id": "b", "type": "relation", "direction": "right"}
    note = {"id": 1, "result": [point, box, relation], "was_cancelled": False}
    return [{"id": 1, "annotations": [note], "file_upload": "a.jpg", "data": {"image": "/data/upload/1/images/a.jpg"}}]


CVAT = b"""<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version><meta><task><labels><label><name>tail</name><type>points</type></label>
<label><name>box</name><type>rectangle</type></label></labels></task></meta>
<image id="0" name="a.jpg" width="16" height="12"><points label="tail" occluded="0" outside="0" points="2.50,3.00"/>
<box label="box" xtl="1" ytl="2" xbr="9" ybr="9" occluded="0"/></image></annotations>
"""
DEEPLABCUT = b"""scorer,Ada,Ada,Ada,Ada
bodyparts,snout,snout,leftear,leftear
coords,x,y,x,y
labeled-data/v1/img0.png,1.5,2,3,4
labeled-data/v1/img1.png,,,5.25,6
"""
DEEPLABCUT_CONFIG = (
    b"scorer: Ada\nvideo_sets: {a.mp4: {crop: 0}}\nbodyparts: [snout, leftear]\nskeleton: [[snout, leftear]]\n"
)
YOLO = b"path: .\ntrain: images\nval: images\nkpt_shape: [3, 3]\nflip_idx: [0, 2, 1]\nnames: {0: bird}\n"


def _table() -> bytes:
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(["image", "x", "y", "width", "height", "tail_x", "tail_y", "left_eye_x", "left_eye_y"])
    writer.writerows([["images/a.jpg", 1, 2, 9, 8, 3, 4, 5, 6], ["images/b.jpg", 1, 2, 9, 8, "", "", 5.5, 6]])
    return text.getvalue().encode()


def _mat(**content: np.ndarray) -> bytes:
    file = BytesIO()
    scipy.io.savemat(file, content)
    return file.getvalue()


def _pth() -> bytes:
    file = BytesIO()
    torch.save({"state_dict": {"final_layer.weight": torch.zeros(3, 2)}}, file)
    return file.getvalue()


def _picture(kind: str) -> bytes:
    return cv2.imencode(kind, np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3))[1].tobytes()


def _looked_at(file: Path) -> object:
    return image_size(file), decode(file).shape


def _configured(file: Path) -> object:
    return configuration.dump(configuration.load(file))


def _overridden(file: Path) -> object:
    key, value = configuration.parse_override(file.read_bytes().decode(errors="replace"))
    return configuration.load(None, {key: value})


def _reported(file: Path) -> object:
    (file.parent / "config.yaml").touch()
    return page([collect(file.parent)])


def _pool_read(file: Path) -> object:
    return read_pool(file.parent), read_facts(file.parent)


def _persons() -> list[Any]:
    joints = [[float(k), 5.0 + k] for k in range(16)]
    return [{"joints_vis": [1] * 16, "joints": joints, "image": "a.jpg", "scale": 0.1, "center": [8.0, 6.0]}]


def _animalpose() -> dict[str, Any]:
    points = [[3, 4, 1], [0, 0, 0], [5, 6, 1]]
    note = {"image_id": 1, "bbox": [1, 2, 9, 9], "keypoints": points, "num_keypoints": 20, "category_id": 1}
    kind = {"id": 1, "name": "dog", "keypoints": NAMES, "skeleton": [[0, 1]]}
    return {"images": {"1": "a.jpg"}, "annotations": [note], "categories": [kind]}


IMAGES = ("images/a.jpg", "images/b.jpg")
POOL = sane_files.pool()
PROCESS = 20  # to start one for every input
LEEDS = np.zeros((14, 3, 2))
FRAMES = ("labeled-data/v1/img0.png", "labeled-data/v1/img1.png")
SPLIT = {"labelled": ["a"], "half_1": ["b"], "half_2": ["c"], "val": ["d"], "test": []}
RESULTS = b"stage,metric,val,test,labels,selected,seconds\nround_0,PCK@0.1,50.0,40.0,10,,1.5\n"
JOURNAL = b'{"key": "a", "kind": "candidate", "outcome": {"reward": 1.5, "images": 8, "selected": [0.5]}}\n'
TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("coco", "labels.json", _json(_coco()), partial(_through, "coco")),
        Target("coco boxes", "boxes.json", _json(_coco("frame_index")), read_frame_boxes),
        Target("label studio", "project-1-at-2024.json", _json(_label_studio()), partial(_through, "label_studio")),
        Target("cvat", "annotations.xml", CVAT, partial(_through, "cvat")),
        Target(
            "deeplabcut csv",
            "labeled-data/v1/CollectedData_Ada.csv",
            DEEPLABCUT,
            partial(_through, "deeplabcut"),
            FRAMES,
        ),
        Target(
            "deeplabcut h5",
            "labeled-data/v1/CollectedData_Ada.h5",
            sane_files.deeplabcut_h5(FRAMES),
            partial(_through, "deeplabcut"),
            FRAMES,
            cost=PROCESS,
        ),
        Target("deeplabcut yaml", "config.yaml", DEEPLABCUT_CONFIG, partial(_through, "deeplabcut", up=1), FRAMES),
        Target("lightning pose", "CollectedData.csv", DEEPLABCUT, partial(_through, "lightning_pose"), FRAMES),
        Target("sleap", "labels.slp", sane_files.sleap(IMAGES), partial(_through, "sleap"), cost=PROCESS),
        Target("yolo yaml", "data.yaml", YOLO, partial(_through, "yolo")),
        Target(
            "leeds",
            "joints.mat",
            _mat(joints=LEEDS),
            partial(_through, "lspet", up=1),
            ("images/im00001.jpg",),
            cost=PROCESS,
        ),
        Target("mpii json", "annot/train.json", _json(_persons()), partial(_through, "mpii")),
        Target(
            "mpii mat",
            "mpii_human_pose_v1_u12_1.mat",
            sane_files.mpii_release(),
            partial(_through, "mpii"),
            cost=PROCESS,
        ),
        Target(
            "cub",
            "CUB_200_2011/parts/part_locs.txt",
            sane_files.PART_LOCS,
            partial(_through, "cub", up=2),
            ("CUB_200_2011/images/001.Crow/a.jpg", "CUB_200_2011/images/001.Crow/b.jpg"),
            sane_files.CUB,
        ),
        Target("animalpose", "keypoints.json", _json(_animalpose()), partial(_through, "animalpose")),
        Target("table", "labels.csv", _table(), partial(_through, "csv")),
        Target("list", "list.txt", b"images/a.jpg\nimages/b.jpg\n", partial(_through, "list")),
        Target("jpeg", "a.jpg", _picture(".jpg"), _looked_at, ()),
        Target("png", "a.png", _picture(".png"), _looked_at, ()),
        Target("tiff", "a.tif", _picture(".tif"), _looked_at, ()),
        Target("config", "mine.yaml", b"train: {lr: 0.001, epochs: 2}\nrounds: {count: 3}\nseed: 1\n", _configured, ()),
        Target("override", "override.txt", b"train.lr=0.01", _overridden, ()),
        Target("safetensors", "w.safetensors", safetensors.numpy.save({"a": np.zeros(3)}), read_state, ()),
        Target("pth", "w.pth", _pth(), read_state, ()),
        Target("pool json", "pool/pool.json", POOL["pool/pool.json"], _pool_read, (), POOL),
        Target("pool npy", "pool/keypoints.npy", POOL["pool/keypoints.npy"], _pool_read, (), POOL),
        Target("run config", "config.yaml", b"train: {lr: 0.001}\n", lambda file: read_config(file.parent), ()),
        Target("split", "split.json", _json(SPLIT), lambda file: read_split(file.parent), ()),
        Target("journal", "journal.jsonl", JOURNAL, lambda file: Journal(file).units, ()),
        Target("results", "results.csv", RESULTS, _reported, ()),
        Target(
            "model card",
            "best/model.yaml",
            yaml.safe_dump({"stage": "round_0"}).encode(),
            lambda file: _reported(file.parent),
            (),
        ),
    )
}
