"""All of `placl bench` on real images, as one csv with the machine's description.

    python benchmarks/speed.py ../shared

Reads `data/cub.tar` (128 px crops), `formats/cub` (photographs) and `data/lspet.tar` (10,000 files to import) there.
Run it on an idle machine. Writes `benchmarks/results/speed.csv`.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from placl.files import write_csv

RESULTS = Path(__file__).parent / "results" / "speed.csv"


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return next(folder.rglob("annotations.json")).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="inner-loop, label, import, executor, memory")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    known = list(csv.DictReader(RESULTS.read_text().splitlines())) if RESULTS.exists() else []
    with tempfile.TemporaryDirectory() as place:
        crops = unpack(arguments.shared / "data" / "cub.tar", Path(place) / "cub") / "images"
        people = unpack(arguments.shared / "data" / "lspet.tar", Path(place) / "lspet")
        photographs = arguments.shared / "formats" / "cub"
        benches = {
            "inner-loop": ["--crops", str(crops), "--photographs", str(photographs), "--repeats", "9"],
            "label": ["--repeats", "9"],
            "import": [str(people), "--repeats", "9"],
            "executor": ["--repeats", "3"],
            "memory": [],
        }
        for name, options in benches.items():
            if arguments.only and name not in arguments.only:
                continue
            command = [sys.executable, "-m", "placl", "bench", name, "--json", *options]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
            machine = found.pop("machine")
            rows += [{"bench": name, "figure": key, "value": value, "machine": machine} for key, value in found.items()]
            print(name, found, file=sys.stderr)
            done = {row["bench"] for row in rows}
            write_csv(RESULTS, [*(row for row in known if row["bench"] not in done), *rows])
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
