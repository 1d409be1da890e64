"""A run folder, whole, half or of an older version, as the plain values that its report shows."""

from __future__ import annotations

import base64
import csv
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from placl.errors import InputError
from placl.files import plain, read_object
from placl.plain_yaml import load_yaml
from placl.report.health import health

YARDSTICKS = ("few", "full")
GALLERY = "gallery"  # folder in a run
GALLERY_KEYS = {"ids": list, "keypoints": list, "edges": list, "flip_pairs": list, "size": int}
NAME = re.compile(r"\w+")  # of a stage


def collect(run: Path) -> dict[str, Any]:
    """Everything that is there; what is missing or damaged is left out."""
    if not run.is_dir():
        raise InputError(f"{run}: no such run. Name the folder that placl train wrote (its --out).")
    if not (run / "config.yaml").is_file():
        raise InputError(f"{run}: is not a run folder (it has no config.yaml).")
    config = _yaml(run / "config.yaml")
    split = read_object(run / "split.json")
    rows = _rows(run / "results.csv")
    # Whatever a damaged table says, nothing outside of the run is looked at.
    stages = [_stage(run, row) for row in rows if NAME.fullmatch(row.get("stage") or "")]
    known = {stage["name"] for stage in stages}
    begun = sorted(place.name for place in run.glob("round_*") if place.is_dir() and place.name not in known)
    searching = [
        {"name": name, "search": _search(run / name), "confidence": read_object(run / name / "confidence.json")}
        for name in begun
    ]
    best = _yaml(run / "best" / "model.yaml")
    told = {
        "name": run.resolve().name,
        "method": str(config.get("method", "placl")),
        "taught": any(value is not None for value in _section(config, "teacher").values()),
        "only_label": _only_label(_section(config, "teacher"), [name for name in known if name != best.get("stage")]),
        "finished": bool(best),
        "best": best.get("stage"),
        "counts": {role: len(ids) for role, ids in split.items() if isinstance(ids, list)},
        "domains": _domains(read_object(run / "keypoints.json")),
        "select": {key: _section(config, "select").get(key) for key in ("level", "scale")},
        "stages": stages,
        "searching": searching,
        "gallery": _gallery(run / GALLERY, [stage["name"] for stage in stages]),
        "settings": config,
        "environment": read_object(run / "environment.json"),
    }
    found: dict[str, Any] = plain(told | {"health": health(told)})
    return found


def _only_label(teacher: dict[str, Any], names: list[str]) -> list[str]:
    """Those of the networks that are not kept which other settings made than those of the last."""
    given = {key for key, value in teacher.items() if value is not None}
    of_the_first = {key for key in given if key.startswith("first_")}
    rounds = sorted(name for name in names if name.startswith("round_"))
    return [name for name in rounds if given - of_the_first or (given and name == "round_0")]


def _domains(told: dict[str, Any]) -> dict[str, Any]:
    """Across domains: whose labels each score is measured on, and how many keypoints each source and target shares."""
    maps, unused = _section(told, "maps"), _section(told, "unused")
    if not maps:
        return {}
    shares = [
        {"name": name, "shared": len(names), "unused": [str(one) for one in rest]}
        for name, names in maps.items()
        if isinstance(names, dict) and isinstance(rest := unused.get(name, []), list)
    ]
    return {"val": str(told.get("val_of", "")), "test": "target", "keypoints": shares}


def _stage(run: Path, row: dict[str, str]) -> dict[str, Any]:
    name = row["stage"]
    folder = run / name
    metrics = read_object(folder / "metrics.json")
    val = _section(metrics, "val")
    return {
        "name": name,
        "yardstick": name in YARDSTICKS,
        "metric": row.get("metric", ""),
        "val": _number(row.get("val")),
        "test": _number(row.get("test")),
        "labels": _number(row.get("labels")),
        "selected": _number(row.get("selected")),
        "seconds": _number(row.get("seconds")),
        "per_keypoint": _section(val, "per_keypoint"),
        "mean_error": val.get("mean_error"),
        "thresholds": read_object(folder / "curriculum.json").get("thresholds"),
        "shares": read_object(folder / "curriculum.json").get("selected"),
        "search": _search(folder),
        "confidence": read_object(folder / "confidence.json"),
        "reliability": read_object(folder / "reliability.json"),
    }


def _search(folder: Path) -> list[dict[str, float | None]]:
    return [{key: _number(value) for key, value in row.items()} for row in _rows(folder / "search.csv")]


def _gallery(folder: Path, stages: list[str]) -> dict[str, Any]:
    told = read_object(folder / "instances.json")
    count, keypoints = (len(found) if isinstance(found := told.get(key), list) else 0 for key in ("ids", "keypoints"))
    if not count or not all(isinstance(told.get(key), kind) for key, kind in GALLERY_KEYS.items()):
        return {}
    pictures = []
    for number in range(count):
        try:
            data = (folder / f"{number:03}.jpg").read_bytes()
        except OSError:
            return {}
        pictures.append("data:image/jpeg;base64," + base64.b64encode(data).decode())
    opinions = {name: read_object(folder / f"{name}.json") for name in stages}
    whole = {name: found for name, found in opinions.items() if _is_opinion(found, count, keypoints)}
    return told | {"pictures": pictures, "opinions": whole}


def _is_opinion(content: dict[str, Any], count: int, keypoints: int) -> bool:
    try:
        places, sure = (np.array(content[key], np.float64) for key in ("keypoints", "confidence"))
    except (KeyError, ValueError, TypeError):
        return False
    return places.shape == (count, keypoints, 2) and sure.shape == (count, keypoints)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _section(content: dict[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def _yaml(file: Path) -> dict[str, Any]:
    try:
        content = load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def _rows(file: Path) -> list[dict[str, str]]:
    try:
        with open(file, newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))
    except (OSError, ValueError, csv.Error):
        return []
