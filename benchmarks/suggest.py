"""Are labels that `placl suggest` asks for worth more than as many random ones? On CUB, at the studies' scale cpu.

    python benchmarks/suggest.py ../shared --seeds 0 1 2

A run of `pl` on 5 % of the labels suggests 50 instances. They, or 50 random ones, get their true labels as corrections
of a person would bring them, and a supervised network is trained on all labels there are then. Writes
`benchmarks/results/suggest.csv`. Interrupted, it carries on.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np

from placl import config as configuration
from placl.api import train_with
from placl.config import Config
from placl.data.corrections import Correction, Corrections
from placl.data.load import read_instances
from placl.execute.executor import available_cores
from placl.execute.pool import PoolExecutor
from placl.execute.serial import SerialExecutor
from placl.files import write_csv
from placl.run.folder import read_split
from placl.studies.study import scale_settings
from placl.suggesting import suggest
from placl.watch import Silent
from study import prepare

RESULTS = Path(__file__).parent / "results"
WAYS = ("none", "random", "suggested")


class Steps:
    """The task of the workers: a first run and its corrections, or a training with some of them."""

    def __init__(self, file: Path, out: Path, count: int) -> None:
        self.file, self.out, self.count = file, out, count

    def run(self, job: tuple[int, str], on_progress: object) -> dict[str, object]:
        seed, way = job
        place = self.out / f"seed{seed}"
        if way == "first":
            train_with(self._config(seed, "pl"), place / "first", Silent(), executor=SerialExecutor())
            self._correct(place, seed)
            return {}
        config = self._config(seed, "supervised", None if way == "none" else place / f"{way}.jsonl")
        result = train_with(config, place / way, Silent(), executor=SerialExecutor())
        row = result.rows[-1]
        return {"seed": seed, "added": way, "labels": row["labels"], "test": row["test"], "val": row["val"]}

    def _config(self, seed: int, method: str, corrections: Path | None = None) -> Config:
        own = {"data": str(self.file), "data.label_fraction": 0.05, "data.split_seed": seed, "seed": seed}
        more = {"data.corrections": [str(corrections)]} if corrections else {}
        return configuration.load(None, {**scale_settings("cpu", "cub"), **own, "method": method, **more})

    def _correct(self, place: Path, seed: int) -> None:
        """A file of corrections for either way."""
        run = place / "first"
        split = read_split(run)
        assert split is not None
        hidden = sorted((*split.half_1, *split.half_2))
        chosen = {
            "random": np.random.default_rng(seed).choice(hidden, self.count, replace=False).tolist(),
            "suggested": [one.id for one in suggest(run, self.count)],
        }
        truth, _, _ = read_instances(self._config(seed, "pl").data)
        row_of = {name: row for row, name in enumerate(truth.ids)}
        assert truth.skeleton is not None
        for way, ids in chosen.items():
            file = place / f"{way}.jsonl"
            file.unlink(missing_ok=True)
            corrections = Corrections(file, truth.skeleton)
            for row in (row_of[name] for name in ids):
                corrections.save(
                    Correction(
                        id=truth.ids[row],
                        verdict="accepted",
                        keypoints=tuple((float(x), float(y)) for x, y in truth.keypoints[row]),
                        visibility=tuple(int(v) for v in truth.visibility[row]),
                        image=str(truth.images[truth.image_index[row]]),
                        box=tuple(truth.boxes[row].tolist()),
                    )
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="folder with data/cub.tar")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data and the runs")
    arguments = parser.parse_args()
    file = prepare(arguments.shared, "cub", arguments.out / "study-data")
    steps = Steps(file.resolve(), (arguments.out / "suggest").resolve(), arguments.count)
    rows: dict[int, dict[str, object]] = {}
    pool = PoolExecutor(available_cores())
    try:
        for jobs in ([(seed, "first") for seed in arguments.seeds], [(s, w) for w in WAYS for s in arguments.seeds]):
            pool.run(steps, dict(enumerate(jobs)), rows.__setitem__, lambda number, done, total: None)
    finally:
        pool.close()
    found = [rows[number] for number in sorted(rows)]
    write_csv(RESULTS / "suggest.csv", found)
    for way in WAYS:
        scores = [float(str(row["test"])) for row in found if row["added"] == way]
        print(f"{way:10} {statistics.mean(scores):.2f} +- {statistics.pstdev(scores):.2f}")


if __name__ == "__main__":
    main()
