"""``placl report``: the page of one run, made anew, or of several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placl.cli import options
from placl.cli.output import print_json
from placl.errors import InputError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that placl train wrote.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: report.html in the run; of several, here."),
    ] = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Write the report of a run, or compare several.

    One file that opens offline. A run writes its own as it goes; this makes it anew, also of half a run.
    """
    from placl.files import write_atomic
    from placl.report.collecting import collect
    from placl.report.page import page

    file = out or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    if file.is_dir():
        raise InputError(f"{file}: is a folder. Name a file with --out.")
    found = [collect(run) for run in runs]
    names = [run["name"] for run in found]
    for run, path in zip(found, runs, strict=True):  # runs of one name are told apart by where they are
        if names.count(run["name"]) > 1:
            run["name"] = str(path)
    write_atomic(file, page(found))
    complaints = {run["name"]: run["health"] for run in found}
    if json:
        print_json({"report": file, "runs": names, "health": complaints})
        return
    print(file)
    for name, lines in complaints.items():
        for line in lines:
            print(f"{name}: {line}" if len(found) > 1 else line)
