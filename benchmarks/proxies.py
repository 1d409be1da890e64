"""How well cheap rewards rank curricula: short trainings, few validation images and a smooth metric against full ones.

    python benchmarks/proxies.py ../shared cub        # and lspet
    python benchmarks/proxies.py --table              # what came out of those that are finished

The supervised network of split 7 (which no table uses) labels all unlabelled images, and networks are trained on them
under eight curricula, from 0 throughout to such as end at 0.9: twice in full, and with half and a quarter of the steps.
Whatever a reward is measured by, it ranks the eight; how well is its rank correlation with the full trainings' mean PCK
on the whole validation set (of the other full training, for a reward that is one itself). What a choice by a full
training is worth is the other training's PCK under the curriculum that it chooses. Test images are not read. It can be
interrupted: the same command carries on. Results: benchmarks/results/proxies.csv, a line a training.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from placl import config as configuration
from placl.api import draw_roles
from placl.config import Config
from placl.curriculum.curriculum import Curriculum, constant
from placl.data.load import load_dataset
from placl.data.pool import Pool
from placl.data.splits import make_problem
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import inner_loop
from placl.learn.label import label
from placl.learn.score import score
from placl.models.zoo import KeypointNet
from placl.studies.study import scale_settings
from study import COUNTS, prepare

CSV = Path(__file__).parent / "results" / "proxies.csv"
SEED = 7
AS_IT_WAS = {"train.steps_per_epoch": 60, "train.weight_decay": 0.01}  # scale cpu, when these trainings were run
CURRICULA = (
    *(Curriculum((level,) * 4) for level in (0.0, 0.3, 0.6, 0.9)),
    Curriculum((0.0, 0.1, 0.2, 0.3)),
    Curriculum((0.2, 0.37, 0.53, 0.7)),
    Curriculum((0.3, 0.5, 0.7, 0.9)),
    Curriculum((0.7, 0.53, 0.37, 0.2)),
)
TRAININGS = ((1.0, 0), (1.0, 1), (0.5, 0), (0.25, 0))  # share of the steps, and which of several with these
FEW = 0.05  # of the validation images, as of the labels
DRAWS = 20  # of so few images
COLUMNS = ("dataset", "thresholds", "steps", "draw", "pck", "auc", *(f"few_{n}" for n in range(DRAWS)), "seconds")

Row = dict[str, str]


def settings(file: Path, name: str, **own: object) -> Config:
    return configuration.load(
        None,
        {
            **scale_settings("cpu", name),
            **AS_IT_WAS,
            "data": str(file),
            "reward.metric": "pck",
            "reward.alpha": 0.1,
            "data.label_fraction": 0.05,
            "data.split_seed": SEED,
            "seed": SEED,
            **own,
        },
    )


def rewards(net: KeypointNet, config: Config, val: Pool) -> Row:
    """What a trained network is worth by each of the measures."""
    found = label(net, val, config)
    values = {
        "pck": score(found, val, config.reward).value,
        "auc": score(found, val, config.reward.model_copy(update={"metric": "pck_auc"})).value,
    }
    random = np.random.default_rng(0)  # the same images for all networks
    for draw in range(DRAWS):
        few = np.sort(random.choice(len(val), round(FEW * len(val)), replace=False))
        values[f"few_{draw}"] = score(found.take(few), val.take(few), config.reward).value
    return {key: f"{value:.4f}" for key, value in values.items()}


def read() -> list[Row]:
    return list(csv.DictReader(CSV.read_text().splitlines())) if CSV.exists() else []


def append(file: Path, row: Row, columns: Sequence[str]) -> None:
    is_new = not file.exists()
    with open(file, "a", newline="") as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def key_of(row: Row) -> tuple[str, ...]:
    return row["dataset"], row["thresholds"], row["steps"], row["draw"]


def run(shared: Path, name: str, out: Path) -> None:
    file = prepare(shared, name, out / "study-data", tested=False)
    config = settings(file, name)
    dataset = load_dataset(config.data, config.view)
    problem = make_problem(dataset.pool, draw_roles(dataset, config))
    first = inner_loop(config, TrainingSet(problem.labelled), constant(0.0), SEED)
    pseudo = label(first.net, problem.unlabelled, config, all_views=True)
    data = TrainingSet(problem.labelled, problem.unlabelled, pseudo)
    for share, draw in TRAININGS:
        own = settings(file, name, **{"train.steps_per_epoch": round(share * config.train.steps_per_epoch)})
        for curriculum in CURRICULA:
            row = {
                "dataset": name,
                "thresholds": " ".join(f"{threshold:g}" for threshold in curriculum.thresholds),
                "steps": f"{own.train.epochs * own.train.steps_per_epoch}",
                "draw": f"{draw}",
            }
            if key_of(row) in map(key_of, read()):
                continue
            start = time.perf_counter()
            net = inner_loop(own, data, curriculum, 1000 * SEED + draw).net
            row |= {**rewards(net, config, problem.val), "seconds": f"{time.perf_counter() - start:.0f}"}
            append(CSV, row, COLUMNS)
            print(f"{name}, {row['thresholds']}, {row['steps']} steps: {row['pck']}", flush=True)


def rank_correlation(one: list[float], other: list[float]) -> float:
    return float(spearmanr(one, other).statistic)


def choice_worth(rewards: list[float], truth: list[float]) -> float:
    """What the curriculum that the rewards like best is worth."""
    return truth[int(np.argmax(rewards))]


@dataclass(frozen=True)
class Trained:
    """The finished trainings of a dataset, each a list over the curricula."""

    by: dict[tuple[str, str], list[Row]]  # (steps, draw)

    @classmethod
    def read(cls, name: str) -> Trained:
        by: dict[tuple[str, str], list[Row]] = {}
        for row in read():
            if row["dataset"] == name:
                by.setdefault((row["steps"], row["draw"]), []).append(row)
        return cls(by)

    @property
    def steps(self) -> list[str]:
        """Of full trainings first."""
        return sorted({steps for steps, _ in self.by}, key=int, reverse=True)

    def values(self, steps: str, draw: str, column: str) -> list[float]:
        return [float(row[column]) for row in self.by[steps, draw]]

    @property
    def truth(self) -> list[float]:
        """Means of the full trainings."""
        pairs = zip(*(self.values(self.steps[0], draw, "pck") for draw in "01"), strict=True)
        return [statistics.mean(pair) for pair in pairs]

    def both_ways(self, measure: Callable[[list[float], list[float]], float], columns: Sequence[str]) -> float:
        """The mean of a measure of one full training's reward and the other's PCK."""
        full = self.steps[0]
        return statistics.mean(
            measure(self.values(full, own, column), self.values(full, other, "pck"))
            for column in columns
            for own, other in ("01", "10")
        )


FEW_COLUMNS = tuple(f"few_{n}" for n in range(DRAWS))
REWARDS = {
    "another full training": ("pck",),
    "another full training, area under the PCK curve": ("auc",),
    "another full training, a twentieth of the validation images": FEW_COLUMNS,
}


def table(name: str) -> list[tuple[str, float]]:
    """Rank correlations on a dataset -> what a reward is measured by, and how well it ranks."""
    trained = Trained.read(name)
    lines = [(title, trained.both_ways(rank_correlation, columns)) for title, columns in REWARDS.items()]
    for steps in trained.steps[1:]:
        for title, column in ((f"{steps} steps", "pck"), (f"{steps} steps, area under the PCK curve", "auc")):
            lines.append((title, rank_correlation(trained.values(steps, "0", column), trained.truth)))
    return lines


def choices(name: str) -> list[tuple[str, float]]:
    """What choosing among the curricula is worth, by the PCK of a training that took no part in the choice."""
    trained = Trained.read(name)
    lines = [(f"chosen by {title}", trained.both_ways(choice_worth, columns)) for title, columns in REWARDS.items()]
    best = max(trained.truth)
    return [*lines, ("chosen at random", statistics.mean(trained.truth)), ("the best, chosen by both", best)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, nargs="?", help="folder with data/cub.tar and others")
    parser.add_argument("name", choices=COUNTS, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data")
    parser.add_argument("--table", action="store_true", help="only show what is finished")
    arguments = parser.parse_args()
    if not arguments.table:
        run(arguments.shared, arguments.name, arguments.out)
    for name in COUNTS:
        if any(row["dataset"] == name for row in read()):
            for title, correlation in table(name):
                print(f"{name}: {title}: {correlation:+.2f}")
            for title, worth in choices(name):
                print(f"{name}: {title}: {worth:.1f}")


if __name__ == "__main__":
    main()
