"""Is a plan right? Plan a training, run it, and compare the seconds.

    python benchmarks/plan.py ../shared/data/cub.tar

Two trainings with small budgets: animals drawn by code (about 3 minutes on two cores) and real birds (about 5). Each is
planned by `placl plan` and run by `placl train`, with the same arguments, and timed from start to end.
Writes `benchmarks/results/plan.csv`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from cub import RESULTS, prepare
from placl.data.synthetic import write_animals
from placl.files import write_csv

REDUCED = {
    "animals": [
        *("teacher.input_size=null", "train.steps_per_epoch=10", "reference=true", "search.searcher=ppo2"),
        *("proxy.steps_per_epoch=2", "search.steps=3", "search.samples=4"),
    ],
    "cub": [
        *("train.steps_per_epoch=10", "search.searcher=ppo2", "proxy.steps_per_epoch=2", "search.steps=3"),
        *("search.samples=4", "proxy.val_images=500", "reference=true"),
    ],
}


def sources(name: str, archive: Path, out: Path) -> list[str]:
    """Arguments that name the data, which are made where they are not there yet."""
    data = out / f"{name}-data"
    if name == "cub":
        prepare(archive, data)
        parts = [data / f"{part}.json" for part in ("train", "val", "test")]
    else:
        parts = [data / part for part in ("train", "val", "test")]
        for seed, (part, count) in enumerate(zip(parts, (2000, 400, 600), strict=True)):
            if not (part / "annotations.json").exists():
                write_animals(part, count, seed=seed)
        parts = [part / "annotations.json" for part in parts]
    return [word for flag, part in zip(("--labeled", "--val", "--test"), parts, strict=True) for word in (flag, part)]


def timed(command: str, arguments: list[str]) -> tuple[dict, float]:
    begun = time.monotonic()
    call = [sys.executable, "-m", "placl", command, "--json", "--quiet", *arguments]
    done = subprocess.run(call, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout), time.monotonic() - begun


def compare(name: str, archive: Path, out: Path, overrides: list[str]) -> dict[str, object]:
    run = out / f"plan-{name}"
    shutil.rmtree(run, ignore_errors=True)
    given = ["--preset", "cpu", *map(str, sources(name, archive, out)), "--out", str(run), "data.label_fraction=0.05"]
    given += [*REDUCED[name], *overrides]
    planned, planning = timed("plan", given)
    _, real = timed("train", given)
    units = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    images = [unit.get("images", unit.get("outcome", {}).get("images", 0)) for unit in units]
    size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    return {
        "data": name,
        "planned_seconds": round(planned["seconds"], 1),
        "real_seconds": round(real, 1),
        "planned_over_real": round(planned["seconds"] / real, 3),
        "seconds_of_planning": round(planning, 1),
        "candidates": planned["candidates"],
        "trainings": len(planned["trainings"]),
        "planned_images": planned["images"],
        "real_images": sum(images),
        "planned_run_bytes": planned["disk"]["run"],
        "real_run_bytes": size,
        "cores": os.cpu_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--data", nargs="+", choices=list(REDUCED), default=list(REDUCED))
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data and the runs")
    parser.add_argument("overrides", nargs="*", help="key=value, handed to both commands", metavar="key=value")
    arguments = parser.parse_intermixed_args()
    rows = [compare(name, arguments.archive, arguments.out, arguments.overrides) for name in arguments.data]
    write_csv(RESULTS / "plan.csv", rows)
    print((RESULTS / "plan.csv").read_text())
    raise SystemExit(not all(0.7 < float(str(row["planned_over_real"])) < 1.3 for row in rows))


if __name__ == "__main__":
    main()
