"""``placl evaluate``: the score of a run's best model, overall and per keypoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placl.cli import options
from placl.cli.output import number, print_json, print_table
from placl.cli.progress import open_watch


def evaluate(
    run: options.Run,
    annotations: Annotated[
        Path | None,
        typer.Argument(metavar="LABELS", help="A labelled source of any format; default: the run's own test split."),
    ] = None,
    images: options.Images = None,
    keypoints: options.Keypoints = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="pck|pck_auc|pckh|oks", help="Default: the training's.")
    ] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="Of PCK@alpha.")] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="Only this part of the source, such as test.")
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Score a model on labelled images.

    With a COCO keypoint file or another labelled source, on its instances; without, on the test split of the run.
    """
    with open_watch(quiet) as watch:
        from placl.evaluation import examine

        score, measured_on = examine(
            run,
            annotations,
            images=images,
            keypoints=options.names(keypoints),
            metric=metric,
            alpha=alpha,
            split=split,
            watch=watch,
        )
    if json:
        print_json({"run": run, "measured_on": measured_on, **score.to_dict()})
        return
    rows = [(name, number(value)) for name, value in score.per_keypoint.items()]
    print_table(("keypoint", _pck_name(run, score.metric, alpha)), rows)
    print(f"{score.metric} {number(score.value)} on {measured_on}: ", end="")
    print(f"{score.instances} instances, {score.keypoints} keypoints, mean error {number(score.mean_error, 4)}")


def _pck_name(run: Path, metric: str, alpha: float | None) -> str:
    """``PCK@0.1``: keypoints are counted by PCK, whatever the metric of the whole is."""
    if metric.startswith(("PCK@", "PCKh@")):
        return metric
    if alpha is None:
        from placl.model import Model

        alpha = Model.from_dir(run).config.reward.alpha
    return f"PCK@{alpha:g}"
