"""``placl study``: a table of the paper, or one of your own, from runs that are made where they are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from placl.cli import options
from placl.cli.output import print_json, print_table
from placl.cli.progress import open_watch
from placl.errors import InputError, MachineError

Names = list[str] | None


def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="table1 to table6, fig3a, fig3b, or a file.yaml.")],
    settings: Annotated[Names, typer.Argument(metavar="KEY=VALUE", help="Keys to set in all runs.")] = None,
    data: Annotated[
        Names, typer.Option("--data", metavar="NAME=PATH", help="A dataset's folder or placl.yaml; repeatable.")
    ] = None,
    datasets: Annotated[
        Names, typer.Option("--datasets", help="Only these; repeatable. Default: those of --data.")
    ] = None,
    rows: Annotated[Names, typer.Option("--rows", help="Only these methods; repeatable.")] = None,
    fractions: Annotated[list[float] | None, typer.Option("--fractions", help="Shares of labels; repeatable.")] = None,
    seeds: Annotated[list[int] | None, typer.Option("--seeds", help="Default: 0, 1 and 2; repeatable.")] = None,
    scale: Annotated[
        str, typer.Option("--scale", metavar="cpu|paper", help="How large networks and budgets are.")
    ] = "cpu",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs side by side; default: the cores.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="New or to carry on.")] = None,
    known: Annotated[
        Path | None, typer.Option("--known", metavar="CSV", help="results.csv of this study from another machine.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs and their hours, and stop.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Run a study, or carry on with one: what is there already is not run again.

    For example: placl study table1 --data cub=CUB_200_2011 --fractions 0.05 --fractions 1
    """
    from placl import studies
    from placl.config import parse_override

    places = dict(_named(text) for text in data or [])
    overrides = dict(parse_override(text) for text in settings or [])
    out = out or Path("runs") / f"study-{Path(name).stem}-{scale}"
    choice: dict[str, Any] = {
        "rows": rows,
        "fractions": fractions,
        "seeds": seeds,
        "datasets": datasets or list(places),
    }
    grid, specs = studies.plan_study(name, places, out, scale=scale, overrides=overrides, **choice)  # refuses mistakes
    if dry_run:
        _show_plan(studies.list_runs(grid, specs, known), json)
        return
    with open_watch(quiet) as watch:
        watch.say(f"study folder: {out}")
        result = studies.study(
            name, places, out, watch, scale=scale, workers=workers, overrides=overrides, known=known, **choice
        )
    if json:
        print_json({"out": out, "rows": result.rows, "failed": result.failed})
    else:
        for table in result.tables:
            print_table(table.head[: table.shown], [line[: table.shown] for line in table.lines], table.title)
        print(f"{out / 'results.csv'}, table.md and table.html have them.")
    if result.failed:
        name, reason = next(iter(result.failed.items()))
        count = "1 run" if len(result.failed) == 1 else f"{len(result.failed)} runs"
        raise MachineError(f"{count} failed{', the first' if len(result.failed) > 1 else ''}: {name}: {reason}")


def _named(text: str) -> tuple[str, Path]:
    name, sign, path = text.partition("=")
    if not sign or not name or not path:
        raise InputError(f"--data {text}: is not of the form NAME=PATH, e.g. cub=CUB_200_2011.")
    return name, Path(path)


def _show_plan(runs: list[dict[str, Any]], json: bool) -> None:
    total = sum(run["hours"] for run in runs)
    if json:
        print_json({"runs": runs, "hours": round(total, 2)})
        return
    rows = [
        (
            f"{run['dataset']}, {run['method']}",
            f"{100 * run['fraction']:g} %",
            str(run["seed"]),
            str(run["trainings"]),
            "done" if run["done"] else f"{run['hours']:.2f}",
        )
        for run in runs
    ]
    print_table(("run", "labels", "seed", "trainings", "hours"), rows)
    left = sum(not run["done"] for run in runs)
    print(f"{left} of {len(runs)} runs to do: {total:.1f} hours of one core (or GPU).")
