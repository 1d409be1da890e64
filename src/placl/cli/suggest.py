"""``placl suggest``: which unlabelled images to label next."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from placl.cli import options
from placl.cli.output import print_json, print_table
from placl.cli.progress import open_watch


def suggest(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that placl train wrote.")],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many.")] = 50,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.csv", help="Write them to a file as well.")
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List the unlabelled instances whose labels should help most.

    The networks of the run are unsure of them, disagree about them, and they differ from each other.
    """
    with open_watch(quiet) as watch:
        from placl.files import write_csv
        from placl.suggesting import suggest as rank

        found = rank(run, count, on_progress=lambda done, total: watch.progress("label", done, total, "looking"))
    rows = [{key: round(v, 4) if isinstance(v, float) else v for key, v in asdict(one).items()} for one in found]
    if out is not None:
        write_csv(out, rows)
    if json:
        print_json({"run": run, "suggestions": rows, "file": out})
        return
    print_table(["instance", "score", "confidence", "disagreement"], [[str(v) for v in row.values()] for row in rows])
