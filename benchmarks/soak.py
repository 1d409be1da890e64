"""A long run in short: thousands of tiny candidates through the pool, and what they leave behind.

    python benchmarks/soak.py [--candidates 2000]

Candidates are real trainings on drawn animals, of one step each, in tasks of 20 as a search would send them. After 200
and after all of them it is measured how much memory this process and its workers hold together, and how many files
they have open; after the end, whether processes, shared memory or temporary files are left. Writes
`benchmarks/results/soak.csv`. Fails where memory grew by more than 3 % or anything is left.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from placl import config as configuration
from placl.curriculum.curriculum import Curriculum
from placl.data.packed import read_pool, write_pool
from placl.data.synthetic import animals
from placl.execute.pool import PoolExecutor
from placl.files import write_csv
from placl.learn.candidate import Job, Outcome, Task
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels

RESULTS = Path(__file__).parent / "results"
SETTINGS = {
    **{"model.input_size": 32, "model.width": 0.5, "train.epochs": 1, "train.epoch": "steps", "train.batch": 8},
    **{"train.steps_per_epoch": 1, "search.group_size": 1, "execute.threads": 1, "execute.device": "cpu"},
    **{"train.optimizer": "adamw", "train.lr": 0.002, "train.labelled_share": 0.5},
    **{"proxy.epochs": None, "proxy.steps_per_epoch": None, "proxy.val_images": None},
    **{"teacher.input_size": None, "teacher.steps_per_epoch": None, "label.rotations": [0], "label.scales": [1.0]},
}
FIRST, STEP, GROWTH = 200, 20, 1.03


def family() -> list[int]:
    """This process and all below it."""
    found = [os.getpid()]
    for pid in found:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            continue
    return found


def memory() -> float:
    """Megabytes that the family holds together; what several share counts once."""
    total = 0
    for pid in family():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def open_files() -> int:
    total = 0
    for pid in family():
        try:
            total += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue
    return total


def litter() -> set[str]:
    """Shared memory and temporary files of ours."""
    return {f"{place}/{name}" for place in ("/dev/shm", tempfile.gettempdir()) for name in os.listdir(place)
            if name.startswith(("torch_", "psm_", "sem.", "pym-", "placl"))}  # fmt: skip


def of_strangers(name: str) -> bool:
    """Whether a living process that is none of ours has it mapped: other work goes on on this machine."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            if int(maps.parent.name) not in family() and name in maps.read_text():
                return True
        except OSError:
            continue
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=2000)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    before = litter()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        pool = read_pool(write_pool(animals(40, 0, size=32), Path(folder) / "pool"))
        labelled, hidden, val = (pool.take(index) for index in np.split(np.arange(40), [16, 32]))
        pseudo = PseudoLabels(hidden.keypoints, np.full(hidden.visibility.shape, 0.5, np.float32), "soak")
        data = TrainingSet(labelled, hidden.without_labels(), pseudo)
        config = configuration.load(None, SETTINGS)
        executor, outcomes, start = PoolExecutor(2), list[Outcome](), time.monotonic()
        for first in range(0, arguments.candidates, STEP):
            jobs = {n: Job(Curriculum((n / arguments.candidates,)), seed=n) for n in range(first, first + STEP)}
            executor.run(Task(config, data, val), jobs, lambda _, outcome: outcomes.append(outcome), lambda *_: None)
            if len(outcomes) in (FIRST, arguments.candidates):
                gc.collect()
                seconds = round(time.monotonic() - start, 1)
                rows.append({"candidates": len(outcomes), "memory_mb": round(memory(), 1), "open_files": open_files(),
                             "processes": len(family()), "seconds": seconds})  # fmt: skip
                print(rows[-1], flush=True)
        executor.close()
    workers = [pid for pid in family() if Path(f"/proc/{pid}/comm").exists()][1:]
    # The server that forks workers, and the tracker of what they share, live as long as this process.
    left = {"litter": sorted(name for name in litter() - before if not of_strangers(name)), "workers": len(workers) - 2}
    print(left)
    grown = rows[-1]["memory_mb"] / rows[0]["memory_mb"]
    print(f"memory {grown:.3f} of that after {FIRST}; open files {rows[0]['open_files']} -> {rows[-1]['open_files']}")
    write_csv(RESULTS / "soak.csv", [{**row, "left": len(left["litter"]) + max(0, left["workers"])} for row in rows])
    flat = grown <= GROWTH and rows[-1]["open_files"] <= rows[0]["open_files"]
    raise SystemExit(not (flat and not left["litter"] and left["workers"] <= 0))


if __name__ == "__main__":
    main()
