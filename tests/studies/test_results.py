"""Which settings make another run of a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placl.config import Config
from placl.studies.results import COLUMNS, Results, settings_key
from placl.studies.study import RunSpec, expand, read_study

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
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


@pytest.mark.parametrize("change", [{"data.val_fraction": 0.5}, {"data.test_fraction": 0.3}])
def test_another_division_makes_another_run(tiny: MakeConfig, change: dict[str, Any]) -> None:
    assert settings_key(tiny(change)) != settings_key(tiny())


def test_whose_labels_validate_makes_another_run(tiny: MakeConfig) -> None:
    row = {"method": "placl", "source": "a.json", "target": "b"}
    assert differs(tiny, row, {"data.val_from": "source"})


def test_results_of_older_versions_have_no_pck_and_are_read(tiny: MakeConfig, tmp_path: Path) -> None:
    config = tiny({"method": "pl"})
    spec = RunSpec("cub", "pl", 0.05, 0, config, tmp_path / "run")
    columns = [name for name in COLUMNS if name != "test_pck"]
    values = {"dataset": "cub", "method": "pl", "fraction": 0.05, "seed": 0, "test": 60.5, "trainings": 2, "images": 3,
              "seconds": 4.5, "settings": settings_key(config)}  # fmt: skip
    lines = [",".join(columns), ",".join(str(values.get(name, "")) for name in columns)]
    (tmp_path / "known.csv").write_text("\n".join(lines) + "\n")
    found = Results([spec], known=tmp_path / "known.csv").of(spec)
    assert found is not None
    assert (found["test"], found["test_pck"], found["val"]) == (60.5, None, None)


def test_a_setting_that_older_versions_had_not_is_read_where_it_is_set(tiny: MakeConfig) -> None:
    for key, value in {
        "teacher.batch": 4,
        "proxy.batch": 4,
        "rounds.continued": 0.5,
        "teacher.first_augment": 2,
        "teacher.first_batch": 4,
    }.items():
        assert differs(tiny, {"method": "placl"}, {key: value}), key


@pytest.mark.parametrize(
    ("grid", "name", "data"),
    [
        ("domains", "domains", "source: a.json\ntarget: b.json\n"),
        *((grid, f"{grid}_{name}", "labeled: a.json\n") for grid in ("study", "gap") for name in ("cub", "lspet")),
        ("animals", "animals", "labeled: a.json\n"),
    ],
)
def test_finished_runs_of_the_repository_are_still_known(grid: str, name: str, data: str, tmp_path: Path) -> None:
    """A new setting, left alone, does not make days of results void."""
    file = BENCHMARKS / "results" / f"{name}.csv"
    if not file.exists():
        pytest.skip(f"nothing of {name} is finished")
    (tmp_path / "data.yaml").write_text(data)
    study = read_study(str(BENCHMARKS / f"{grid}.yaml"))
    specs = expand(study, dict.fromkeys(study.datasets, tmp_path / "data.yaml"), tmp_path)
    known = Results(specs, known=file)
    assert len(known.rows()) == len(file.read_text().splitlines()) - 1
    if grid == "domains":  # which is complete
        assert [spec.name for spec in specs if known.of(spec) is None] == []


def test_rows_of_different_methods_differ(tiny: MakeConfig) -> None:
    keys = {settings_key(tiny({"method": method})) for method in ("supervised", "pl", "cl", "placl")}
    assert len(keys) == 4
