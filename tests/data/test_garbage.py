"""The collector of garbage while datasets are read."""

from __future__ import annotations

import gc

import pytest

from placl.data.garbage import collecting_later


def test_it_is_off_inside_and_on_again_after() -> None:
    with collecting_later():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_on_again_after_an_error() -> None:
    @collecting_later()
    def fails() -> None:
        assert not gc.isenabled()
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert gc.isenabled()


def test_it_stays_off_where_somebody_else_has_switched_it_off() -> None:
    gc.disable()
    try:
        with collecting_later():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
