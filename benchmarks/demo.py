"""`placl demo` with several seeds: how much of the gap it recovers, and how long it takes.

    python benchmarks/demo.py --seeds 0 1 2

Writes `benchmarks/results/demo.csv`. Interrupted, it carries on; the minutes are those of all sessions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from cub import RESULTS, with_mean_and_deviation
from placl.files import write_csv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the runs")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    for seed in arguments.seeds:
        out = str(arguments.out / f"demo-{seed}")
        call = [sys.executable, "-m", "placl", "demo", "--json", "--seed", str(seed), "--out", out]
        found = json.loads(subprocess.run(call, stdout=subprocess.PIPE, check=True, text=True).stdout)
        scores = {name: found[name]["pck"] for name in ("supervised", "placl", "full")}
        minutes = round(found["seconds"] / 60, 1)
        rows.append({"seed": seed, **scores, "gap_recovered": round(found["gap_recovered"], 4), "minutes": minutes})
        write_csv(RESULTS / "demo.csv", with_mean_and_deviation(rows))
    print((RESULTS / "demo.csv").read_text())


if __name__ == "__main__":
    main()
