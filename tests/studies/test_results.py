"""Which settings make another run of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placl.config import Config
from placl.studies.results import settings_key

MakeConfig = Callable[[dict[str, Any]], Config]
SEARCH = {"search.steps": 9, "proxy.steps_per_epoch": 1, "search.lr": 0.7, "search.pick": "best"}
ROUNDS = {"rounds.count": 5, "rounds.cross_training": False, "rounds.finish": "last"}


def differs(tiny: MakeConfig, row: dict[str, Any], change: dict[str, Any]) -> bool:
    return settings_key(tiny(row)) != settings_key(tiny({**row, **change}))


@pytest.mark.parametrize("method", ["supervised", "pl", "cl", "elt", "posecons", "mean_teacher"])
def test_rivals_do_not_read_the_search(tiny: MakeConfig, method: str) -> None:
    row = {"method": method}
    assert not differs(tiny, row, {**SEARCH, **ROUNDS, "search.initial": 0.1, "search.rise": 0.5})
    for change in ({"train.lr": 0.1}, {"select.scale": "raw"}, {"rounds.keep": "best"}, {"data.split_seed": 5}):
        assert differs(tiny, row, change)


def test_placl_reads_it_all(tiny: MakeConfig) -> None:
    for key, value in {**SEARCH, **ROUNDS, "search.initial": 0.1}.items():
        assert differs(tiny, {"method": "placl"}, {key: value}), key


@pytest.mark.parametrize("method", ["placl", "pl"])
def test_without_a_search_its_start_is_read(tiny: MakeConfig, method: str) -> None:
    row = {"method": method, "search.searcher": "constant"}
    assert not differs(tiny, row, SEARCH)
    for key, value in {"search.initial": 0.1, "search.rise": 0.5}.items():
        assert differs(tiny, row, {key: value})
    assert differs(tiny, row, ROUNDS) == (method == "placl")


def test_rows_of_different_methods_differ(tiny: MakeConfig) -> None:
    keys = {settings_key(tiny({"method": method})) for method in ("supervised", "pl", "cl", "placl")}
    assert len(keys) == 4
