"""The file of crops: when it is brought to the disk, and who hears of it when that fails."""

import errno
import os
import threading
from pathlib import Path

import pytest

from placl.data import crop_file
from placl.data.crop_file import Syncing, reserve

SHAPE = (10, 8, 8, 3)


def syncs(monkeypatch: pytest.MonkeyPatch, failing: int = -1) -> list[str]:
    """A list that grows with each fsync by the kind of thread that asked; one of them fails."""
    asked: list[str] = []

    def fsync(_: int) -> None:
        asked.append("main" if threading.current_thread() is threading.main_thread() else "aside")
        if len(asked) - 1 == failing:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    return asked


def test_a_large_file_is_synced_while_it_is_written_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = syncs(monkeypatch)
    monkeypatch.setattr(crop_file, "WORTH_SYNCING", 1)
    target = reserve(tmp_path / "crops.npy", SHAPE)
    with Syncing(target.file) as syncing:
        for done in range(1, 11):
            syncing.tell(done / 10)
        syncing.finish()
    assert asked == ["aside"] * 3 + ["main"]


def test_a_small_file_is_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = syncs(monkeypatch)
    target = reserve(tmp_path / "crops.npy", SHAPE)
    with Syncing(target.file) as syncing:
        syncing.tell(0.9)
        syncing.finish()
    assert asked == ["main"]


@pytest.mark.parametrize("failing", [0, 2, 3])
def test_a_failure_that_only_one_sync_hears_of_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    syncs(monkeypatch, failing)
    monkeypatch.setattr(crop_file, "WORTH_SYNCING", 1)
    target = reserve(tmp_path / "crops.npy", SHAPE)
    with Syncing(target.file) as syncing:
        for share in (0.5, 0.8, 0.9, 1.0):
            syncing.tell(share)
        with pytest.raises(OSError, match="Input/output error"):
            syncing.finish()
