"""What people said of instances: an append-only file, a line a save. The last line of an instance holds.

A line has everything about its instance, so that the file serves as labels by itself
(:mod:`placl.data.formats.corrected`) or over the data of a training (:mod:`placl.data.correcting`).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from placl.data.skeleton import Skeleton
from placl.errors import InputError, MachineError
from placl.files import disk_errors

KIND = "placl corrections"  # what the first line says that the file is
VERSION = 1
FARTHEST = 1e7  # image pixels that a keypoint may lie from the corner
Place = Annotated[float, Field(ge=-FARTHEST, le=FARTHEST, allow_inf_nan=False)]
Side = Annotated[float, Field(gt=0, le=FARTHEST, allow_inf_nan=False)]
Verdict = Literal["accepted", "rejected", "open"]  # open: changed and not decided
Visibility = Literal[0, 1, 2]  # not labelled, occluded, visible


@dataclass(frozen=True)
class Correction:
    """Where a person says that the keypoints of an instance are, in image pixels."""

    id: str  # the instance's, as a run's split.json has it
    verdict: Verdict
    keypoints: tuple[tuple[Place, Place], ...]
    visibility: tuple[Visibility, ...]
    image: str
    box: tuple[Place, Place, Side, Side] | None  # None: the whole image
    reviewer: str = ""

    @property
    def is_label(self) -> bool:
        return self.verdict == "accepted" and any(self.visibility)


_CORRECTION = TypeAdapter(Correction)


class Corrections:
    """The file, and what it says now. Several people may write to it, also from several processes."""

    def __init__(self, path: Path, skeleton: Skeleton | None = None) -> None:
        """With a ``skeleton`` the file may be new; one that is there must have its keypoints."""
        self.path = path
        self.latest: dict[str, Correction] = {}
        self.revisions: Counter[str] = Counter()  # how often each instance has been saved
        self.damaged = 0  # lines that cannot be read: a crash tore them, or a person edited them
        self._read = 0  # bytes that have been taken in
        if path.exists() and (skeleton is None or path.stat().st_size):
            self.skeleton = _skeleton_of(path)
            if skeleton is not None and skeleton.keypoints != self.skeleton.keypoints:
                raise InputError(f"{path}: has corrections of other keypoints. Move it away to begin anew.")
            self.refresh()
        elif skeleton is None:
            raise InputError(f"{path}: does not exist. placl ui RUN --review writes RUN/corrections.jsonl.")
        else:
            self.skeleton = skeleton

    @property
    def summary(self) -> str:
        """How many are used for what."""
        everyone = self.latest.values()
        accepted = sum(one.is_label for one in everyone)
        rejected = sum(one.verdict == "rejected" for one in everyone)
        text = f"{accepted} instances accepted, {rejected} rejected"
        if undecided := len(everyone) - accepted - rejected:
            text += f", {undecided} not decided and not used"
        if self.damaged:
            text += f", {self.damaged} lines damaged and not used"
        return text

    def save(self, new: Correction) -> Correction | None:
        """Keep it, whatever was there before; returns what it replaces."""
        if not len(new.keypoints) == len(new.visibility) == len(self.skeleton):
            raise InputError(f"{new.id}: has {len(new.keypoints)} keypoints, expected {len(self.skeleton)}.")
        self.refresh()
        old = self.latest.get(new.id)
        with disk_errors(self.path), open(self.path, "ab", buffering=0) as file:
            head = [] if file.tell() else [{"kind": KIND, "version": VERSION, **asdict(self.skeleton)}]
            lines = b"".join(json.dumps(line, allow_nan=False).encode() + b"\n" for line in [*head, asdict(new)])
            content = b"\n" * (file.tell() > self._read) + lines  # what has no end was torn by a crash
            # One write, which the system does not mix with those of other processes.
            if file.write(content) != len(content):
                raise MachineError(f"{self.path}: was not written as a whole. Is there room on the disk?")
            os.fsync(file.fileno())
        self.refresh()
        return old

    def refresh(self) -> None:
        """Take in what has been written since; a line that has no end yet is left for later."""
        content = _content(self.path, self._read)
        if content is None:  # moved away, or begun anew
            self.latest, self.revisions, self.damaged, self._read = {}, Counter(), 0, 0
            content = _content(self.path, 0) or b""
        content = content[: content.rfind(b"\n") + 1]
        for line in filter(bytes.strip, content.split(b"\n")):
            self._take(line)
        self._read += len(content)

    def _take(self, line: bytes) -> None:
        try:
            found = _CORRECTION.validate_json(line)
        except ValidationError:
            self.damaged += KIND.encode() not in line
            return
        if not len(found.keypoints) == len(found.visibility) == len(self.skeleton):
            self.damaged += 1
            return
        self.latest[found.id] = found
        self.revisions[found.id] += 1


def _content(path: Path, start: int) -> bytes | None:
    """What a file holds from a place on; None if it ends before."""
    try:
        if not path.exists() or path.stat().st_size < start:
            return None if start else b""
        with open(path, "rb") as file:
            file.seek(start)
            return file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error


def _skeleton_of(path: Path) -> Skeleton:
    """The keypoints that the first line names."""
    try:
        told: Any = json.loads((_content(path, 0) or b"").split(b"\n", 1)[0])
        if (told["kind"], told["version"]) != (KIND, VERSION):
            raise ValueError("something else")
        pairs = {key: tuple((int(a), int(b)) for a, b in told[key]) for key in ("edges", "flip_pairs")}
        return Skeleton(tuple(map(str, told["keypoints"])), **pairs, sigmas=tuple(map(float, told["sigmas"])))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path}: is no file of corrections of this version (its first line says what it is)."
        ) from error
