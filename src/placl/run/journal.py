"""The journal of finished units: append-only, a line each, keyed by a hash of the unit's inputs, with a checksum.

Resuming is running the same program again: a unit whose key is here is not run but read.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

from placl.files import disk_errors

CHECKED = b'{"check": "'


def key_of(**inputs: Any) -> str:
    """A hash of a unit's inputs; they must be plain values."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, allow_nan=False).encode()).hexdigest()[:24]


def _line(unit: dict[str, Any]) -> bytes:
    content = json.dumps(unit).encode()
    return CHECKED + b'%08x", ' % zlib.crc32(content) + content[1:] + b"\n"


def _unit(line: bytes) -> dict[str, Any]:
    """What a line says; ValueError where it is not what was written. Lines of older versions have no checksum."""
    line = line.rstrip(b"\r\n")
    if line.startswith(CHECKED):
        place = len(CHECKED)
        check, line = line[place : place + 8], b"{" + line[place + 11 :]
        if check != b"%08x" % zlib.crc32(line):
            raise ValueError("damaged")
    elif not line.startswith(b'{"key": '):
        raise ValueError("damaged")
    unit: dict[str, Any] = json.loads(line)
    return unit


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
                unit = _unit(line)
                self.units[unit["key"]] = unit
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # torn by a crash, or damaged: the unit is run again
        if content and not content.endswith(b"\n"):
            with (
                disk_errors(self.path),
                open(self.path, "ab") as file,
            ):  # close the torn line, so that the next one stands by itself
                file.write(b"\n")

    def get(self, key: str) -> dict[str, Any] | None:
        return self.units.get(key)

    def add(self, key: str, kind: str, **result: Any) -> None:
        """Note a finished unit, and how far into this session that was."""
        elapsed = round(time.monotonic() - self._begun, 3)
        unit = {"key": key, "kind": kind, **result, "session": self._session, "elapsed": elapsed}
        with disk_errors(self.path), open(self.path, "ab") as file:
            file.write(_line(unit))
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
