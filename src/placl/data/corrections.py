"""What people said of instances: an append-only file, a line a save. The last line of an instance holds.

A line has everything about its instance, so that the file serves as labels by itself
(:mod:`placl.data.formats.corrected`) or over the data of a training (:mod:`placl.data.correcting`).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.files import disk_errors

KIND = "placl corrections"  # what the first line says that the file is
Verdict = Literal["accepted", "rejected", "open"]  # open: moved and not decided


@dataclass(frozen=True)
class Correction:
    """Where a person says that the keypoints of an instance are, in image pixels."""

    id: str  # the instance's, as a run's split.json has it
    verdict: Verdict
    keypoints: tuple[tuple[float, float], ...]
    visibility: tuple[Literal[0, 1, 2], ...]  # 0: not labelled, 1: occluded, 2: visible
    image: str
    box: tuple[float, float, float, float] | None  # None: the whole image
    reviewer: str = ""
    revision: int = 1  # the how manieth save of this instance

    def __post_init__(self) -> None:
        if len(self.keypoints) != len(self.visibility):
            raise ValueError("as many keypoints as visibilities")


_CORRECTION = TypeAdapter(Correction)


class Corrections:
    """The file, and what it says now. Several people may write to it, also from several processes."""

    def __init__(self, path: Path, skeleton: Skeleton | None = None) -> None:
        """With a ``skeleton`` the file may be new; one that is there must have its keypoints."""
        self.path = path
        self.latest: dict[str, Correction] = {}
        self._size = 0  # bytes that have been read
        if path.exists():
            self.skeleton = self._head()
            if skeleton is not None and skeleton.keypoints != self.skeleton.keypoints:
                raise InputError(f"{path}: has corrections of other keypoints. Move it away to begin anew.")
            self.refresh()
        elif skeleton is None:
            raise InputError(f"{path}: does not exist. placl ui RUN --review writes RUN/corrections.jsonl.")
        else:
            self.skeleton = skeleton

    def save(self, new: Correction) -> tuple[Correction, Correction | None]:
        """Keep it, whatever was there before; returns it with its number, and what it replaces."""
        if len(new.keypoints) != len(self.skeleton):
            raise InputError(f"{new.id}: has {len(new.keypoints)} keypoints, expected {len(self.skeleton)}.")
        self.refresh()
        old = self.latest.get(new.id)
        new = replace(new, revision=old.revision + 1 if old else 1)
        with disk_errors(self.path), open(self.path, "ab") as file:
            if file.tell() == 0:
                file.write(_line({"kind": KIND, "version": 1, **asdict(self.skeleton)}))
            elif not self._ends_whole():
                file.write(b"\n")  # a crash tore the last line
            file.write(_line(asdict(new)))
            file.flush()
            os.fsync(file.fileno())
        self.latest[new.id] = new
        return new, old

    def refresh(self) -> None:
        """Take in what others have written."""
        content = self._content() if self.path.exists() and self.path.stat().st_size != self._size else b""
        for line in content.splitlines()[1:]:
            try:
                found = _CORRECTION.validate_json(line)
            except ValidationError:
                continue  # torn by a crash before it was kept
            if len(found.keypoints) == len(self.skeleton):
                self.latest[found.id] = found
        self._size = len(content) or self._size

    def _head(self) -> Skeleton:
        try:
            told: Any = json.loads(self._content().split(b"\n", 1)[0])
            if told["kind"] != KIND:
                raise ValueError("something else")
            pairs = {key: tuple((int(a), int(b)) for a, b in told[key]) for key in ("edges", "flip_pairs")}
            return Skeleton(tuple(map(str, told["keypoints"])), **pairs, sigmas=tuple(map(float, told["sigmas"])))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{self.path}: is no file of corrections (its first line says what it is).") from error

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror}).") from error

    def _ends_whole(self) -> bool:
        with open(self.path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode() + b"\n"
