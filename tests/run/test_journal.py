"""The journal: what was added is there again, and a line torn by a crash costs no more than itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placl.run.journal import Journal, key_of


def filled(path: Path, count: int = 3) -> Journal:
    journal = Journal(path)
    for i in range(count):
        journal.add(f"key{i}", "candidate", reward=0.1 * i)
    return journal


def result_of(journal: Journal, key: str) -> dict[str, object]:
    """A unit without the times of its session."""
    unit = journal.get(key)
    assert unit is not None
    return {name: value for name, value in unit.items() if name not in ("session", "elapsed")}


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    filled(tmp_path / "j.jsonl")
    again = Journal(tmp_path / "j.jsonl")
    assert result_of(again, "key2") == {"key": "key2", "kind": "candidate", "reward": 0.2}
    assert again.get("key3") is None
    assert len((tmp_path / "j.jsonl").read_text().splitlines()) == 3


def test_floats_come_back_to_the_bit(tmp_path: Path) -> None:
    Journal(tmp_path / "j.jsonl").add("k", "candidate", reward=1 / 3, lost=float("nan"))
    found = Journal(tmp_path / "j.jsonl").get("k")
    assert found is not None
    assert found["reward"] == 1 / 3
    assert found["lost"] != found["lost"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(cut=st.integers(1, 60))
def test_a_torn_last_line_is_dropped_and_the_next_stands_by_itself(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "j.jsonl"
    file.unlink(missing_ok=True)
    filled(file)
    whole = file.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    file.write_bytes(whole[: -min(cut, last - 1)])
    torn = Journal(file)
    # Without its line end alone, the line is still whole.
    assert set(torn.units) == ({"key0", "key1", "key2"} if cut == 1 else {"key0", "key1"})
    torn.add("key9", "candidate", reward=9.0)
    again = Journal(file)
    assert set(again.units) == {*torn.units}
    assert result_of(again, "key9") == {"key": "key9", "kind": "candidate", "reward": 9.0}


@pytest.mark.parametrize("rubbish", [b"\x00\x00\x00\n", b"\xff\xfe\n", b"3\n", b'"text"\n', b"{}\n", b"[1]\n", b"\n"])
def test_rubbish_between_lines_is_passed_over(tmp_path: Path, rubbish: bytes) -> None:
    file = tmp_path / "j.jsonl"
    filled(file, 1)
    file.write_bytes(rubbish + file.read_bytes() + rubbish)
    assert set(Journal(file).units) == {"key0"}


def test_a_key_is_a_hash_of_values_whatever_their_order() -> None:
    key = key_of(unit="candidate", thresholds=(0.1, 0.2), seed=3)
    assert key == key_of(seed=3, thresholds=[0.1, 0.2], unit="candidate")
    assert key != key_of(seed=3, thresholds=[0.1, 0.20000000000000004], unit="candidate")
    assert len(key) == 24
    with pytest.raises(ValueError, match="JSON"):
        key_of(seed=float("nan"))


def test_the_time_of_several_sessions_is_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 103.0, 107.0, 500.0, 502.5])
    monkeypatch.setattr("placl.run.journal.time.monotonic", lambda: next(clock))
    first = Journal(tmp_path / "journal.jsonl")
    first.add("a", "candidate")
    first.add("b", "candidate")
    second = Journal(tmp_path / "journal.jsonl")
    second._session = "another"
    second.add("c", "candidate")
    assert second.seconds() == 7.0 + 2.5


def test_a_line_that_was_changed_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    filled(path)
    whole = path.read_bytes()
    for place in range(len(whole)):  # any bit of any byte
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        units = Journal(path).units
        assert len(units) >= 1  # a newline that is lost joins two lines
        assert all(unit["reward"] == 0.1 * int(key[-1]) for key, unit in units.items())


def test_lines_of_older_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"key": "old", "kind": "candidate", "reward": 1.5}\n')
    journal = Journal(path)
    journal.add("new", "candidate", reward=2.5)
    assert {key: unit["reward"] for key, unit in Journal(path).units.items()} == {"old": 1.5, "new": 2.5}


def test_a_line_of_many_brackets_is_dropped(tmp_path: Path) -> None:
    """Found by benchmarks/fuzz.py."""
    (tmp_path / "journal.jsonl").write_text(100_000 * "[" + "\n")
    assert Journal(tmp_path / "journal.jsonl").units == {}
