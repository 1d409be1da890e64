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
from pathlib import Path
from typing import Any

from placl.config_checks import ACROSS
from placl.data.formats.animalpose import SIGMAS
from placl.data.protocols import ANIMALS
from study import carry_on, study_arguments, unpack

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
    parser.add_argument("--targets", nargs="+", choices=ANIMALS, default=ANIMALS)
    arguments = study_arguments(parser)
    files = prepare(arguments.shared, arguments.out / "study-data")
    chosen = {name: file for name, file in files.items() if name.removeprefix(ACROSS) in arguments.targets}
    carry_on("domains.yaml", "domains", chosen, arguments, whole=chosen == files)


if __name__ == "__main__":
    main()
