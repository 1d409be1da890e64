"""Files that are whole or not there, and what is said when the disk is full."""

from __future__ import annotations

import csv
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from placl.errors import MachineError
from placl.files import link_or_copy, plain, replacing, write_atomic, write_csv, write_pieces


def test_text_and_bytes_are_written_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er" / "note.txt"
    write_atomic(file, "één")
    assert file.read_text(encoding="utf-8") == "één"
    write_atomic(file, b"\x00\x01")
    assert file.read_bytes() == b"\x00\x01"
    assert os.listdir(file.parent) == ["note.txt"]


def test_pieces_become_one_file(tmp_path: Path) -> None:
    write_pieces(tmp_path / "note.txt", (piece for piece in ("é", b"n", "")))
    assert (tmp_path / "note.txt").read_text(encoding="utf-8") == "én"


def test_another_library_writes_beside_the_place(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "clip.mp4"
    with replacing(file, ".mp4") as part:
        assert (part.parent, part.suffix) == (file.parent, ".mp4")
        part.write_text("new")
        assert not file.exists()
    assert file.read_text() == "new"
    assert os.listdir(file.parent) == ["clip.mp4"]


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_names_as_long_as_the_disk_allows(tmp_path: Path, name: str) -> None:
    write_atomic(tmp_path / name, "text")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_what_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    file = tmp_path / "note.txt"
    write_atomic(file, "old")

    def fail(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(file, "new")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["note.txt"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, r"note\.txt: no space left on the disk\. Free some and run the same command again\."),
        (errno.EDQUOT, r"note\.txt: no space left on the disk"),
        (errno.EROFS, r"note\.txt: cannot be written \(Read-only file system\)\."),
        (errno.EACCES, r"note\.txt: cannot be written \(Permission denied\)\."),
        (errno.ENAMETOOLONG, r"note\.txt: cannot be written \(File name too long\)\."),
    ],
)
def test_a_full_or_closed_disk_is_the_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(MachineError, match=message):
        write_atomic(tmp_path / "note.txt", "new")
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"file/note\.txt: cannot be written"):
        write_atomic(tmp_path / "file" / "note.txt", "new")


def test_other_errors_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loop(*arguments: object) -> None:
        raise OSError(errno.ELOOP, "Too many levels of symbolic links")

    monkeypatch.setattr("os.replace", loop)
    with pytest.raises(OSError, match="symbolic links"):
        write_atomic(tmp_path / "note.txt", "new")
    assert list(tmp_path.iterdir()) == []


def test_rows_of_several_kinds_share_a_table(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [{"a": 1, "b": None}, {"a": 0.1, "c": "x,y"}])
    assert (tmp_path / "t.csv").read_text() == 'a,b,c\n1,,\n0.1,,"x,y"\n'
    with open(tmp_path / "t.csv", newline="") as file:
        assert list(csv.DictReader(file))[1] == {"a": "0.1", "b": "", "c": "x,y"}


@pytest.mark.parametrize("links", [True, False])
def test_another_name_or_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    file, target = tmp_path / "a.txt", tmp_path / "deep" / "b.txt"
    file.write_text("new")
    target.parent.mkdir()
    target.write_text("old")
    for _ in range(2):
        link_or_copy(file, target)
        assert target.read_text() == "new"
        assert target.samefile(file) == links
    assert os.listdir(target.parent) == ["b.txt"]


def test_plain_values() -> None:
    assert plain({1: float("inf"), "a": (1, None, Path("x"))}) == {"1": None, "a": [1, None, "x"]}
