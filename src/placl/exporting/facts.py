"""What a run folder knows about its model: the data it was made from and how it scored. All of it may be missing."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from placl.config import Config
from placl.data.protocols import protocol_named
from placl.files import read_object
from placl.model import Model
from placl.run.folder import read_config, read_split


@dataclass(frozen=True)
class Facts:
    """Of a model by itself, without the folder of its run, there are none."""

    name: str  # of the folder
    config: Config | None = None  # of the whole training
    instances: dict[str, int] = field(default_factory=dict)  # by role
    pseudo: int | None = None  # instances that had pseudo-labels in the training of this network
    row: dict[str, str] = field(default_factory=dict)  # of results.csv
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)  # "val" and "test", as Score has them


def run_of(model: Model) -> Path:
    """The run folder that a model belongs to, or else its own."""
    parent = model.path.parent
    return parent if model.path.name == "best" and (parent / "config.yaml").is_file() else model.path


def read_facts(model: Model) -> Facts:
    run = run_of(model)
    name = run.parent.resolve().name if run == model.path and run.name == "best" else run.resolve().name
    if not (run / "config.yaml").is_file():
        return Facts(name)
    split = read_split(run)
    row = _row(run / "results.csv", model)
    metrics = read_object(run / model.stage / "metrics.json") if row else {}
    return Facts(
        name=name,
        config=read_config(run),
        instances={} if split is None else {role: len(ids) for role, ids in split.roles().items()},
        pseudo=_pseudo_labelled(run / model.stage / "pseudo_labels.parquet", len(model.skeleton)),
        row=row,
        scores={part: found for part in ("val", "test") if isinstance(found := metrics.get(part), dict)},
    )


def sources(config: Config) -> dict[str, list[str]]:
    """Role -> names of the files and folders. Not their paths: a card is published, and paths name people."""
    data = config.data
    if data.protocol is not None:
        return {"dataset": [protocol_named(data.protocol).title]}
    given = {
        "labelled": data.labeled or data.source,
        "unlabelled": data.unlabeled or data.target,
        "validation": data.val,
        "test": data.test,
    }
    return {
        role: [(source if isinstance(source, Path) else source.path).name for source in some]
        for role, some in given.items()
        if some
    }


def _row(file: Path, model: Model) -> dict[str, str]:
    """Of this very network: a stage that was trained again has other weights."""
    if not file.is_file():
        return {}
    with open(file, newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row.get("weights_sha256") == model.sha256]
    return next((row for row in rows if row.get("stage") == model.stage), {})


def _pseudo_labelled(file: Path, keypoints: int) -> int | None:
    """A row per instance and keypoint."""
    try:
        return int(pyarrow.parquet.read_metadata(file).num_rows) // keypoints
    except (OSError, pa.ArrowInvalid):
        return None
