"""Every method on real CUB or LSPET -> LSP with 5 % of the labels, three seeds, at scale=cpu.

    python benchmarks/study.py ../shared cub
    python benchmarks/study.py ../shared lspet
    python benchmarks/study.py ../shared cub --grid optimizers      # another of the grids beside this file

Hours on two cores. It can be interrupted at any moment: the same command carries on, also on another machine. What is
finished stands in benchmarks/results/GRID_NAME.csv and .md, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from placl.cli.progress import open_watch
from placl.config import parse_override
from placl.studies import study
from placl.studies.study import read_study

HERE = Path(__file__).parent
GRIDS = ("study", "gap", "budget", "experiments", "teachers", "optimizers")
COUNTS = {"cub": (5864, 2958, 2966), "lspet": (10_000, 1_000, 1_000)}  # train, val and test images: the paper's

Image = dict[str, Any]


def unpack(archive: Path, folder: Path) -> dict[str, Any]:
    """The annotations of an archive, whose images are then in ``folder``."""
    if not (folder / "annotations.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    content: dict[str, Any] = json.loads((folder / "annotations.json").read_text())
    return content


def write_part(content: dict[str, Any], file: Path, wanted: Callable[[Image], bool]) -> int:
    """Some images of a COCO file, without the splits that it brings."""
    images = [{key: value for key, value in i.items() if key != "split"} for i in content["images"] if wanted(i)]
    ids = {image["id"] for image in images}
    annotations = [a for a in content["annotations"] if a["image_id"] in ids]
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": content["categories"]}))
    return len(images)


def prepare(shared: Path, name: str, folder: Path, *, tested: bool = True) -> Path:
    """A dataset file with the paper's split, of which test images may be left out."""
    if name == "cub":  # by species: 100, 50 and 50
        birds = unpack(shared / "data" / "cub.tar", folder / "cub")
        counts = (
            write_part(birds, folder / "cub" / "train.json", lambda image: image["class_id"] <= 100),
            write_part(birds, folder / "cub" / "val.json", lambda image: 100 < image["class_id"] <= 150),
            write_part(birds, folder / "cub" / "test.json", lambda image: image["class_id"] > 150),
        )
        parts = {part: f"cub/{part}.json" for part in ("train", "val", "test")}
    else:  # LSPET trains, LSP's customary halves validate and test
        extended = unpack(shared / "data" / "lspet.tar", folder / "lspet")
        sports = unpack(shared / "data" / "lsp.tar", folder / "lsp")
        counts = (
            write_part(extended, folder / "lspet" / "train.json", lambda image: True),
            write_part(sports, folder / "lsp" / "val.json", lambda image: image["split"] == "train"),
            write_part(sports, folder / "lsp" / "test.json", lambda image: image["split"] == "test"),
        )
        parts = {"train": "lspet/train.json", "val": "lsp/val.json", "test": "lsp/test.json"}
    assert counts == COUNTS[name], f"{name}: {counts} images, the paper has {COUNTS[name]}"
    test = f"test: {parts['test']}\n" if tested else ""
    file = folder / (f"{name}.yaml" if tested else f"{name}-val.yaml")
    file.write_text(f"labeled: {parts['train']}\nval: {parts['val']}\n{test}")
    return file


def study_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What the benchmarks that run a study have in common, after arguments of their own."""
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data and the runs")
    parser.add_argument("--rows", nargs="+", help="only these")
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="keys to set in all runs")
    return parser.parse_intermixed_args()


def carry_on(
    grid: str, name: str, files: dict[str, Path], arguments: argparse.Namespace, *, whole: bool = True
) -> None:
    """Run what results/NAME.csv lacks of a grid on some datasets; the csv and its table are of ``whole`` studies."""
    out = arguments.out / name.replace("_", "-")
    csv, table = (HERE / "results" / f"{name}{suffix}" for suffix in (".csv", ".md"))
    try:
        with open_watch(quiet=False) as watch:
            result = study(
                str(HERE / grid),
                files,
                out,
                watch,
                workers=arguments.workers,
                overrides=dict(parse_override(text) for text in arguments.overrides),
                datasets=list(files),
                rows=arguments.rows,
                seeds=arguments.seeds,
                known=csv if csv.exists() else None,
            )
        print(f"{len(result.failed)} runs failed: {result.failed}" if result.failed else "all runs are done")
    except KeyboardInterrupt:
        raise SystemExit("interrupted: the same command carries on") from None
    finally:
        if whole and not arguments.overrides and (out / "results.csv").exists():
            shutil.copy(out / "results.csv", csv)
            shutil.copy(out / "table.md", table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="folder with data/cub.tar, data/lspet.tar and data/lsp.tar")
    parser.add_argument("name", choices=COUNTS)
    parser.add_argument("--grid", choices=GRIDS, default=GRIDS[0], help="what is run")
    arguments = study_arguments(parser)
    grid, name = arguments.grid, arguments.name
    tested = read_study(str(HERE / f"{grid}.yaml")).scored_on == "test"
    file = prepare(arguments.shared, name, arguments.out / "study-data", tested=tested)
    carry_on(f"{grid}.yaml", f"{grid}_{name}", {name: file}, arguments)


if __name__ == "__main__":
    main()
