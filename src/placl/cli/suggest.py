"""``placl suggest``: which unlabelled images to label next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placl.cli import options
from placl.cli.output import print_json, print_table
from placl.cli.progress import open_watch

if TYPE_CHECKING:
    from placl.suggesting import Suggestion


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
    rows = [_row(one) for one in found]
    if out is not None:
        write_csv(out, rows)
    if json:
        print_json({"run": run, "suggestions": rows, "file": out})
        return
    boxed = any(one.box for one in found)
    columns = ["instance", "score", "confidence", "disagreement", *(["box"] if boxed else []), "image"]
    print_table(columns, [_cells(one, boxed) for one in found], text=("image",))


def _row(one: Suggestion) -> dict[str, Any]:
    """As csv and JSON have it; the box is there where it is not the whole image."""
    numbers = {"score": one.score, "confidence": one.confidence, "disagreement": one.disagreement}
    box = dict(zip(("x", "y", "width", "height"), one.box or (), strict=False))
    rounded = {key: round(value, 4) for key, value in (numbers | box).items()}
    return {"id": one.id, "image": None if one.image is None else str(one.image), **rounded}


def _cells(one: Suggestion, boxed: bool) -> list[str]:
    numbers = [f"{value:.4f}" for value in (one.score, one.confidence, one.disagreement)]
    box = [", ".join(f"{round(value, 1):g}" for value in one.box or ())] if boxed else []
    return [one.id, *numbers, *box, str(one.image or "")]
