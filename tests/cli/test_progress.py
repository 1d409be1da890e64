"""Lines and bars for a person, on a clock that the test turns."""

import io

import pytest
from rich.console import Console

from placl.cli import progress
from placl.cli.progress import LineWatch, LiveWatch, QuietWatch, clock_time, open_watch, progress_line
from placl.cli.tally import Tally


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_times() -> None:
    assert clock_time(0) == "00:00:00"
    assert clock_time(3723.4) == "01:02:03"
    assert clock_time(100 * 3600) == "100:00:00"


def test_one_line_tells_all_levels() -> None:
    clock = Clock()
    tally = Tally(clock)
    clock.now = 2
    tally.update("epoch", 20, 20, "round_0")
    clock.now = 92
    tally.update("run", 100, 900)
    tally.update("round", 0, 3, "searching")
    tally.update("step", 3, 8, "round_1: reward 60.00")
    tally.update("candidate", 4, 8, "reward 61.20")
    tally.update("epoch", 3, 20, "candidate 5")
    clock.now = 112
    tally.update("epoch", 13, 20, "candidate 5")
    clock.now = 118
    # 800 of the run at 100 in 90 s, 26 s ago; 4.42 steps at 0.58, 3.35 candidates at 0.65 and 7 epochs at 10 in 20 s
    assert progress_line(tally) == (
        "[00:01:58, 00:11:34 left] round 1/3 searching (00:11:34 left), step 4/8 (00:02:26 left), "
        "candidate 5/8 (00:01:37 left), epoch 13/20 (00:00:08 left): reward 61.20"
    )


def test_a_full_training_says_its_name_and_loss() -> None:
    tally = Tally(Clock())
    tally.update("epoch", 3, 20, "round_0")
    assert progress_line(tally) == "[00:00:00] round_0 epoch 3/20"


def test_cropping_and_labelling() -> None:
    tally = Tally(Clock())
    tally.update("images", 16, 60, "cropping")
    assert progress_line(tally) == "[00:00:00] images 16/60 cropping"


def test_a_study_says_how_many_runs_are_done() -> None:
    tally = Tally(Clock())
    tally.update("run", 2.4, 72, "2 of 72 runs")
    assert progress_line(tally) == "[00:00:00] 2 of 72 runs"


def test_lines_come_every_ten_seconds_and_whenever_something_is_said() -> None:
    clock, stream = Clock(), io.StringIO()
    with LineWatch(stream, clock) as watch:
        for second in range(1, 26):
            clock.now = second
            watch.progress("epoch", second, 30, "round_0, full")
        watch.say("round_0: PCK@0.1 val 50.00 [100 s]")
    assert stream.getvalue().splitlines() == [
        "[00:00:10] round_0, full epoch 10/30 (00:00:20 left)",
        "[00:00:20] round_0, full epoch 20/30 (00:00:10 left)",
        "round_0: PCK@0.1 val 50.00 [100 s]",
    ]


def test_bars_of_all_levels() -> None:
    clock = Clock()
    watch = LiveWatch(Console(file=io.StringIO()), clock)
    watch.progress("run", 10, 100)
    watch.progress("round", 0, 3, "searching")
    watch.progress("candidate", 1, 8, "reward 50.00 [b]")
    watch.progress("epoch", 5, 20, "candidate 2")
    clock.now = 10
    watch.progress("epoch", 10, 20, "candidate 2")
    screen = io.StringIO()
    Console(file=screen, width=120).print(watch.table())
    run, rounds, candidate, epoch = screen.getvalue().splitlines()
    assert run.startswith("run 10 % ")
    assert "--:--:-- left" in run
    assert rounds.startswith("round 1/3 ")
    assert "reward 50.00 [b]" in candidate
    assert epoch.startswith("epoch 10/20 ")
    assert "00:00:10 00:00:20 left candidate 2" in epoch


def test_what_is_said_stays_and_the_bars_go() -> None:
    screen = io.StringIO()
    with LiveWatch(Console(file=screen, force_terminal=True, width=60)) as watch:
        watch.progress("epoch", 1, 2, "round_0")
        watch.say("a [result] that is rather long " + "x" * 60)
    text = screen.getvalue()
    assert "a [result] that is rather long " + "x" * 60 in text
    assert text.endswith("\x1b[2K")  # the last thing drawn is the erasure of the bar


def test_nothing_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with open_watch(quiet=True) as watch:
        watch.say("a warning")
        watch.progress("epoch", 1, 2)
    assert type(watch) is QuietWatch
    assert capsys.readouterr() == ("", "")


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with open_watch() as watch:
        watch.say("hello")
    assert type(watch) is LineWatch
    assert capsys.readouterr() == ("", "hello\n")


def test_bars_on_a_terminal_that_can_draw_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal then
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(progress.open_watch(), LiveWatch)
    monkeypatch.setenv("TERM", "dumb")
    assert type(progress.open_watch()) is LineWatch
