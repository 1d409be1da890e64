"""The results of a study, read from the folders of its runs, or from the csv that another machine wrote."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from placl import config as configuration
from placl.config import Config, Data
from placl.errors import InputError
from placl.files import read_object, write_csv
from placl.plain_yaml import load_yaml
from placl.run.folder import read_config
from placl.run.journal import Journal, key_of
from placl.studies.study import RunSpec

COLUMNS = (
    "dataset", "method", "fraction", "seed", "test", "val", "trainings", "images", "seconds", "commit", "settings",
    "test_pck",
)  # fmt: skip
DIVIDING = ("val_from", "val_fraction", "test_fraction", "trust_drawn_boxes", "corrections")  # of the data
NEWER = (  # than some results
    ("rounds", "continued"), ("teacher", "batch"), ("proxy", "batch"), ("teacher", "first_batch"),
    ("teacher", "first_augment"),
)  # fmt: skip


class Results:
    """Of the runs that are finished. A run is read once: it does not change any more."""

    def __init__(self, specs: Sequence[RunSpec], every_round: bool = False, known: Path | None = None) -> None:
        """``known``: a results.csv of this study, whose runs need no folder here."""
        self.specs = list(specs)
        self._every_round = every_round
        self._known = _read_known(self.specs, known) if known is not None else {}

    def of(self, spec: RunSpec) -> dict[str, Any] | None:
        """What a run is judged by; None while it is not finished."""
        rows = self._rows(spec)
        return rows[-1] if rows else None

    def rows(self) -> list[dict[str, Any]]:
        """All of them, in the study's order."""
        return [row for spec in self.specs for row in self._rows(spec)]

    def write(self, file: Path) -> None:
        write_csv(file, self.rows(), COLUMNS)

    def _rows(self, spec: RunSpec) -> list[dict[str, Any]]:
        if spec.out not in self._known:
            rows = _read(spec, self._every_round)
            if not rows:
                return []
            self._known[spec.out] = rows
        return self._known[spec.out]


def settings_key(config: Config) -> str:
    """What tells the runs of a study apart beside their data: where those lie, and where the run does, is left out.

    So are settings that the run does not read: another search need not train PLACL's rivals again.
    """
    settings = config.model_dump(mode="json", exclude={"data", "execute", "ray", "preset", "track"})
    searches = config.search.searcher != "constant"
    if config.method != "placl" or not searches:
        settings.pop("proxy")
        read = ("searcher", "initial", "rise", "group_size") if not searches else ()
        settings["search"] = {key: settings["search"][key] for key in read}
    for section, name in NEWER:
        if settings.get(section, {}).get(name, 0) is None:
            del settings[section][name]
    if config.method != "placl":
        settings["rounds"] = {"keep": config.rounds.keep}
    own = config.data.model_dump(mode="json", include={"label_fraction", "split_seed", "context", "margin"})
    for name in DIVIDING:  # not where they are as they always were: results are older than some of them
        value = getattr(config.data, name)
        if value != Data.model_fields[name].default:
            own[name] = config.data.model_dump(mode="json", include={name})[name]
    return key_of(settings=settings, data=own)[:12]


def _read_known(specs: Sequence[RunSpec], file: Path) -> dict[Path, list[dict[str, Any]]]:
    """The rows of a results.csv by the folders that their runs would have."""
    try:
        with open(file, newline="", encoding="utf-8") as lines:
            rows = [_typed(row) for row in csv.DictReader(lines)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: is not the results.csv of a study ({error}).") from None
    known: dict[Path, list[dict[str, Any]]] = {}
    for spec in specs:
        key = settings_key(spec.config)
        own = [row for row in rows if row["settings"] == key and row["dataset"] == spec.dataset]
        own = [row for row in own if re.fullmatch(re.escape(spec.method) + r"(-r\d+)?", row["method"])]
        own = list({row["method"]: row for row in own}.values())  # a run counts once, whoever has put files together
        if own and own[-1]["method"] == spec.method:
            known[spec.out] = own
    return known


def _typed(row: dict[str, str]) -> dict[str, Any]:
    row.setdefault("test_pck", "")  # which older files have not
    values: dict[str, Any] = {name: row[name] for name in COLUMNS}
    for name, kind in {"fraction": float, "seed": int, "trainings": int, "images": int, "seconds": float}.items():
        values[name] = kind(row[name])
    return values | {name: float(row[name]) if row[name] else None for name in ("test", "test_pck", "val")}


def _read(spec: RunSpec, every_round: bool) -> list[dict[str, Any]]:
    kept = _kept(spec)
    if kept is None:
        return []
    with open(spec.out / "results.csv", newline="") as file:
        stages = {row["stage"]: row for row in csv.DictReader(file)}
    units = Journal(spec.out / "journal.jsonl").units.values()
    rounds = [name for name in stages if name.startswith("round_")] if every_round else []
    rows = [_row(spec, f"{spec.method}-r{name[6:]}", name, stages, list(units)) for name in rounds]
    return [*rows, _row(spec, spec.method, kept, stages, list(units))]


def _kept(spec: RunSpec) -> str | None:
    """The stage that a run of this configuration was finished with."""
    try:
        description = load_yaml((spec.out / "best" / "model.yaml").read_text("utf-8"))
        if configuration.differences(read_config(spec.out), spec.config.anchored()):
            return None  # of another configuration: it will be refused
        return str(description["stage"])
    except (OSError, ValueError, KeyError, TypeError, InputError, yaml.YAMLError):
        return None


def _row(
    spec: RunSpec, method: str, name: str, stages: dict[str, dict[str, Any]], units: list[dict[str, Any]]
) -> dict[str, Any]:
    """Trainings, images and seconds are those of the whole run, candidates and remembered trainings included."""
    stage = stages[name]
    scores = read_object(spec.out / name / "metrics.json").get("test") or {}
    spent = [unit["outcome"] if unit["kind"] == "candidate" else unit for unit in units
             if unit["kind"] == "candidate" or (unit["kind"] == "training" and "candidate" not in unit)]  # fmt: skip
    environment = json.loads((spec.out / "environment.json").read_text("utf-8"))
    values = {
        "dataset": spec.dataset,
        "method": method,
        "fraction": spec.fraction,
        "seed": spec.seed,
        "test": float(stage["test"]) if stage["test"] else None,
        "test_pck": round(scores["pck"], 4) if scores.get("pck") is not None else None,
        "val": float(stage["val"]) if stage["val"] else None,
        "trainings": len(spent),
        "images": sum(int(unit["images"]) for unit in spent),
        "seconds": round(sum(float(unit.get("seconds", 0)) for unit in spent), 1),
        "commit": environment.get("commit", ""),
        "settings": settings_key(spec.config),
    }
    return {column: values[column] for column in COLUMNS}
