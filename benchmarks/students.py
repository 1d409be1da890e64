"""What students make of the same pseudo-labels: thresholds, weights, shares of labelled images.

    python benchmarks/study.py ../shared lspet --grid experiments --seeds 7 --rows few-rounds-raw --out runs
    python benchmarks/students.py lspet --out runs

Labels are those that the run's last network was trained on. Each student is trained once (the first three times), on
split 7, which no table uses, and scored on validation data; test images are not read. Interrupted, it carries on.
Results: benchmarks/results/students.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np

from placl.api import draw_roles
from placl.curriculum.curriculum import Curriculum, constant
from placl.data.load import load_dataset
from placl.data.pool import concatenate
from placl.data.splits import make_problem
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import inner_loop
from placl.learn.label import label
from placl.learn.pseudo_labels import PseudoLabels
from placl.learn.score import score
from placl.stages import FINAL
from proxies import SEED, append, settings
from study import COUNTS

CSV = Path(__file__).parent / "results" / "students.csv"
ROW = "few-rounds-raw"  # of experiments.yaml
RISING = Curriculum((0.1, 0.167, 0.233, 0.3))
RAW = {"select.scale": "raw"}
STUDENTS: dict[str, tuple[dict[str, Any], Curriculum, int]] = {  # settings, curriculum, seed
    "confidence from 0.1 to 0.3": (RAW, RISING, 0),
    "the same, another seed": (RAW, RISING, 1),
    "the same, a third seed": (RAW, RISING, 2),
    "confidence from 0.2 to 0.5": (RAW, Curriculum((0.2, 0.3, 0.4, 0.5)), 0),
    "ranks from 0.2 to 0.7": ({"select.scale": "quantile"}, Curriculum((0.2, 0.367, 0.533, 0.7)), 0),
    "all labels": (RAW, constant(0.0, 4), 0),
    "weights instead of thresholds": ({**RAW, "select.rule": "soft", "search.searcher": "constant"}, RISING, 0),
    "whole instances": ({**RAW, "select.level": "instance"}, RISING, 0),
    "a quarter of each batch labelled": ({**RAW, "train.labelled_share": 0.25}, RISING, 0),
    "two grey squares": ({**RAW, "augment.cutout": 2}, RISING, 0),
}
COLUMNS = ("dataset", "student", "val", "selected", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=COUNTS)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="the --out of study.py")
    arguments = parser.parse_args()
    name, out = arguments.name, arguments.out
    file = out / "study-data" / f"{name}-val.yaml"
    common = {"teacher.input_size": 64}  # crops as the run's
    config = settings(file, name, **common)
    dataset = load_dataset(config.data, config.view)
    problem = make_problem(dataset.pool, draw_roles(dataset, config))
    both = concatenate([problem.unlabelled_half(1), problem.unlabelled_half(2)])
    folder = out / f"experiments-{name}" / name / "5" / f"seed{SEED}" / ROW / FINAL / "pseudo_labels" / "both"
    pseudo = PseudoLabels(np.load(folder / "keypoints.npy"), np.load(folder / "confidence.npy"), "")
    data = TrainingSet(problem.labelled, both, pseudo)
    for student, (own, curriculum, seed) in STUDENTS.items():
        rows = list(csv.DictReader(CSV.read_text().splitlines())) if CSV.exists() else []
        if (name, student) in {(row["dataset"], row["student"]) for row in rows}:
            continue
        start = time.perf_counter()
        config = settings(file, name, **common, **own)
        trained = inner_loop(config, data, curriculum, 1000 * SEED + seed)
        row = {
            "dataset": name,
            "student": student,
            "val": f"{score(label(trained.net, problem.val, config), problem.val, config.reward).value:.4f}",
            "selected": f"{np.mean(trained.selected):.3f}",
            "seconds": f"{time.perf_counter() - start:.0f}",
        }
        append(CSV, row, COLUMNS)
        print(f"{name}, {student}: {row['val']}", flush=True)


if __name__ == "__main__":
    main()
