"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (also PLACL_DEBUG=1).")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a folder with a model.")]
Images = Annotated[
    Path | None, typer.Option("--images", metavar="DIR", help="Folder of the images; default: beside the file.")
]
Keypoints = Annotated[
    str | None, typer.Option("--keypoints", metavar="A,B,...", help="Keypoint names, where the file has them wrong.")
]

# Of a training, and of its plan:
Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="CONFIG.yaml|KEY=VALUE", help="A configuration file, and keys to set over it."),
]
Labeled = Annotated[
    list[Path] | None, typer.Option("--labeled", metavar="SOURCE", help="Labels, of any format; repeatable.")
]
Unlabeled = Annotated[
    list[Path] | None, typer.Option("--unlabeled", metavar="SOURCE", help="Images, videos or boxes; repeatable.")
]
Val = Annotated[
    list[Path] | None,
    typer.Option("--val", metavar="SOURCE", help="Labels to validate on; default: a part of --labeled."),
]
Test = Annotated[
    list[Path] | None, typer.Option("--test", metavar="SOURCE", help="Labels that only scores are measured on.")
]
Corrections = Annotated[
    list[Path] | None,
    typer.Option("--corrections", metavar="FILE", help="What placl ui --review wrote; repeatable."),
]
Preset = Annotated[
    str | None, typer.Option("--preset", metavar="cpu|fast|paper", help="What the other keys start from.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Of everything random but the split.")]


def names(keypoints: str | None) -> tuple[str, ...] | None:
    """``nose, tail`` -> ("nose", "tail")"""
    return tuple(name.strip() for name in keypoints.split(",") if name.strip()) if keypoints else None
