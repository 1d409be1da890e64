"""The journal of finished units: append-only, a line each, keyed by a hash of the unit's inputs.

Resuming is running the same program again: a unit whose key is here is not run but read.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from placl.files import disk_errors


def key_of(**inputs: Any) -> str:
    """A hash of a unit's inputs; they must be plain values."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, allow_nan=False).encode()).hexdigest()[:24]


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.units: dict[str, dict[str, Any]] = {}
        self._begun = time.monotonic()
        self._session = f"{time.time():.3f}-{os.getpid()}"
        if path.exists():
            self._read()

    def _read(self) -> None:
        content = self.path.read_bytes()
        for line in content.splitlines(keepends=True):
            try:
                unit = json.loads(line)
                self.units[unit["key"]] = unit
            except (ValueError, TypeError, KeyError):
                continue  # torn by a crash: the unit is run again
        if content and not content.endswith(b"\n"):
            with open(self.path, "ab") as file:  # close the torn line, so that the next one stands by itself
                file.write(b"\n")

    def get(self, key: str) -> dict[str, Any] | None:
        return self.units.get(key)

    def add(self, key: str, kind: str, **result: Any) -> None:
        """Note a finished unit, and how far into this session that was."""
        elapsed = round(time.monotonic() - self._begun, 3)
        unit = {"key": key, "kind": kind, **result, "session": self._session, "elapsed": elapsed}
        line = json.dumps(unit) + "\n"
        with disk_errors(self.path), open(self.path, "ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self.units[key] = unit

    def seconds(self) -> float:
        """The time that all sessions took, each until its last finished unit."""
        sessions: dict[str, float] = {}
        for unit in self.units.values():
            session = str(unit.get("session"))
            sessions[session] = max(sessions.get(session, 0.0), float(unit.get("elapsed", 0.0)))
        return sum(sessions.values())
