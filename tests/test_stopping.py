"""Signals: a first one waits for units that are running, a second one does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from placl import stopping


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_between_units_it_ends_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), stopping.heeding():
        send(signal.SIGTERM)
    assert stopping.exit_code() == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_unit_is_finished(number: signal.Signals, code: int, capfd: pytest.CaptureFixture[str]) -> None:
    with stopping.heeding():
        with stopping.finishing():
            send(number)
            assert stopping.asked()
        with pytest.raises(stopping.Stopped):
            stopping.check()
        assert not stopping.asked()
    assert stopping.exit_code() == code
    assert "Once more stops at once" in capfd.readouterr().err


def test_a_second_signal_does_not_wait() -> None:
    with stopping.heeding(), stopping.finishing():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_processes_that_do_not_hear_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGINT)
    told = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    with stopping.unheard():
        child = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert child.stdout == "True\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_afterwards_signals_are_what_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopping.heeding(), stopping.finishing():
        send(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not stopping.asked()
    stopping.check()
