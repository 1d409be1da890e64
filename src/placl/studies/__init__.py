"""Studies: grids of methods, datasets, label fractions and seeds, and the tables that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placl.files import write_atomic
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
    grid, specs = plan_study(name, data, out, scale=scale, overrides=overrides, **choice)
    results = Results(specs, grid.every_round, known)

    def keep() -> None:
        results.write(out / "results.csv")
        tables = make_tables(grid, results.rows())
        note = notes(grid, scale, budget(specs))
        write_atomic(out / "table.md", markdown(grid, tables, note))
        write_atomic(out / "table.html", html(grid, tables, note))

    keep()
    failed = run_missing(results, out, watch or Silent(), workers=workers, on_result=keep)
    return StudyResult(results.rows(), make_tables(grid, results.rows()), failed)


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
    return grid, expand(grid, data, out, scale=scale, overrides=overrides)


def budget(specs: list[RunSpec]) -> str:
    """The final training that all runs share, in words."""
    train = specs[0].config.train
    steps = f"{train.epochs * train.steps_per_epoch:,} steps" if train.epoch == "steps" else f"{train.epochs} epochs"
    model = specs[0].config.model
    words = f"{steps} of {train.batch} images, {model.name} at {model.input_size} px"
    for config in (spec.config for spec in specs):
        if config.method == "placl" and config.rounds.continued is not None:
            later = config.continued().train
            more = (config.rounds.count + config.finishes) * later.epochs * later.steps_per_epoch
            return f"{words}; PLACL's last network goes on from others for {more:,} more"
    return words


def list_runs(grid: Study, specs: list[RunSpec], known: Path | None = None) -> list[dict[str, Any]]:
    """Every run with its trainings and hours, for --dry-run."""
    results = Results(specs, grid.every_round, known)
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
