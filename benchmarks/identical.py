"""The same bits, however a run went: uninterrupted, killed in the middle of a training, and without worker processes.

    python benchmarks/identical.py ../shared/data/cub.tar

Runs `benchmarks/cub.py`'s training of one seed three times (three times its time) and compares the sha256 of all
weights in `results.csv`. A run that is there already is used as it is. Writes `benchmarks/results/identical.csv`.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import time
from pathlib import Path

from cub import RESULTS, command, prepare
from placl.files import write_csv

INTO_IT = 30  # seconds that the next training has run when it is killed


def hashes(run: Path) -> dict[str, str]:
    with open(run / "results.csv", newline="") as file:
        return {row["stage"]: row["weights_sha256"] for row in csv.DictReader(file)}


def trainings(run: Path) -> int:
    journal = run / "journal.jsonl"
    return journal.read_text().count('"kind": "training"') if journal.exists() else 0


def start_and_kill(call: list[str], run: Path, after: int) -> None:
    """Start a run, and kill it and its workers in the training after the first ``after`` of them."""
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, start_new_session=True)
    while trainings(run) < after and process.poll() is None:
        time.sleep(0.2)
    time.sleep(INTO_IT)
    if process.poll() is not None:
        raise SystemExit(f"{run}: ended {INTO_IT} s after {after} trainings, and could not be killed")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    print(f"killed with {trainings(run)} trainings done; starting again", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data and the runs")
    parser.add_argument("--kill-after", type=int, default=3, help="trainings")
    parser.add_argument("overrides", nargs="*", help="key=value, handed to placl train", metavar="key=value")
    arguments = parser.parse_intermixed_args()
    data = arguments.out / "cub-data"
    prepare(arguments.archive, data)
    runs = {name: arguments.out / f"cub-{arguments.seed}{suffix}" for name, suffix in
            (("uninterrupted", ""), ("killed", "-killed"), ("serial", "-serial"))}  # fmt: skip
    for name, run in runs.items():
        extra = {"serial": ["execute.where=serial"], "killed": ["execute.workers=2"]}.get(name, [])
        call = command(data, run, arguments.seed, [*arguments.overrides, *extra])
        was_killed = run.with_name(f"{run.name}.was-killed")  # this script may itself be carried on
        if name == "killed" and not was_killed.exists():
            start_and_kill(call, run, arguments.kill_after)
            was_killed.touch()
        subprocess.run(call, stdout=subprocess.DEVNULL, check=True)
    found = {name: hashes(run) for name, run in runs.items()}
    rows = [
        {"stage": stage, **{name: found[name].get(stage, "") for name in found}, "identical": len(
            {found[name].get(stage) for name in found}) == 1}
        for stage in found["uninterrupted"]
    ]  # fmt: skip
    write_csv(RESULTS / "identical.csv", rows)
    print((RESULTS / "identical.csv").read_text())
    raise SystemExit(not all(row["identical"] for row in rows))


if __name__ == "__main__":
    main()
