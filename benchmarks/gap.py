"""Gap recovered against images spent: PLACL past the paper, the paper's, and rivals, on real CUB and LSPET -> LSP.

    python benchmarks/study.py ../shared cub --grid gap       # runs what is missing; and lspet
    python benchmarks/study.py ../shared cub                  # the rivals' rows; and lspet
    python benchmarks/gap.py                                  # the table and the plot of what is finished

Results: benchmarks/results/gap.csv and gap.png. The plot needs matplotlib.
"""

from __future__ import annotations

import csv
import statistics
import tempfile
from pathlib import Path
from typing import Any

from placl.studies.cost import search_images_of
from placl.studies.study import RunSpec, expand, read_study

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DATASETS = {"cub": "CUB", "lspet": "LSPET → LSP"}
TICKS = (100, 200, 400, 800)  # of the plot, thousands of images
RIVALS = {"placl": "placl-paper", "cl": "cl", "posedual": "posedual", "pl": "pl"}  # of study.yaml: what they are here
COLUMNS = ("dataset", "method", "seeds", "test", "deviation", "gap_recovered", "images", "search_images", "minutes")
FIXED = "fixed-"
FINE = "supervised-fine"


def rows_of(grid: str, dataset: str) -> dict[tuple[str, float], list[dict[str, str]]]:
    """The finished runs of a grid by method and fraction."""
    file = RESULTS / f"{grid}_{dataset}.csv"
    found: dict[tuple[str, float], list[dict[str, str]]] = {}
    for row in csv.DictReader(file.read_text().splitlines()) if file.exists() else ():
        found.setdefault((row["method"], float(row["fraction"])), []).append(row)
    return found


def specs_of(grid: str, dataset: str) -> dict[str, RunSpec]:
    """A run of each row of a grid, for its settings."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.yaml"
        file.write_text("labeled: labels.json\n")
        study = read_study(str(HERE / f"{grid}.yaml")).narrowed(datasets=[dataset], fractions=[0.05])
        return {spec.method: spec for spec in expand(study, {dataset: file}, Path(folder))}


def mean(rows: list[dict[str, str]], column: str = "test") -> float:
    return statistics.mean(float(row[column]) for row in rows)


def table(dataset: str) -> list[dict[str, Any]]:
    study, gap = rows_of("study", dataset), rows_of("gap", dataset)
    shown = [("gap", method, method) for method, fraction in gap if fraction == 0.05 and method != FINE]
    shown += [("study", method, name) for method, name in RIVALS.items() if (method, 0.05) in study]
    specs = {grid: specs_of(grid, dataset) for grid in ("gap", "study")}
    fixed = [method for method, _ in study if method.startswith(FIXED)]
    if fixed:  # the best of them by validation scores, as a user would find it
        shown.append(("study", max(fixed, key=lambda method: mean(study[method, 0.05], "val")), "best fixed threshold"))
    lines = []
    for grid, method, name in shown:
        rows = (gap if grid == "gap" else study)[method, 0.05]
        tests = [float(row["test"]) for row in rows]
        config = specs[grid][method].config
        # Held against networks that read crops as fine.
        ends, end = (gap, FINE) if config.view > config.model.input_size else (study, "supervised")
        few, full = (mean(ends[end, fraction]) for fraction in (0.05, 1.0))
        values = {
            "dataset": dataset,
            "method": name,
            "seeds": len(rows),
            "test": round(mean(rows), 2),
            "deviation": round(statistics.stdev(tests), 2) if len(tests) > 1 else "",
            "gap_recovered": round((mean(rows) - few) / (full - few), 3),
            "images": round(mean(rows, "images")),
            "search_images": search_images_of(config),
            "minutes": round(mean(rows, "seconds") / 60, 1),
        }
        lines.append(values)
    return lines


def plot(lines: list[dict[str, Any]], file: Path) -> None:
    from matplotlib import pyplot

    methods = list(dict.fromkeys(line["method"] for line in lines))
    figure, axes = pyplot.subplots(1, len(DATASETS), figsize=(11, 4.5), sharey=True)
    for axis, (dataset, title) in zip(axes, DATASETS.items(), strict=True):
        for line in (line for line in lines if line["dataset"] == dataset):
            place, own = (line["images"] / 1000, line["gap_recovered"]), line["method"] == "placl"
            axis.scatter(*place, s=70 if own else 30, color=f"C{methods.index(line['method'])}")
            weight = "bold" if own else "normal"
            axis.annotate(line["method"], place, (5, 5), textcoords="offset points", weight=weight)
        axis.set(title=title, xlabel="training images, thousands", xscale="log", xlim=(60, 1600), ylim=(0, 1.05))
        axis.set_xticks(TICKS, [str(tick) for tick in TICKS])
        axis.minorticks_off()
        axis.axhline(0.9, linestyle=":", color="grey")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("gap recovered")
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main() -> None:
    lines = [line for dataset in DATASETS for line in table(dataset)]
    with open(RESULTS / "gap.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    plot(lines, RESULTS / "gap.png")
    print((RESULTS / "gap.csv").read_text())


if __name__ == "__main__":
    main()
