"""Studies: grids of methods, datasets, label fractions and seeds, and the tables that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placl.config import Config
from placl.data.load import read_instances
from placl.errors import InputError
from placl.files import write_atomic
from placl.learn.score import metric_name
from placl.studies.cost import hours, trainings_of
from placl.studies.results import Results
from placl.studies.runner import run_missing
from placl.studies.study import RunSpec, Study, expand, read_study
from placl.studies.tables import Table, html, make_tables, markdown, notes
from placl.watch import Silent, Watch


@dataclass(frozen=True)
class StudyResult:
    rows: list[dict[str, Any]]  # results.csv
    tables: list[Table]
    failed: dict[str, str]  # runs, and what went wrong


def study(
    name: str,
    data: Mapping[str, Path],
    out: Path,
    watch: Watch | None = None,
    *,
    scale: str = "cpu",
    workers: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    known: Path | None = None,
    **choice: Any,
) -> StudyResult:
    """Run what is missing of a study and make its tables; ``choice`` narrows datasets, fractions, seeds and rows.

    ``known`` is a results.csv of the same study, from another machine: what it has is not run again.
    """
    part, chosen = plan_study(name, data, out, scale=scale, overrides=overrides, **choice)
    whole = read_study(name).around(part)  # tables keep what is finished of other parts
    results = Results(expand(whole, data, out, scale=scale, overrides=overrides), whole.every_round, known)
    wanted = {spec.out for spec in chosen}
    missing = [spec for spec in results.specs if spec.out in wanted and results.of(spec) is None]
    check_data(missing)

    def keep() -> None:
        results.write(out / "results.csv")
        shown = [spec for spec in results.specs if results.of(spec) is not None] or chosen
        tables, note = make_tables(whole, results.rows()), notes(whole, scale, budget(shown), metric(shown))
        write_atomic(out / "table.md", markdown(whole, tables, note))
        write_atomic(out / "table.html", html(whole, tables, note))

    keep()
    failed = run_missing(results, missing, out, watch or Silent(), workers=workers, on_result=keep)
    return StudyResult(results.rows(), make_tables(whole, results.rows()), failed)


def plan_study(
    name: str,
    data: Mapping[str, Path],
    out: Path,
    *,
    scale: str = "cpu",
    overrides: Mapping[str, Any] | None = None,
    **choice: Any,
) -> tuple[Study, list[RunSpec]]:
    grid = read_study(name).narrowed(**choice)
    specs = expand(grid, data, out, scale=scale, overrides=overrides)
    if not specs:
        raise InputError(f"study {grid.name}: there is nothing to run. With all labels, only supervised rows are.")
    return grid, specs


def check_data(specs: list[RunSpec]) -> None:
    """Refuse datasets that cannot be read, or have no test part, before hours go into runs that would have no score."""
    seen: set[str] = set()
    for spec in sorted(specs, key=lambda spec: spec.fraction):  # hidden labels are where more can be wrong
        if spec.dataset in seen:
            continue
        seen.add(spec.dataset)
        data = spec.config.data
        roles = read_instances(data)[1]  # with the splits that a source brings
        if spec.tested and not data.test_fraction and "test" not in roles:
            raise InputError(
                f"{spec.dataset}: has no test images. Name some (test: or test_fraction: in its dataset file), or set "
                "scored_on: val in the study."
            )


def budget(specs: list[RunSpec]) -> str:
    """The final training that all runs share, in words, and of which rows it is another."""
    rows: dict[str, list[str]] = {}
    for spec in specs:
        of = rows.setdefault(_budget(spec.config), [])
        of += [spec.method] if spec.method not in of else []
    words, *others = sorted(rows, key=lambda words: -len(rows[words]))
    if others:
        return f"{words} ({'; '.join(', '.join(rows[other]) + ': ' + other for other in others)})"
    for config in (spec.config for spec in specs):
        if config.method == "placl" and config.rounds.continued is not None:
            later = config.continued().train
            more = (config.rounds.count + config.finishes) * later.epochs * later.steps_per_epoch
            words = f"{words}; PLACL's last network goes on from others for {more:,} more"
            break
    return f"the same budget ({words})"


def _budget(config: Config) -> str:
    train, model = config.train, config.model
    steps = f"{train.epochs * train.steps_per_epoch:,} steps" if train.epoch == "steps" else f"{train.epochs} epochs"
    return f"{steps} of {train.batch} images, {model.name} at {model.input_size} px"


def metric(specs: list[RunSpec]) -> str:
    """What scores are, in words."""
    found: dict[str, list[str]] = {}
    for spec in specs:
        of = found.setdefault(metric_name(spec.config.reward), [])
        of += [spec.dataset] if spec.dataset not in of else []
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{words} ({', '.join(datasets)})" for words, datasets in found.items())


def list_runs(grid: Study, specs: list[RunSpec], known: Path | None = None) -> list[dict[str, Any]]:
    """Every run with its trainings and hours, for --dry-run."""
    results = Results(specs, grid.every_round, known)
    check_data([spec for spec in specs if results.of(spec) is None])
    cost = hours(specs, results)
    return [
        {
            "dataset": spec.dataset,
            "method": spec.method,
            "fraction": spec.fraction,
            "seed": spec.seed,
            "trainings": trainings_of(spec.config),
            "hours": round(cost[spec], 3),
            "done": results.of(spec) is not None,
        }
        for spec in specs
    ]
