"""``placl demo``: the whole method on animals drawn by code, against few and against all labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placl.cli import options
from placl.cli.output import number, print_json, print_table, share
from placl.cli.progress import open_watch
from placl.errors import InputError

if TYPE_CHECKING:
    from placl.api import Result


def demo(
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keys of the configuration to change.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="The run folder; default: runs/demo-SEED.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of everything random.")] = 0,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """See it work on animals drawn by code.

    Trains with 5 % of the labels, with PLACL and with all labels, and tells how much of the gap PLACL closes.
    """
    from placl.cli.train import split_settings

    file, overrides = split_settings(settings or [])
    if file is not None:
        raise InputError(f"{file}: the demo has its own configuration. Set keys with key=value, or use placl train.")
    out = out or Path(f"runs/demo-{seed}")
    with open_watch(quiet) as watch:
        watch.say(f"run folder: {out}")
        from placl.demo import run_demo

        result = run_demo(out, seed=seed, watch=watch, overrides=overrides or None)
    if json:
        print_json(summary(result))
    else:
        show(result)


def summary(result: Result) -> dict[str, Any]:
    return {
        **{name: {"pck": row["test"], "labels": row["labels"]} for name, row in result.compared.items()},
        "gap_recovered": result.gap_recovered,
        "seconds": round(result.seconds, 1),
        "run": result.run,
    }


def show(result: Result) -> None:
    compared = result.compared
    rows = [
        (
            f"{'PLACL' if name == 'placl' else 'supervised'}, {_labels(row, compared.get('full'))}",
            number(row["test"]),
            number(row["seconds"], 1),
        )
        for name, row in compared.items()
    ]
    print_table(("", f"test {compared['placl']['metric']}", "training, s"), rows)
    if result.gap_recovered is None:
        print(f"done in {result.seconds:.0f} s")
    else:
        print(f"{share(result.gap_recovered)} of the gap recovered in {result.seconds:.0f} s")
    following = shlex.join(["placl", "predict", str(result.run), str(result.run / "animals" / "annotations.json")])
    print(f"the model is in {result.run / 'best'}. Next: {following}")


def _labels(row: dict[str, Any], full: dict[str, Any] | None) -> str:
    """Without the yardstick nothing here tells how many labels there would be."""
    return f"{row['labels']} labels" if full is None else f"{share(row['labels'] / full['labels'])} of the labels"
