"""One process at a time in a run folder, and none that is dead."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from placl.errors import MachineError
from placl.run.lock import locked


def test_the_second_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(MachineError) as caught, locked(tmp_path):
        pytest.fail("two at once")
    assert str(caught.value).startswith(f"{tmp_path}: process {os.getpid()} on ")
    assert "name another folder with --out" in str(caught.value)
    with locked(tmp_path):  # afterwards it is free
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        with locked(tmp_path):
            (tmp_path / "config.yaml").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert (tmp_path / ".owner").exists()  # which says so, but is not asked
    with locked(tmp_path):
        assert (tmp_path / ".owner").read_text().startswith(f"process {os.getpid()} on ")


def test_a_folder_that_nothing_came_into_is_taken_away(tmp_path: Path) -> None:
    with locked(tmp_path / "runs" / "new"):
        pass
    assert not (tmp_path / "runs" / "new").exists()


def test_what_killed_processes_had_begun_to_write_goes(tmp_path: Path) -> None:
    left, kept = tmp_path / "round_0" / ".model.safetensors.12.part", tmp_path / "round_0" / "metrics.json"
    left.parent.mkdir()
    left.touch()
    kept.touch()
    with locked(tmp_path):
        assert not left.exists()
        assert kept.exists()


def test_a_full_disk_is_said_to_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(MachineError, match="no space left on the disk"), locked(tmp_path):
        pass


def test_a_disk_without_locks_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(*_: object, **__: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("placl.run.lock.FileLock.acquire", none)
    with locked(tmp_path):
        (tmp_path / "config.yaml").touch()
    assert "has no locks" in caplog.text


def test_folders_that_were_made_for_nothing_are_taken_away(tmp_path: Path) -> None:
    with locked(tmp_path / "runs" / "mine"):
        assert (tmp_path / "runs" / "mine").is_dir()
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_something_has_come_into_stays(tmp_path: Path) -> None:
    with locked(tmp_path / "runs" / "mine"):
        (tmp_path / "runs" / "other").mkdir()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]
