"""``placl predict``: keypoints of images, folders, COCO boxes or a video, as results and as something to look at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placl.cli import options
from placl.cli.output import print_json
from placl.cli.progress import open_watch
from placl.errors import InputError

if TYPE_CHECKING:
    from placl.outputs.predictions import Predictions


def predict(
    run: options.Run,
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="An image, a folder of images, a COCO file or a video.")
    ],
    boxes: Annotated[
        Path | None,
        typer.Option("--boxes", metavar="FILE", help="COCO file with boxes for a folder's images or a video's frames."),
    ] = None,
    images: options.Images = None,
    track: Annotated[
        bool, typer.Option("--track", help="Follow one animal through a video: look where its last pose was.")
    ] = False,
    track_threshold: Annotated[
        float, typer.Option("--track-threshold", min=0.0, max=1.0, help="Confidence of keypoints that are followed.")
    ] = 0.3,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Results: .json, .csv, .h5 or .slp; default: predictions.json."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--format", metavar="coco|csv|deeplabcut|sleap", help="Default: as the suffix of --out tells."),
    ] = None,
    overlay: Annotated[
        Path | None,
        typer.Option("--overlay", metavar="PNG|DIR|MP4", help="Picture(s), or a video's video; default: beside --out."),
    ] = None,
    draw: Annotated[bool, typer.Option("--draw/--no-draw", help="Make the overlay at all.")] = True,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.0, max=1.0, help="Do not draw keypoints less confident than this.")
    ] = 0.0,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Predict keypoints on images or a video.

    Writes results, with every keypoint and its confidence, and a picture or a video to look at.
    """
    from placl.outputs.writing import settle
    from placl.prediction import is_video
    from placl.prediction import predict as run_prediction
    from placl.video.tracking import Tracking

    film = is_video(source)
    out, kind = settle(out, kind)
    # clip.csv of clip.mp4 is what people call it: the overlay must not take the clip's own name.
    beside = out.with_name(f"{out.stem}_overlay.mp4") if film else out.with_suffix(".png")
    place = overlay or beside
    shown = place if draw else None
    check_outputs([source, *([boxes] if boxes else [])], out, shown)
    check_overlay(source, shown, film=film)
    if track and not film:
        raise InputError(f"{source}: is not a video. --track follows an animal through one; leave it out.")
    start = time.monotonic()
    with open_watch(quiet) as watch:
        from placl.model import Model
        from placl.overlay import save_overlay

        model = Model.from_dir(run)
        begin = time.monotonic()
        found = run_prediction(
            model,
            source,
            boxes,
            images=images,
            track=Tracking(confident=track_threshold) if track else None,
            overlay=shown if film else None,
            threshold=threshold,
            besides=[place],
            on_progress=lambda done, total: watch.progress("frames" if film else "images", done, total, "predicting"),
        )
        rate = found.clip.length / max(time.monotonic() - begin, 1e-9) if found.clip else None
        for line in found.notes:
            watch.say(line)
        for line in found.skipped:
            watch.say(line if film else f"skipped {line}")
        found.save(out, kind)
        drawn = [] if shown is None else [shown] if film else save_overlay(found, model.skeleton, shown, threshold)
    if json:
        print_json(
            {
                "model": model.path,
                "weights_sha256": model.sha256,
                "images": len(set(found.files)),
                "instances": len(found),
                **({"frames": found.clip.length, "promised_frames": found.clip.promised} if found.clip else {}),
                **({} if rate is None else {"frames_per_second": round(rate, 1)}),
                "skipped": found.skipped,
                "notes": found.notes,
                "format": kind,
                "predictions": out,
                "overlay": drawn,
                "seconds": round(time.monotonic() - start, 1),
            }
        )
        return
    print(_summary(found, out, rate))
    if drawn and film:
        print(f"video: {drawn[0]}")
    elif drawn:
        print(f"picture: {drawn[0]}" if len(drawn) == 1 else f"{len(drawn)} pictures: {shown}")


def _summary(found: Predictions, out: Path, rate: float | None) -> str:
    clip = found.clip
    if clip is None:
        skipped = f", {len(found.skipped)} images skipped" if found.skipped else ""
        return f"{len(found)} instances in {len(set(found.files))} images: {out}{skipped}"
    promised = f" of {clip.promised} promised" if clip.length < clip.promised else ""
    return f"{len(found)} instances in {clip.length}{promised} frames ({rate:.0f} frames/s): {out}"


def check_outputs(inputs: list[Path], out: Path, pictures: Path | None) -> None:
    """Refuse, before the work, what could not be written or would overwrite what is being read."""
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


def check_overlay(source: Path, shown: Path | None, *, film: bool) -> None:
    """Refuse a video of images, and pictures of a video."""
    if shown is None:
        return
    from placl.video.overlay import CODECS, check_video_name

    if film:
        check_video_name(shown)
    elif shown.suffix.lower() in CODECS:
        raise InputError(f"{shown}: {source} is not a video, so its overlay is none. Name a .png or a folder.")
