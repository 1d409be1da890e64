"""``placl data``: look at a dataset of any format, bring it into one form, divide it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placl.cli import options
from placl.cli.output import print_json
from placl.cli.progress import open_watch

if TYPE_CHECKING:
    from placl.data.formats.format import Options

app = typer.Typer(help="Import, inspect, preview and split datasets.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _start(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


FORMAT_NAMES = (
    "coco, deeplabcut, sleap, lightning_pose, yolo, label_studio, cvat, mpii, lsp, lspet, cub, animalpose, csv, video, "
    "images, list, corrections"
)
Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="A file or folder of any known format.")]
FormatName = Annotated[
    str | None, typer.Option("--format", metavar="NAME", help=f"Default: recognised. One of {FORMAT_NAMES}.")
]
Frames = Annotated[int, typer.Option("--frames", min=1, help="Frames taken from a video.")]
Sampling = Annotated[
    str, typer.Option("--sampling", metavar="even|motion|diverse", help="Which frames of a video are taken.")
]


@app.command("import")
def import_(
    source: Source,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Default: a folder of that name, here.")
    ] = None,
    format_name: FormatName = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", metavar="NAME", help="Splits of the paper, such as cub or lspet.")
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help="coco, deeplabcut, sleap, yolo, csv, or pool (packed crops).")
    ] = "coco",
    images: options.Images = None,
    keypoints: options.Keypoints = None,
    frames: Frames = 200,
    sampling: Sampling = "even",
    size: Annotated[int, typer.Option("--size", min=16, help="Pixels a side of a packed pool's crops.")] = 128,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is there already.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Bring a dataset of any format into one form: images/ beside one COCO json.

    Images are hard links where the disk allows it, the same files under another name, and copies elsewhere.
    """
    with open_watch(quiet) as watch:
        from placl.data.importing import import_source
        from placl.data.packed import import_pool

        chosen = reading(images, keypoints, frames, sampling)

        def progress(done: int, total: int) -> None:
            watch.progress("images", done, total, "importing")

        if to == "pool":
            done = import_pool(source, out, format_name, protocol, chosen, size, overwrite, progress)
        else:
            done = import_source(
                source,
                out,
                format_name=format_name,
                protocol=protocol,
                options=chosen,
                to=to,
                overwrite=overwrite,
                on_progress=progress,
            )
        for note in done.notes:
            watch.say(note)
    instances = done.instances
    labelled = int(instances.labelled.sum())
    if json:
        print_json(
            {
                "format": done.format,
                "images": len(instances.images),
                "labelled": labelled,
                "unlabelled": len(instances) - labelled,
                "keypoints": list(instances.skeleton.keypoints) if instances.skeleton else [],
                "files": list(done.files),
                "notes": list(done.notes),
            }
        )
        return
    print(
        f"{done.format}: {len(instances.images)} images, {labelled} labelled and {len(instances) - labelled} "
        f"unlabelled instances: {', '.join(map(str, done.files))}"
    )


@app.command()
def info(
    source: Source,
    format_name: FormatName = None,
    images: options.Images = None,
    keypoints: options.Keypoints = None,
    frames: Frames = 200,
    sampling: Sampling = "even",
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Count what a dataset holds and name what is wrong with it."""
    with open_watch(quiet):
        from placl.data.formats.registry import read_source
        from placl.data.inspect import inspect, lines

        known, found = read_source(source, format_name, reading(images, keypoints, frames, sampling))
        content = inspect(source, known.name, found.instances, found.notes)
    if json:
        print_json(content.to_dict())
        return
    for line in lines(content):
        print(line)


@app.command()
def preview(
    source: Source,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="PNG", help="The picture; a page of that name is written beside it.")
    ] = Path("preview.png"),
    count: Annotated[int, typer.Option("--count", min=1, help="Instances shown.")] = 24,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which ones.")] = 0,
    format_name: FormatName = None,
    images: options.Images = None,
    keypoints: options.Keypoints = None,
    frames: Frames = 200,
    sampling: Sampling = "even",
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Draw instances with their keypoints: a contact sheet (PNG) and a page (HTML) with names."""
    with open_watch(quiet) as watch:
        from placl.data.formats.registry import read_source
        from placl.data.preview import contact_sheet

        known, found = read_source(source, format_name, reading(images, keypoints, frames, sampling))
        for note in found.notes:
            watch.say(note)
        files = contact_sheet(found.instances, out, count, seed)
    if json:
        print_json({"format": known.name, "files": files, "notes": list(found.notes)})
        return
    print(f"{known.name}: {', '.join(map(str, files))}")


@app.command()
def split(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files are written.")],
    label_fraction: Annotated[
        float, typer.Option("--labels", min=0.0, max=1.0, help="Share of the training instances that stay labelled.")
    ] = 1.0,
    val: Annotated[float, typer.Option("--val", min=0.0, max=0.9, help="Share of the rest for validation.")] = 0.2,
    test: Annotated[
        float, typer.Option("--test", min=0.0, max=0.9, help="Share for the test, of all labelled instances.")
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the parts.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier division.")] = False,
    format_name: FormatName = None,
    images: options.Images = None,
    keypoints: options.Keypoints = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Divide a dataset by image into COCO files, and write the placl.yaml that `placl train data=...` takes."""
    with open_watch(quiet) as watch:
        from placl.data.dividing import divide

        done = divide(
            source,
            out,
            label_fraction=label_fraction,
            val_fraction=val,
            test_fraction=test,
            seed=seed,
            overwrite=overwrite,
            format_name=format_name,
            options=reading(images, keypoints, 200, "even"),
        )
        for note in done.notes:
            watch.say(note)
    if json:
        print_json({"files": list(done.files), "instances": done.counts, "dataset": done.dataset})
        return
    print(", ".join(f"{count} {part}" for part, count in done.counts.items()) + f": {done.dataset}")


def reading(images: Path | None, keypoints: str | None, frames: int, sampling: str) -> Options:
    from placl.data.formats.format import Options
    from placl.errors import InputError

    if sampling not in ("even", "motion", "diverse"):
        raise InputError(f'--sampling "{sampling}" is unknown. Use even, motion or diverse.')
    return Options(images=images, keypoints=options.names(keypoints), count=frames, sampling=sampling)
