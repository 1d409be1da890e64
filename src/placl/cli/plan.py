"""``placl plan``: what a training would cost, before it starts; it takes what ``placl train`` takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placl.cli import options
from placl.cli.output import print_json, print_table
from placl.cli.progress import clock_time, open_watch
from placl.cli.train import OUT, flags, split_settings

if TYPE_CHECKING:
    from placl.planning import Plan


def plan(
    settings: options.Settings = None,
    labeled: options.Labeled = None,
    images: options.Images = None,
    unlabeled: options.Unlabeled = None,
    val: options.Val = None,
    test: options.Test = None,
    keypoints: options.Keypoints = None,
    corrections: options.Corrections = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the run would go: is there room on its disk?")
    ] = OUT,
    preset: options.Preset = None,
    seed: options.Seed = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Tell what a training would cost: trainings, images, time on this machine and disk.

    Takes the arguments of placl train. Reads the data (and caches their crops) and times the machine for ten seconds.
    """
    file, overrides = split_settings(settings or [])
    overrides |= flags(labeled, images, unlabeled, val, test, options.names(keypoints), preset, seed, corrections)
    from placl import config as configuration

    config = configuration.load(file, overrides)
    with open_watch(quiet) as watch:
        from placl.planning import plan as make_plan

        made = make_plan(config, watch=watch)
    notes = [*made.notes, *_no_room(made, out)]
    if json:
        print_json(made.to_dict() | {"notes": notes})
    else:
        show(made, notes)


def _no_room(made: Plan, out: Path) -> list[str]:
    import shutil

    from placl.planning import size

    place = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if free >= made.disk["run"]:
        return []
    return [f"{out}: its disk has {size(free)} free, the run needs {size(made.disk['run'])}"]


def show(made: Plan, notes: list[str]) -> None:
    def shown(number: int) -> str:
        return f"{number:,}" if number else "-"

    rows = [
        (part.name, shown(part.trainings), shown(part.images), shown(part.read), clock_time(part.seconds))
        for part in made.parts
    ]
    print_table(("part", "trainings", "training images", "images read", "time"), rows)
    for note in notes:
        print(note)
    print(made.summary)
