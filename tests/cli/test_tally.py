"""Elapsed and remaining time of nested levels, on a clock that the test turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.cli.tally import LEVELS, Tally


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tally(clock: Clock) -> Tally:
    return Tally(clock)


def levels(tally: Tally) -> list[str]:
    return [level for level, _ in tally.active()]


def test_epochs_at_a_steady_speed(tally: Tally, clock: Clock) -> None:
    for epoch in range(1, 5):
        clock.now += 3
        tally.update("epoch", epoch, 10, "round_0: loss 0.1")
    assert tally.remaining("epoch") == pytest.approx(18)
    assert tally.elapsed("epoch") == pytest.approx(9)
    clock.now += 2
    assert tally.remaining("epoch") == pytest.approx(16)  # it counts down between two reports
    clock.now += 100
    assert tally.remaining("epoch") == 0


def test_nothing_is_known_at_first(tally: Tally) -> None:
    assert tally.remaining("run") is None
    tally.update("epoch", 1, 10)
    assert tally.remaining("epoch") is None


def test_a_run_is_measured_from_its_first_epoch(tally: Tally, clock: Clock) -> None:
    clock.now += 50  # reading the data
    tally.update("epoch", 1, 5, "round_0")
    clock.now += 20
    tally.update("run", 100, 500)
    assert tally.remaining("run") == pytest.approx(80)
    assert tally.elapsed("run") == pytest.approx(70)


def test_what_the_journal_has_is_no_measure_of_speed(tally: Tally, clock: Clock) -> None:
    for done in (100, 110, 120, 130):  # a run that carries on: three seconds for what took minutes
        clock.now += 1
        tally.update("run", done, 500)
    assert tally.remaining("run") is None
    clock.now += 1
    tally.update("epoch", 1, 2, "candidate 4")
    clock.now += 9
    tally.update("run", 140, 500)
    assert tally.remaining("run") == pytest.approx(360)
    assert tally.elapsed("run") == pytest.approx(13)


def test_steps_from_the_journal_do_not_count_either(tally: Tally, clock: Clock) -> None:
    for step in range(4):
        tally.update("step", step, 8, "round_1")
        tally.update("candidate", 2, 2)
    clock.now += 5
    tally.update("candidate", 0, 2)
    tally.update("epoch", 1, 1, "candidate 1")
    clock.now += 5
    tally.update("candidate", 1, 2)
    # half a step of ten seconds; four and a half are left
    assert tally.remaining("step") == pytest.approx(4.5 * 20)


def test_a_level_that_falls_starts_anew(tally: Tally, clock: Clock) -> None:
    for epoch in (1, 2, 3):
        clock.now += 10
        tally.update("epoch", epoch, 4, "round_0")
    tally.update("epoch", 1, 4, "round_0")
    clock.now += 1
    tally.update("epoch", 2, 4, "round_0")
    assert tally.remaining("epoch") == pytest.approx(2)
    assert tally.elapsed("epoch") == pytest.approx(1)


def test_a_step_knows_of_the_candidates_and_epochs_inside_it(tally: Tally, clock: Clock) -> None:
    tally.update("epoch", 1, 1, "round_0")
    tally.update("step", 0, 4, "round_1")
    tally.update("candidate", 0, 2)
    for epoch in (1, 2):
        clock.now += 5
        tally.update("epoch", epoch, 4, "candidate 1")
    assert tally.reached("candidate") == pytest.approx(0.5)
    assert tally.reached("step") == pytest.approx(0.25)
    assert tally.remaining("candidate") == pytest.approx(30)
    assert tally.remaining("step") == pytest.approx(150)


def test_candidates_side_by_side(tally: Tally, clock: Clock) -> None:
    tally.update("step", 0, 1, "round_1")
    tally.update("candidate", 0, 4)
    for epoch in (1, 2, 3):
        clock.now += 10
        tally.update("epoch", epoch, 4, "candidate 1")
        tally.update("epoch", epoch, 4, "candidate 2")
        assert dict(tally.active())["epoch"].note == "candidate 1"  # the bar does not hop
    assert tally.reached("candidate") == pytest.approx(1.5)
    tally.update("candidate", 1, 4, "reward 50.00")
    tally.update("epoch", 4, 4, "candidate 2")
    assert dict(tally.active())["epoch"].note == "candidate 2"


def test_a_round_takes_the_run_s_estimate_until_it_has_its_own(tally: Tally, clock: Clock) -> None:
    tally.update("epoch", 1, 1, "round_0")
    clock.now += 10
    tally.update("run", 10, 100)
    tally.update("round", 0, 3, "searching")
    assert tally.remaining("round") == tally.remaining("run") == pytest.approx(90)
    clock.now += 20
    tally.update("round", 1, 3, "searching")
    assert tally.remaining("round") == pytest.approx(40)


def test_what_is_over_goes(tally: Tally) -> None:
    tally.update("round", 0, 2, "searching")
    tally.update("label", 5, 10, "pseudo-labels")
    assert levels(tally) == ["round", "label"]
    tally.update("label", 10, 10)
    tally.update("step", 0, 2)
    tally.update("candidate", 0, 2)
    tally.update("epoch", 1, 2, "candidate 1")
    assert levels(tally) == ["round", "step", "candidate", "epoch"]
    tally.update("step", 1, 2)
    assert levels(tally) == ["round", "step"]
    tally.update("round", 0, 2, "training")
    assert levels(tally) == ["round"]
    tally.update("round", 2, 2)
    assert levels(tally) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(LEVELS),
            st.floats(0, 20),
            st.sampled_from([0.0, 1.0, 10.0, 20.0]),
            st.sampled_from(["", "candidate 1", "candidate 2", "round_0: loss 1"]),
            st.floats(0, 100),
        )
    )
)
def test_any_order_of_calls_gives_times_that_make_sense(
    calls: list[tuple[str, float, float, str, float]],
) -> None:
    clock = Clock()
    tally = Tally(clock)
    for level, done, total, note, passed in calls:
        clock.now += passed
        tally.update(level, done, total, note)
        for shown, current in tally.active():
            assert (left := tally.remaining(shown)) is None or left >= 0
            assert tally.elapsed(shown) >= 0
            assert tally.reached(shown) <= max(current.total, current.done)
    assert tally.running() == pytest.approx(sum(call[-1] for call in calls))
