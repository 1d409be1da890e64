"""Real birds: PLACL on CUB-200-2011 with 5 % of the labels, the paper's split by species, preset `cpu`.

    python benchmarks/cub.py ../shared/data/cub.tar --seeds 0 1 2

Unpacks the archive, writes one COCO file each for training, validation and test (species 1-100, 101-150, 151-200),
trains each seed in its own run folder and writes `benchmarks/results/cub.csv`. Interrupted, it carries on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path

from placl.files import write_csv

SPECIES = {"train": range(1, 101), "val": range(101, 151), "test": range(151, 201)}
COUNTS = {"train": 5864, "val": 2958, "test": 2966}
RESULTS = Path(__file__).parent / "results"


def prepare(archive: Path, folder: Path) -> None:
    """Unpack the images and write train.json, val.json and test.json beside them."""
    if all((folder / f"{part}.json").exists() for part in SPECIES):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    everything = json.loads((folder / "annotations.json").read_text())
    for part, species in SPECIES.items():
        images = [image for image in everything["images"] if image["class_id"] in species]
        ids = {image["id"] for image in images}
        annotations = [a for a in everything["annotations"] if a["image_id"] in ids]
        if len(annotations) != COUNTS[part]:
            sys.exit(f"{archive}: {len(annotations)} instances for {part}, the paper has {COUNTS[part]}")
        content = {"images": images, "annotations": annotations, "categories": everything["categories"]}
        (folder / f"{part}.json").write_text(json.dumps(content))


def command(data: Path, out: Path, seed: int, overrides: list[str]) -> list[str]:
    return [
        *(sys.executable, "-m", "placl", "train", "--json", "--preset", "cpu"),
        *("--labeled", str(data / "train.json"), "--val", str(data / "val.json"), "--test", str(data / "test.json")),
        *("--out", str(out), "data.label_fraction=0.05", f"seed={seed}", f"data.split_seed={seed}", "reference=true"),
        *overrides,
    ]


def summarise(runs: list[tuple[int, dict]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for seed, result in runs:
        test = {row["stage"]: row["test"] for row in result["stages"]}
        rows.append(
            {
                "seed": seed,
                "supervised_5": test.get("few", test["round_0"]),
                "placl": test[result["best"]],
                "supervised_100": test["full"],
                "gap_recovered": round(result["gap_recovered"], 4),
                # The networks that labelled; with `teacher` they are not of the compared network's size and budget.
                **{stage: score for stage, score in test.items() if stage.startswith("round_")},
                "stage": result["best"],
                "minutes": round(result["seconds"] / 60, 1),
                "weights_sha256": next(r["weights_sha256"] for r in result["stages"] if r["stage"] == result["best"]),
            }
        )
    return with_mean_and_deviation(rows)


def with_mean_and_deviation(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows of the seeds, and one each for the mean and the deviation of their numbers."""
    if len(rows) < 2:
        return rows
    numbers = {key: [float(str(row[key])) for row in rows] for key, value in rows[0].items() if type(value) is float}
    mean = {"seed": "mean", **{key: round(statistics.mean(values), 4) for key, values in numbers.items()}}
    deviation = {"seed": "std", **{key: round(statistics.stdev(values), 4) for key, values in numbers.items()}}
    return [*rows, mean, deviation]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data and the runs")
    parser.add_argument("--csv", type=Path, default=RESULTS / "cub.csv")
    parser.add_argument("overrides", nargs="*", help="key=value, handed to placl train", metavar="key=value")
    arguments = parser.parse_intermixed_args()
    data = arguments.out / "cub-data"
    prepare(arguments.archive, data)
    runs = []
    for seed in arguments.seeds:
        call = command(data, arguments.out / f"cub-{seed}", seed, arguments.overrides)
        done = subprocess.run(call, stdout=subprocess.PIPE, check=True, text=True)
        runs.append((seed, json.loads(done.stdout)))
        write_csv(arguments.csv, summarise(runs))
    print(arguments.csv.read_text())


if __name__ == "__main__":
    main()
