"""What thresholds do to the reward, and how noisy it is: all candidates of a study's searches, and a linear fit.

    python benchmarks/study.py ../shared cub --out runs      # searches, among others
    python benchmarks/candidates.py runs cub                 # what they tried and what came of it

A candidate's reward is a validation score; nothing of test data is in here. Rewards are compared within one search, and
within round 1 also between the searches of a seed that have the same pseudo-labels. Results: candidates_NAME.csv in
benchmarks/results, and on the terminal how many points of reward a threshold of 1 is above one of 0, with standard
errors, and the deviation that no threshold explains.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("method", "seed", "stage", "step", "candidate", "reward", "selected")
OTHER_IMAGES = "placl-no-cross"  # its round 1 has both halves


def gather(runs: Path, name: str) -> list[dict[str, str]]:
    """A line a candidate, of the runs with 5 % of the labels."""
    lines = []
    for file in sorted((runs / f"study-{name}" / name / "5").glob("seed*/*/*/search.csv")):
        seed, method, stage = file.parts[-4:-1]
        for row in csv.DictReader(file.read_text().splitlines()):
            tried = {key: value for key, value in row.items() if key in COLUMNS or key.startswith("gamma_")}
            rounded = {key: f"{float(value):.4f}".rstrip("0").rstrip(".") for key, value in tried.items()}
            lines.append({"method": method, "seed": seed.removeprefix("seed"), "stage": stage, **rounded})
    return lines


def search_of(line: dict[str, str]) -> tuple[str, ...]:
    """What a candidate's reward may be compared within: the supervised network's labels are one for all."""
    shared = line["stage"] == "round_1" and line["method"] != OTHER_IMAGES
    return line["seed"], line["stage"], "" if shared else line["method"]


def fit(features: np.ndarray, rewards: np.ndarray, searches: list[tuple[str, ...]]) -> tuple[np.ndarray, ...]:
    """Least squares with a level for each search -> effects, their standard errors, and the deviation that is left."""
    levels = np.array([[own == search for search in sorted(set(searches))] for own in searches], float)
    design = np.concatenate([features, levels], axis=1)
    effects = np.linalg.lstsq(design, rewards, rcond=None)[0]
    free = len(rewards) - np.linalg.matrix_rank(design)
    variance = ((rewards - design @ effects) ** 2).sum() / free
    errors = np.sqrt(np.diag(variance * np.linalg.pinv(design.T @ design)))
    count = features.shape[1]
    return effects[:count], errors[:count], np.sqrt(variance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the --out of study.py")
    parser.add_argument("name", choices=("cub", "lspet"))
    arguments = parser.parse_args()
    lines = gather(arguments.runs, arguments.name)
    if not lines:
        raise SystemExit(f"{arguments.runs}: no search of {arguments.name} is there")
    groups = sorted({key for line in lines for key in line if key.startswith("gamma_")})
    with open(RESULTS / f"candidates_{arguments.name}.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, (*COLUMNS, *groups), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    rewards = np.array([float(line["reward"]) for line in lines])
    thresholds = np.array([[float(line[group]) for group in groups] for line in lines])
    searches = [search_of(line) for line in lines]
    shapes = {
        "": np.zeros((len(lines), 0)),
        ", ".join(groups): thresholds,
        "mean, rise": np.stack([thresholds.mean(1), thresholds[:, -1] - thresholds[:, 0]], axis=1),
    }
    print(f"{len(lines)} candidates of {len(set(searches))} searches")
    for title, features in shapes.items():
        effects, errors, left = fit(features, rewards, searches)
        found = ", ".join(f"{effect:+.2f} +- {error:.2f}" for effect, error in zip(effects, errors, strict=True))
        print(f"{title or 'no threshold'}: {found}{'; ' if found else ''}deviation left {left:.2f}")


if __name__ == "__main__":
    main()
