"""``placl bench``: how close to the hardware's limit this machine comes, as ratios measured side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from placl.cli import options
from placl.cli.output import print_json

app = typer.Typer(help="Speed and memory as ratios: what this costs beyond what it must.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _start(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


Repeats = Annotated[int, typer.Option("--repeats", min=1, help="The median of so many is reported.")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="CPU threads of both sides.")]


@app.command("inner-loop")
def inner_loop(
    crops: Annotated[
        Path | None, typer.Option("--crops", metavar="DIR", help="Small JPEGs for the loader; default: drawn, 128 px.")
    ] = None,
    photographs: Annotated[
        Path | None, typer.Option("--photographs", metavar="DIR", help="Large JPEGs for it; default: drawn, 500 px.")
    ] = None,
    repeats: Repeats = 5,
    threads: Threads = 1,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """A candidate (tiny, 64 px, batch 32, full augmentation) against the bare network; its data path against a loader.

    ratio: images per second over those of the same network, loss and optimiser on tensors that are ready.
    versus_loader: augmented, encoded batches per second and core over those of a loader that decodes, warps and encodes
    image by image; versus_loader_large: the same for photographs.
    """
    from placl.bench.inner_loop import bench_inner_loop

    _show(lambda: bench_inner_loop(repeats, threads, crops, photographs), json)


@app.command("label")
def label(repeats: Repeats = 5, threads: Threads = 1, json: options.Json = False, debug: options.Debug = False) -> None:
    """Pseudo-labelling against bare inference of the same network."""
    from placl.bench.label import bench_label

    _show(lambda: bench_label(repeats, threads), json)


@app.command("import")
def import_(
    source: Annotated[
        Path | None, typer.Argument(metavar="[SOURCE]", help="A dataset of any format; default: drawn animals.")
    ] = None,
    repeats: Repeats = 5,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; default: one a core.")] = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """From files to a pool, against bare JPEG decoding in as many processes; both from nothing."""
    from placl.bench.importing import bench_import

    _show(lambda: bench_import(repeats, source, workers), json)


@app.command("executor")
def executor(
    repeats: Repeats = 3,
    workers: Annotated[int | None, typer.Option("--workers", min=2, help="Default: one a core.")] = None,
    candidates: Annotated[int, typer.Option("--candidates", min=1, help="Candidates of a step.")] = 8,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Candidates on several one-thread workers against one such worker, and against one worker with all the threads."""
    from placl.bench.executor import bench_executor

    _show(lambda: bench_executor(repeats, candidates, workers), json)


@app.command("memory")
def memory(
    few: Annotated[int, typer.Option("--few", min=1, help="Instances.")] = 10_000,
    many: Annotated[int, typer.Option("--many", min=1, help="Instances.")] = 200_000,
    repeats: Repeats = 1,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Peak memory of labelling, selection and a training step for many instances over that for few.

    The mapped crops do not count: the system takes them back whenever it needs the room. Takes some minutes.
    """
    from placl.bench.memory import bench_memory

    _show(lambda: bench_memory(repeats, (few, many)), json)


def _show(bench: Callable[[], dict[str, Any]], json: bool) -> None:
    result = bench()
    if json:
        print_json(result)
        return
    width = max(map(len, result))
    for key, value in result.items():
        print(f"{key.replace('_', ' '):{width}}  {value}")
