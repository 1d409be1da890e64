"""Table 2 on real AnimalPose at scale=cpu: four classes have labels, the fifth is there only as images.

    python benchmarks/domains.py ../shared
    python benchmarks/domains.py ../shared --targets cat --rows source_only placl --seeds 0

Test images are those of the archive's `split_suggested`. Of the others a part validates, by photograph and in the
paper's proportion of training and validation images (2,798 to 810), drawn by a fixed seed. Hours on two cores, and it
can be interrupted at any moment: the same command carries on, also on another machine. What is finished stands in
benchmarks/results/domains.csv and .md, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from pathlib import Path
from typing import Any

from placl.cli.progress import open_watch
from placl.config import ACROSS, parse_override
from placl.data.formats.animalpose import SIGMAS
from placl.data.protocols import ANIMALS
from placl.studies import study
from study import unpack

HERE = Path(__file__).parent
COUNTS = {"train": 3620, "val": 1051, "test": 1182}  # instances, each in a crop of its own


def divide(content: dict[str, Any]) -> dict[str, Any]:
    """Every crop with the split of its photograph, and the sigmas that AnimalPose's keypoints have elsewhere."""
    photographs = sorted({i["source_file"] for i in content["images"] if i["split_suggested"] == "train"})
    held_out = round(len(photographs) * 810 / (2798 + 810))
    val = set(random.Random(0).sample(photographs, held_out))
    images = [
        {**image, "split": "val" if image["source_file"] in val else image["split_suggested"]}
        for image in content["images"]
    ]
    categories = [{**c, "sigmas": [SIGMAS[name] for name in c["keypoints"]]} for c in content["categories"]]
    return {"images": images, "annotations": content["annotations"], "categories": categories}


def prepare(shared: Path, folder: Path) -> dict[str, Path]:
    """A dataset file for each target."""
    content = divide(unpack(shared / "data" / "animalpose.tar", folder / "animalpose"))
    counts = {split: sum(image["split"] == split for image in content["images"]) for split in COUNTS}
    assert counts == COUNTS, f"{counts} instances, expected {COUNTS}"
    (folder / "animalpose" / "divided.json").write_text(json.dumps(content))
    files = {}
    for target in ANIMALS:
        others = ", ".join(name for name in ANIMALS if name != target)
        file = files[f"{ACROSS}{target}"] = folder / f"{target}.yaml"
        file.write_text(
            f"source: {{path: animalpose/divided.json, classes: [{others}]}}\n"
            f"target: {{path: animalpose/divided.json, classes: [{target}]}}\n"
            "ignore_target_labels: true\n"
        )
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="folder with data/animalpose.tar")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data and the runs")
    parser.add_argument("--targets", nargs="+", choices=ANIMALS, default=ANIMALS)
    parser.add_argument("--rows", nargs="+", help="only these")
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="keys to set in all runs")
    arguments = parser.parse_intermixed_args()
    files = prepare(arguments.shared, arguments.out / "study-data")
    out = arguments.out / "study-domains"
    csv, table = (HERE / "results" / f"domains{suffix}" for suffix in (".csv", ".md"))
    try:
        with open_watch(quiet=False) as watch:
            result = study(
                str(HERE / "domains.yaml"),
                files,
                out,
                watch,
                workers=arguments.workers,
                overrides=dict(parse_override(text) for text in arguments.overrides),
                datasets=[f"{ACROSS}{target}" for target in arguments.targets],
                rows=arguments.rows,
                seeds=arguments.seeds,
                known=csv if csv.exists() else None,
            )
        print(f"{len(result.failed)} runs failed: {result.failed}" if result.failed else "all runs are done")
    except KeyboardInterrupt:
        raise SystemExit("interrupted: the same command carries on") from None
    finally:
        everything = arguments.targets == ANIMALS and not (arguments.rows or arguments.seeds or arguments.overrides)
        if everything and (out / "results.csv").exists():
            shutil.copy(out / "results.csv", csv)
            shutil.copy(out / "table.md", table)


if __name__ == "__main__":
    main()
