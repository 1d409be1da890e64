"""Work that this process shares with helpers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placl.data import crew
from placl.data.crew import Crew
from placl.errors import InputError

WORK = r"""
import os
import time

from placl.errors import InputError

def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()

def slow_square(number: int) -> tuple[int, int]:
    time.sleep(0.02)
    return square(number)

def die_elsewhere(home: int, number: int) -> int:
    if os.getpid() != home:
        os._exit(1)
    time.sleep(0.02)
    return number

def fail_elsewhere(home: int, number: int) -> int:
    if os.getpid() != home:
        raise InputError(f"part {number}: is wrong.")
    time.sleep(0.02)
    return number

class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__("it cannot be unpickled")

def fail_awkwardly(home, number):
    if os.getpid() != home:
        raise Awkward(1, 2)
    time.sleep(0.02)
    return number

def chatter(number: int) -> int:
    os.write(1, b"a library says something\n")
    time.sleep(0.02)
    return number
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Functions that a helper can import."""
    (tmp_path / "work_for_crew.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("work_for_crew")
    del sys.modules["work_for_crew"]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 70])
def test_every_part_is_answered_once(work: Any, workers: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "WORTH_HELP", 0.0)
    answers = sorted(value for value, _ in Crew(workers).share(range(count), work.square))
    assert answers == [number * number for number in range(count)]


def test_helpers_do_their_share(work: Any) -> None:
    processes = [process for _, process in Crew(3).share(range(100), work.slow_square)]
    assert len(set(processes)) == 3
    assert os.getpid() in processes


def test_helpers_hired_before_the_work_is_known_do_it_and_go(work: Any) -> None:
    with Crew(2) as early:
        early.hire(knowing="json")
        time.sleep(1)  # they are there when the first of little work comes
        answers = list(early.share(range(50), work.slow_square))
        assert sorted(value for value, _ in answers) == [number**2 for number in range(50)]
        (helper,) = {process for _, process in answers} - {os.getpid()}
    with pytest.raises(ProcessLookupError):
        os.kill(helper, 0)


def test_helpers_without_work_are_sent_home() -> None:
    with Crew(2) as idle:
        idle.hire()
        (process,) = (helper._process for helper in idle._helpers)
    assert process.returncode is not None


def test_a_little_work_is_done_here(work: Any) -> None:
    assert {process for _, process in Crew(8).share(range(100), work.square)} == {os.getpid()}


def test_the_work_of_helpers_that_die_is_taken_back(work: Any) -> None:
    assert sorted(Crew(3).share(range(60), partial(work.die_elsewhere, os.getpid()))) == list(range(60))


def test_helpers_that_cannot_start_are_not_missed(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert sorted(value for value, _ in Crew(3).share(range(40), work.slow_square)) == [
        number**2 for number in range(40)
    ]


def test_what_fails_in_a_helper_is_raised_here(work: Any) -> None:
    with pytest.raises(InputError, match=r"part \d+: is wrong\."):
        list(Crew(2).share(range(200), partial(work.fail_elsewhere, os.getpid())))


def test_an_answer_that_cannot_be_understood_is_worked_out_here(work: Any) -> None:
    assert sorted(Crew(2).share(range(60), partial(work.fail_awkwardly, os.getpid()))) == list(range(60))


def test_what_a_helper_prints_does_not_come_between(work: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert sorted(Crew(2).share(range(60), work.chatter)) == list(range(60))


def test_no_helper_outlives_work_that_is_given_up(work: Any) -> None:
    parts = Crew(3).share(range(1000), work.slow_square)
    seen = {next(parts)[1] for _ in range(120)}
    parts.close()
    for process in seen - {os.getpid()}:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import math, time\n"
        "from placl.data import crew\n"
        "crew.WORTH_HELP = 0.0\n"
        "print(sum(crew.Crew(2).share(range(2, 50), math.factorial)) > 0)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert done.stderr == ""
