"""The file of corrections: what is saved is read back, whoever writes and whatever crashes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dots import DOTS
from hostile import HOSTILE
from placl.data.corrections import FARTHEST, Correction, Corrections
from placl.data.skeleton import Skeleton
from placl.errors import InputError, MachineError

ONE = Correction(
    id="a.jpg#1",
    verdict="accepted",
    keypoints=((1.5, 2.0), (3.0, 4.25), (0.0, 0.0)),
    visibility=(2, 1, 0),
    image="/data/a.jpg",
    box=(0.0, 1.0, 20.0, 30.0),
    reviewer="me",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corrections.jsonl"


def test_what_is_saved_is_read_back(path: Path) -> None:
    written = Corrections(path, DOTS)
    assert not path.exists()  # looking writes nothing
    assert written.save(ONE) is None
    moved = replace(ONE, verdict="rejected", keypoints=((9.0, 9.0),) * 3)
    assert written.save(moved) == ONE
    other = replace(ONE, id="b.jpg#2", box=None)
    written.save(other)
    read = Corrections(path)
    assert read.skeleton == DOTS
    assert read.latest == written.latest == {ONE.id: moved, other.id: other}
    assert read.revisions == {ONE.id: 2, other.id: 1}


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [HOSTILE, "x" * 200, "日 '\"\n"]
)
places = st.tuples(*[st.floats(-FARTHEST, FARTHEST)] * 2)


@settings(max_examples=25, deadline=None)  # a disk may take its time
@given(names, st.lists(places, min_size=3, max_size=3), st.lists(st.sampled_from([0, 1, 2]), min_size=3, max_size=3))
def test_any_name_and_place_survives(
    tmp_path_factory: pytest.TempPathFactory, name: str, keypoints: list[tuple[float, float]], visibility: list[int]
) -> None:
    file = tmp_path_factory.mktemp("any") / "c.jsonl"
    one = replace(ONE, id=name, keypoints=tuple(keypoints), visibility=tuple(visibility))
    Corrections(file, DOTS).save(one)
    assert Corrections(file).latest == {name: one}


def test_a_torn_line_costs_nothing_that_was_kept(path: Path) -> None:
    Corrections(path, DOTS).save(ONE)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[1][:40])  # the machine stopped in the middle of a save
    found = Corrections(path, DOTS)
    assert (found.latest, found.damaged) == ({ONE.id: ONE}, 0)
    other = replace(ONE, id="b.jpg#2")
    found.save(other)
    again = Corrections(path)
    assert again.latest == {ONE.id: ONE, other.id: other}
    assert again.damaged == 1


def test_an_empty_file_is_a_new_one(path: Path) -> None:
    path.touch()
    Corrections(path, DOTS).save(ONE)
    assert Corrections(path).latest == {ONE.id: ONE}


def test_two_processes_see_each_other(path: Path) -> None:
    first, second = Corrections(path, DOTS), Corrections(path, DOTS)
    first.save(ONE)
    theirs = replace(ONE, verdict="rejected", reviewer="you")
    assert second.save(theirs) == ONE
    first.refresh()
    assert first.latest == {ONE.id: theirs}
    assert first.revisions[ONE.id] == 2


def test_a_file_that_is_moved_away_while_it_is_in_use(path: Path) -> None:
    found = Corrections(path, DOTS)
    found.save(ONE)
    path.rename(path.with_name("old.jsonl"))
    other = replace(ONE, id="b.jpg#2")
    assert found.save(other) is None
    assert found.latest == Corrections(path).latest == {other.id: other}
    assert Corrections(path.with_name("old.jsonl")).latest == {ONE.id: ONE}


@pytest.mark.parametrize(
    "change",
    [{"keypoints": [[float("nan"), 1]] * 3}, {"keypoints": [[1, 2]]}, {"visibility": [2, 2, 3]}, {"box": [0, 0, 0, 9]}],
)
def test_lines_that_make_no_sense_are_counted_and_not_used(path: Path, change: dict[str, object]) -> None:
    Corrections(path, DOTS).save(ONE)
    content = json.loads(path.read_text().splitlines()[1])
    with open(path, "a") as file:
        file.write(json.dumps(content | {"id": "bad"} | change) + "\n")
    found = Corrections(path)
    assert (set(found.latest), found.damaged) == ({ONE.id}, 1)
    assert found.summary == "1 instances accepted, 0 rejected, 1 lines damaged and not used"


def test_the_summary_counts_what_is_used_for_what(path: Path) -> None:
    found = Corrections(path, DOTS)
    for n, verdict in enumerate(["accepted", "rejected", "open"]):
        found.save(replace(ONE, id=str(n), verdict=verdict))
    found.save(replace(ONE, id="empty", visibility=(0, 0, 0)))
    assert found.summary == "1 instances accepted, 1 rejected, 2 not decided and not used"


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"kind": "other"}', "\x00", '{"kind": "placl corrections"}', "[" * 9999]
)
def test_another_file_is_refused(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(InputError, match="is no file of corrections of this version"):
        Corrections(path)


def test_other_keypoints_are_refused(path: Path) -> None:
    Corrections(path, DOTS).save(ONE)
    with pytest.raises(InputError, match=r"has corrections of other keypoints\. Move it away"):
        Corrections(path, Skeleton(("nose",)))
    with pytest.raises(InputError, match=r"a.jpg#1: has 1 keypoints, expected 3"):
        Corrections(path).save(replace(ONE, keypoints=((1.0, 1.0),), visibility=(2,)))


def test_a_file_that_is_not_there(path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist\. placl ui RUN --review writes"):
        Corrections(path)


def test_a_disk_that_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Corrections(path, DOTS)
    found.save(ONE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("placl.data.corrections.os.fsync", full)
    with pytest.raises(MachineError, match="no space left on the disk"):
        found.save(replace(ONE, id="b"))
