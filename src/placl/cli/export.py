"""``placl export``: a run's best model as ONNX and as a PyTorch program, with a model card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placl.cli import options
from placl.cli.output import print_json
from placl.cli.progress import open_watch

if TYPE_CHECKING:
    from placl.exporting.agreement import Agreement
    from placl.exporting.export import Format


def export(
    run: options.Run,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder of the export; default: RUN/export.")
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Only model.onnx; default: both.")] = False,
    torch: Annotated[
        bool, typer.Option("--torch", help="Only model.pt2, for torch.export.load; default: both.")
    ] = False,
    licence: Annotated[
        str, typer.Option("--licence", metavar="TEXT", help="The model's licence, for its card.")
    ] = "not stated",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Write a model for use without placl.

    Normalisation and decoding are in the graph, the number of images is free. The files are compared with PyTorch on
    up to 100 images before they are written; beside them lie export.json and a model card, README.md.
    """
    wanted: dict[Format, bool] = {"onnx": onnx, "torch": torch}
    formats = [name for name, asked in wanted.items() if asked or onnx == torch]
    with open_watch(quiet) as watch:
        from placl.exporting.export import export as run_export

        made = run_export(run, out, formats=formats, licence=licence, overwrite=overwrite, watch=watch)
    if json:
        from dataclasses import asdict

        print_json({"run": run, **asdict(made)})
        return
    for name, size in made.files.items():
        print(f"{made.folder / name}: {_size(size)}")
    for name, found in made.agreement.items():
        print(_line(name, found))


def _line(name: str, found: Agreement) -> str:
    hanging = f"; {found.undecided:,} of {found.keypoints:,} keypoints hang on rounding" if found.undecided else ""
    return (
        f"{name} and PyTorch on {found.images} {found.source}: keypoints differ by at most {found.pixels:.1e} px, "
        f"confidence by {found.confidence:.1e}{hanging}"
    )


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
