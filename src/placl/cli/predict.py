"""``placl predict``: keypoints of an image, a folder or the boxes of a COCO file, as COCO results and as a picture."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from placl.cli import options
from placl.cli.output import print_json
from placl.cli.progress import open_watch
from placl.errors import InputError


def predict(
    run: options.Run,
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="An image, a folder of images or a COCO file.")],
    boxes: Annotated[
        Path | None, typer.Option("--boxes", metavar="FILE", help="COCO file with boxes for the images of a folder.")
    ] = None,
    images: options.Images = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="COCO results.")] = Path("predictions.json"),
    overlay: Annotated[
        Path | None,
        typer.Option("--overlay", metavar="PNG|DIR", help="One picture, or one per image; default: beside --out."),
    ] = None,
    draw: Annotated[bool, typer.Option("--draw/--no-draw", help="Make the overlay at all.")] = True,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.0, max=1.0, help="Do not draw keypoints less confident than this.")
    ] = 0.0,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Predict keypoints on images.

    Writes COCO results, with every keypoint and its confidence, and a picture to look at.
    """
    pictures = overlay or out.with_suffix(".png")
    check_outputs([source, *([boxes] if boxes else [])], out, pictures if draw else None)
    start = time.monotonic()
    with open_watch(quiet) as watch:
        from placl.model import Model
        from placl.overlay import save_overlay
        from placl.prediction import predict as run_prediction

        model = Model.from_dir(run)
        found = run_prediction(
            model,
            source,
            boxes,
            images=images,
            on_progress=lambda done, total: watch.progress("images", done, total, "predicting"),
        )
        for line in found.skipped:
            watch.say(f"skipped {line}")
        found.save(out)
        drawn = save_overlay(found, model.skeleton, pictures, threshold) if draw else []
    if json:
        print_json(
            {
                "model": model.path,
                "weights_sha256": model.sha256,
                "images": len(set(found.files)),
                "instances": len(found),
                "skipped": found.skipped,
                "predictions": out,
                "overlay": drawn,
                "seconds": round(time.monotonic() - start, 1),
            }
        )
        return
    skipped = f", {len(found.skipped)} images skipped" if found.skipped else ""
    print(f"{len(found)} instances in {len(set(found.files))} images: {out}{skipped}")
    if drawn:
        print(f"picture: {drawn[0]}" if len(drawn) == 1 else f"{len(drawn)} pictures: {pictures}")


def check_outputs(inputs: list[Path], out: Path, pictures: Path | None) -> None:
    """Refuse, before the work, what could not be written or would overwrite what is being read."""
    if out.is_dir():
        raise InputError(f"{out}: is a folder. Name a file for the predictions with --out.")
    for target in (out, pictures):
        for source in inputs:
            if target is not None and target.exists() and source.exists() and target.samefile(source):
                flag = "--out" if target is out else "--overlay"
                raise InputError(f"{target}: is being read and would be overwritten. Name another file with {flag}.")
        for parent in target.parents if target is not None else ():
            if parent.exists() and not parent.is_dir():
                raise InputError(f"{target}: {parent} is a file, not a folder.")
    if pictures is not None and pictures.is_file() and not pictures.suffix:
        raise InputError(f"{pictures}: is a file. Name a folder or a .png with --overlay.")
