"""One training's folder: its configuration, split, journal, rounds and results, each file whole or not there."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import torch

from placl import config as configuration
from placl.config import Config
from placl.data.pool import Pool
from placl.data.splits import Split
from placl.errors import InputError
from placl.files import disk_errors, plain, read_object, replacing, sha256_of, sync, write_atomic, write_csv
from placl.learn.candidate import Outcome
from placl.learn.pseudo_labels import PseudoLabels, label_schema, label_table
from placl.learn.training import Learned
from placl.models.weights import read_state, save_weights, weights_sha256
from placl.models.zoo import KeypointNet
from placl.report.collecting import collect
from placl.report.page import page
from placl.run.journal import Journal, key_of
from placl.tracking import Tracking
from placl.version import VERSION

INSTANCES_AT_ONCE = 1 << 14


class RunFolder:
    def __init__(self, path: Path, config: Config) -> None:
        """Make the folder, or open it to carry on; a folder of another configuration is refused."""
        refuse_foreign(path, config)
        self.path = path
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        if not (path / "config.yaml").exists():
            write_atomic(path / "config.yaml", configuration.dump(config))
        if not (path / "environment.json").exists():
            write_atomic(path / "environment.json", json.dumps(environment(), indent=2) + "\n")
        self.journal = Journal(path / "journal.jsonl")
        self._board: Any = None  # a SummaryWriter, once something is logged
        self.tracking: Tracking | None = None

    def identify(self, key: str, **parts: str) -> None:
        """Keep what the run stands on, or refuse to mix it with what it stood on before."""
        before = [unit for unit in self.journal.units.values() if unit["kind"] == "run"]
        if not before:
            self.journal.add(key, "run", parts=parts)
        elif before[0]["key"] != key:
            changed = [name for name, value in parts.items() if before[0]["parts"].get(name) != value]
            raise InputError(
                f"{self.path}: cannot be carried on, since {' and '.join(changed)} changed after it was begun. "
                "Start another run with --out."
            )

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a csv file that an earlier session wrote."""
        file = self.path / name
        if not file.exists():
            return []
        try:
            with open(file, newline="") as lines:
                return list(csv.DictReader(lines))
        except (ValueError, csv.Error):
            return []  # damaged, and about to be written again

    def keep_split(self, split: Split) -> None:
        write_atomic(self.path / "split.json", split.to_json())

    def keep_network(self, name: str, net: KeypointNet) -> str:
        """Write a stage's weights; returns their sha256."""
        save_weights(net, self.path / name / "model.safetensors")
        return weights_sha256(net)

    def keep_candidate(self, name: str, key: str, outcome: Outcome) -> None:
        """The network of a search's best candidate so far: the round's own may be the same."""
        best = read_object(self.path / name / "candidate.json").get("reward")
        if outcome.weights is not None and not (isinstance(best, float) and best >= outcome.reward):
            facts = {"key": key, **outcome.to_dict()}
            write_atomic(self.path / name / "candidate.safetensors", outcome.weights)
            self.write_json(f"{name}/candidate.json", facts | {"sha256": _seal(facts, outcome.weights)})

    def candidate(self, name: str, key: str) -> Learned | None:
        """What was kept of a candidate, if it is the one and its files are whole."""
        facts = read_object(self.path / name / "candidate.json")
        file = self.path / name / "candidate.safetensors"
        weights = file.read_bytes() if facts.get("key") == key and file.exists() else b""
        if facts.pop("sha256", None) != _seal(facts, weights):
            return None
        outcome = Outcome.from_dict(facts)
        return Learned(weights, outcome.images, outcome.selected, False, outcome.seconds)

    def forget_candidate(self, name: str) -> None:
        for file in ("candidate.json", "candidate.safetensors"):
            (self.path / name / file).unlink(missing_ok=True)

    def network_state(self, name: str, sha256: str) -> dict[str, torch.Tensor] | None:
        """A stage's weights, if the file is there and holds what the journal says."""
        file = self.path / name / "model.safetensors"
        if not file.exists():
            return None
        try:
            state = read_state(file)
        except InputError:
            return None  # damaged: the stage is trained again, to the same bits
        return state if weights_sha256(state) == sha256 else None

    def keep_pseudo_labels(self, name: str, pool: Pool, pseudo: PseudoLabels) -> None:
        """A row per instance and keypoint, in image pixels, some instances at a time; unless they are there already."""

        def write(file: Path) -> None:
            with disk_errors(file), replacing(file) as part:
                with pyarrow.parquet.ParquetWriter(part, label_schema(pseudo.model)) as writer:
                    for start in range(0, len(pool), INSTANCES_AT_ONCE):
                        writer.write_table(label_table(pool, pseudo, slice(start, start + INSTANCES_AT_ONCE)))
                sync(part)

        self.once(f"{name}/pseudo_labels.parquet", pseudo.model, write)

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Numbers over steps, as TensorBoard event files in ``tb/`` and to the run's tracker, where it has one.

        A unit read from the journal logs again.
        """
        if self._board is None:
            from torch.utils.tensorboard import SummaryWriter  # a second that runs without it need not wait

            self._board = SummaryWriter(str(self.path / "tb"))
        for name, value in scalars.items():
            self._board.add_scalar(name, value, step)
        self._board.flush()
        if self.tracking is not None:
            self.tracking.log(scalars, step)

    def write_report(self) -> None:
        """``report.html`` from what the folder holds so far."""
        write_atomic(self.path / "report.html", page([collect(self.path)]))

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        write_atomic(self.path / name, json.dumps(plain(content), indent=2) + "\n")

    def once(self, name: str, source: str, write: Callable[[Path], None]) -> None:
        """A file that is made of ``source``, unless it is there and still what was written."""
        key = key_of(unit="file", name=name, source=source)
        done = self.journal.get(key)
        if done is None or not self.holds(done["files"]):
            (self.path / name).unlink(missing_ok=True)
            write(self.path / name)
            self.journal.add(key, "file", files=self.hashes([name]))

    def hashes(self, names: Iterable[str]) -> dict[str, str | None]:
        """The sha256 of each file, for the journal."""
        return {name: sha256_of(self.path / name) for name in names}

    def holds(self, files: dict[str, str | None]) -> bool:
        """Whether files are what the journal says they were."""
        return self.hashes(files) == files

    def write_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        write_csv(self.path / name, rows)


def _seal(facts: dict[str, Any], weights: bytes) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode() + weights).hexdigest()


def refuse_foreign(path: Path, config: Config) -> None:
    """Refuse what cannot become, or is not, the run of this configuration. Nothing is written."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file. Name a folder for the run with --out.")
    for parent in path.parents:
        if parent.exists() and not parent.is_dir():
            raise InputError(f"{path}: {parent} is a file. Name another folder for the run with --out.")
    if (path / "config.yaml").exists():
        differ = configuration.differences(read_config(path), config)
        if differ:
            raise InputError(
                f"{path}: was made with another configuration, says its config.yaml ({'; '.join(differ)}). "
                "Use the same one to carry on, or another --out."
            )
    # Hidden files do not count: a killed process may have left the beginning of a config.yaml.
    elif path.exists() and any(not entry.name.startswith(".") for entry in path.iterdir()):
        raise InputError(f"{path}: is not empty and not a run: it has no config.yaml. Name another folder with --out.")


def read_split(path: Path) -> Split | None:
    """The split that a run folder was made with, once it is drawn."""
    file = path / "split.json"
    if not file.exists():
        return None
    try:
        return Split.from_json(file.read_text())
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{file}: is damaged. Delete it and run the same command again: the same split is drawn of the same data."
        ) from None


def read_config(path: Path) -> Config:
    """The configuration that a run folder was made with."""
    file = path / "config.yaml"
    if not file.exists():
        raise InputError(f"{path}: is not a run folder (it has no config.yaml).")
    return configuration.load(file)


def environment() -> dict[str, Any]:
    """What results may depend on beyond the configuration."""
    return {
        "placl": VERSION,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def commit() -> str:
    """The commit that placl runs from, with a + where files differ from it; empty for an installed package."""
    place = Path(__file__).parent
    git = ["git", "-C", str(place)]
    try:
        found = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, timeout=10)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "."], capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip() + ("+" if changed.returncode == 1 else "") if found.returncode == 0 else ""
