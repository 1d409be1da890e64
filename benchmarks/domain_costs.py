"""What a whole run of each method across domains takes at scale=cpu, beside training on the source alone.

    python benchmarks/domain_costs.py ../shared [--target dog] [--repeats 3]

Every run is one of `benchmarks/domains.py` in a process and a folder of its own, so that none finds the networks of
another. Training on the source alone comes before each of them, and the ratio is to that one: a machine with neighbours
is slower at one hour than at another. Seconds are those of all its trainings added up, side by side or not: by the
clock it can be fewer. Memory is the most that the run's processes held together. Medians of the repeats. Writes
`benchmarks/results/domain_costs.csv`.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from domains import prepare
from placl.config_checks import ACROSS
from placl.data.protocols import ANIMALS
from placl.files import write_csv
from placl.studies import study
from soak import memory

HERE = Path(__file__).parent
BASE = "source_only"
METHODS = ("domain_confusion", "residual_transfer", "cyclegan_pl", "ws_cda_pplo", "placl")


class Cost(NamedTuple):
    seconds: float
    images: int
    megabytes: float


def cost(shared: Path, target: str, method: str) -> Cost:
    """Of a run in another process, which begins with nothing."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, __file__, str(shared), "--target", target, "--run", method, "--out", out]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        most, mine = 0.0, memory()
        while process.poll() is None:
            most = max(most, memory() - mine)
            time.sleep(0.5)
        if process.returncode:
            raise SystemExit(f"{method}: exit code {process.returncode}")
        with (Path(out) / "results.csv").open() as file:
            (row,) = csv.DictReader(file)
    return Cost(float(row["seconds"]), int(row["images"]), most)


def run(shared: Path, target: str, method: str, out: Path) -> None:
    name = f"{ACROSS}{target}"
    files = {name: prepare(shared, out / "data")[name]}
    study(str(HERE / "domains.yaml"), files, out, workers=1, datasets=[name], rows=[method], seeds=[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="folder with data/animalpose.tar")
    parser.add_argument("--target", choices=ANIMALS, default="dog")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--run", choices=(BASE, *METHODS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run(arguments.shared, arguments.target, arguments.run, arguments.out)
    pairs: dict[str, list[tuple[Cost, Cost]]] = {method: [] for method in METHODS}
    for _ in range(arguments.repeats):
        for method, found in pairs.items():
            base, own = (cost(arguments.shared, arguments.target, name) for name in (BASE, method))
            found.append((base, own))
            print(method, own, "beside", base, flush=True)
    alone = [(base, base) for found in pairs.values() for base, _ in found]
    memory_alone = median(base.megabytes for base, _ in alone)
    rows = [
        {
            "method": method,
            "seconds": round(median(own.seconds for _, own in found), 1),
            "times_source_only": round(median(own.seconds / base.seconds for base, own in found), 2),
            "images": found[0][1].images,
            "megabytes": round(median(own.megabytes for _, own in found)),
            "memory_times_source_only": round(median(own.megabytes for _, own in found) / memory_alone, 2),
        }
        for method, found in {BASE: alone, **pairs}.items()
    ]
    write_csv(HERE / "results" / "domain_costs.csv", rows)
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
