"""``placl train``: a configuration from a file, flags and key=value pairs; then the training and its table."""

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

OUT = Path("runs/train")


def train(
    settings: options.Settings = None,
    labeled: options.Labeled = None,
    images: options.Images = None,
    unlabeled: options.Unlabeled = None,
    val: options.Val = None,
    test: options.Test = None,
    keypoints: options.Keypoints = None,
    corrections: options.Corrections = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The run folder, new or to carry on.")] = OUT,
    preset: options.Preset = None,
    seed: options.Seed = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Train a model, or carry on with a training.

    For example: placl train --labeled ann.json --unlabeled photos/ --out runs/birds train.epochs=40

    Labels of one species and images of another: placl train source=ann.json target=photos/ --out runs/birds
    """
    file, overrides = split_settings(settings or [])
    overrides |= flags(labeled, images, unlabeled, val, test, options.names(keypoints), preset, seed, corrections)
    from placl import config as configuration

    config = configuration.load(file, overrides)
    with open_watch(quiet) as watch:
        watch.say(f"run folder: {out}" + (" (--out names another)" if out == OUT else ""))
        from placl.api import train as run_training

        result = run_training(config, out, watch)
    if json:
        print_json(summary(result))
    else:
        show(result)


def split_settings(arguments: list[str]) -> tuple[Path | None, dict[str, Any]]:
    """The configuration file, if one is named, and the key=value pairs; a later pair wins."""
    from placl.config import parse_override

    file: Path | None = None
    overrides: dict[str, Any] = {}
    for text in arguments:
        path = Path(text)
        if "=" in text:
            key, value = parse_override(text)
            overrides[key] = value
        elif path.suffix.lower() == ".json":
            raise InputError(f"{text}: is no configuration. For labels, write --labeled {text}.")
        elif path.is_dir():
            raise InputError(f"{text}: is a folder, not a configuration. For images, write --unlabeled {text}.")
        elif not path.exists() and path.suffix.lower() not in (".yaml", ".yml"):
            raise InputError(f'"{text}" is neither a configuration file nor key=value, e.g. train.lr=0.001.')
        elif file is not None:
            raise InputError(f"{file} and {text} are two configurations. Name one, and key=value for what differs.")
        else:
            file = path
    return file, overrides


def flags(
    labeled: list[Path] | None,
    images: Path | None,
    unlabeled: list[Path] | None,
    val: list[Path] | None,
    test: list[Path] | None,
    keypoints: tuple[str, ...] | None,
    preset: str | None,
    seed: int | None,
    corrections: list[Path] | None = None,
) -> dict[str, Any]:
    """The keys of the configuration that the flags stand for."""
    given: dict[str, Any] = {
        "data.labeled": [str(path) for path in labeled or []],
        "data.images": str(images) if images else None,
        "data.unlabeled": [str(path) for path in unlabeled or []],
        "data.val": [str(path) for path in val or []],
        "data.test": [str(path) for path in test or []],
        "data.keypoints": list(keypoints or ()),
        "preset": preset,
        "seed": seed,
        "data.corrections": [str(path) for path in corrections or []],
    }
    return {key: value for key, value in given.items() if value not in (None, [])}


def summary(result: Result) -> dict[str, Any]:
    from placl.report.collecting import collect
    from placl.run.folder import read_split

    split, told = read_split(result.run), collect(result.run)
    return {
        "run": result.run,
        "best": result.best,
        "metric": result.row(result.best)["metric"],
        "stages": result.rows,
        "gap_recovered": result.gap_recovered,
        "seconds": round(result.seconds, 1),
        "report": result.run / "report.html",
        "health": told["health"],
        "domains": told["domains"],
        "labels": {
            "labelled": len(split.labelled) if split else 0,
            "unlabelled": len(split.half_1) + len(split.half_2) if split else 0,
            "val": len(split.val) if split else 0,
            "test": len(split.test) if split else 0,
        },
    }


def show(result: Result) -> None:
    from placl.report.collecting import collect

    told = collect(result.run)
    val, test = (f"{part} ({told['domains'][part]})" if told["domains"].get(part) else part for part in ("val", "test"))
    rows = [
        (
            f"{row['stage']} *" if row["stage"] == result.best else str(row["stage"]),
            number(row["val"]),
            number(row["test"]),
            str(row["labels"]),
            share(row["selected"]),
            number(row["seconds"], 1),
        )
        for row in result.rows
    ]
    print_table(("stage", val, test, "labels", "selected", "training, s"), rows, result.row(result.best)["metric"])
    if told["only_label"]:
        rounds = ", ".join(told["only_label"])
        print(f"{rounds}: trained only to label, with other settings (teacher) than {result.best}, so scores differ")
    if result.gap_recovered is not None:
        print(f"{share(result.gap_recovered)} of the gap between few and all labels recovered")
    for complaint in told["health"]:
        print(f"warning: {complaint}")
    print(f"the report is {result.run / 'report.html'}")
    print(f"* the model is in {result.run / 'best'}. Next: placl predict {shlex.quote(str(result.run))} IMAGE")
