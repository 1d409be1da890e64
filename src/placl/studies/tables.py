"""From results to tables: mean and deviation over seeds, the paper's number beside ours, and what each row cost."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from placl.report.page import asset
from placl.studies.study import GRIDS, PLUS, Study, dataset_of, method_name

FULL = 1.0  # all labels
ALL_LABELS = " (all labels)"
SUPERVISED = "supervised"  # the row that gaps are measured with


@dataclass(frozen=True)
class Cell:
    """What the seeds of one row, dataset and fraction came to."""

    mean: float
    deviation: float | None  # of a sample; None with one seed
    seeds: int
    trainings: float
    images: float
    seconds: float
    pck: float | None = None  # beside a metric that is another

    @property
    def text(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        return f"{self.mean:.1f}{spread}"


Place = tuple[str, str, float]  # dataset, method, fraction


def cells(rows: Iterable[dict[str, Any]], scored_on: str = "test") -> dict[Place, Cell]:
    """The finished runs, seeds put together, by their scores."""
    groups: dict[Place, list[dict[str, Any]]] = {}
    for row in rows:
        if row[scored_on] not in (None, ""):
            place = str(row["dataset"]), str(row["method"]), float(row["fraction"])
            groups.setdefault(place, []).append(row)
    return {place: _cell(group, scored_on) for place, group in groups.items()}


def _cell(rows: Sequence[dict[str, Any]], scored_on: str) -> Cell:
    scores = [float(row[scored_on]) for row in rows]
    trainings, images, seconds = (
        statistics.mean(float(row[key]) for row in rows) for key in ("trainings", "images", "seconds")
    )
    deviation = statistics.stdev(scores) if len(scores) > 1 else None
    found = [float(row["test_pck"]) for row in rows if row.get("test_pck") not in (None, "")]
    pck = statistics.mean(found) if len(found) == len(rows) else None
    return Cell(statistics.mean(scores), deviation, len(scores), trainings, images, seconds, pck)


def gap_recovered(found: dict[Place, Cell], place: Place) -> float | None:
    """(row - few labels) / (all labels - few labels), of means; a variant's is between its own."""
    dataset, method, fraction = place
    alone = method_name(SUPERVISED, method.partition(PLUS)[2])
    few, full = found.get((dataset, alone, fraction)), found.get((dataset, alone, FULL))
    if few is None or full is None or place not in found or few.mean == full.mean or fraction == FULL:
        return None
    return (found[place].mean - few.mean) / (full.mean - few.mean)


def paper_numbers(name: str) -> dict[Place, str]:
    """What the paper has for a study: "70.76 ± 1.47" by place."""
    folder = resources.files("placl.studies").joinpath("paper")
    comparable = ["table1", "table2", "table3", "fig3b"]  # with a study of one's own
    names = [name] if name in GRIDS else comparable
    numbers: dict[Place, str] = {}
    for one in names:
        file = folder.joinpath(f"{one}.csv")
        if not file.is_file():
            continue
        for row in csv.DictReader(file.read_text("utf-8").splitlines()):
            spread = f" ± {row['std']}" if row["std"] else ""
            place = row["dataset"], row["method"], float(row["fraction"])
            numbers.setdefault(place, f"{row['mean']}{spread}")
    return numbers


@dataclass(frozen=True)
class Table:
    """One dataset and fraction."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    shown: int = 5  # columns that a terminal has room for


HEAD = ("method", "test", "paper", "gap recovered", "seeds", "trainings", "images", "minutes")


def make_tables(study: Study, rows: Sequence[dict[str, Any]]) -> list[Table]:
    found, paper = cells(rows, study.scored_on), paper_numbers(study.name)
    titles = {
        method_name(row.name, variant): ", ".join(filter(None, (row.title, variant)))
        for row in study.rows
        for variant in study.variants or ("",)
    }
    if study.across_domains:
        return domain_tables(study.datasets, found, paper, titles)
    tables = []
    for dataset in study.datasets:
        alone = [method for method in titles if method.partition(PLUS)[0] == SUPERVISED]
        whole = [method for d, method, f in found if d == dataset and f == FULL]
        few = [one for one in study.fractions if one != FULL]
        for fraction in [*few, FULL] if not few or set(whole) - set(alone) else few:
            methods = list(dict.fromkeys(method for d, method, f in found if d == dataset and f == fraction))
            places = [(dataset, method, fraction) for method in methods]
            if places and fraction != FULL:
                places += [(dataset, method, FULL) for method in alone if method in whole]
            lines = tuple(_line(found, paper, place, titles) for place in places)
            if lines:
                head = (HEAD[0], study.scored_on, *HEAD[2:])
                tables.append(Table(f"{dataset}, {100 * fraction:g} % of the labels", head, lines))
    return tables


def _line(found: dict[Place, Cell], paper: dict[Place, str], place: Place, titles: dict[str, str]) -> tuple[str, ...]:
    cell, gap = found[place], gap_recovered(found, place)
    title = titles.get(place[1], place[1]) + (ALL_LABELS if place[2] == FULL else "")
    return (
        title,
        cell.text,
        paper.get(place, "-"),
        "-" if gap is None else f"{100 * gap:.0f} %",
        str(cell.seeds),
        f"{cell.trainings:g}",
        f"{cell.images / 1000:,.0f} k",
        f"{cell.seconds / 60:.1f}",
    )


ACROSS = ("method", "test", "paper", "PCK", "seeds", "trainings", "images", "minutes")


def domain_tables(
    targets: Sequence[str], found: dict[Place, Cell], paper: dict[Place, str], titles: dict[str, str]
) -> list[Table]:
    """All targets and their mean at a glance, as the paper has them, and then a table of each."""
    methods = [name for name in titles if any(method == name for _, method, _ in found)]
    there = [target for target in targets if any(dataset == target for dataset, _, _ in found)]
    lines: list[tuple[str, ...]] = []
    tables: list[Table] = []
    for method in methods:
        row = [found.get((target, method, FULL)) for target in there]
        means = [cell.mean for cell in row if cell is not None]
        mean = f"{statistics.mean(means):.1f}" if len(means) == len(there) else "-"
        lines.append((titles[method], *("-" if cell is None else cell.text for cell in row), mean))
    if lines:
        head = ("method", *(target.removeprefix(f"{dataset_of(target)}_to_") for target in there), "mean")
        tables.append(Table("all targets", head, tuple(lines), shown=len(head)))
    for target in there:
        places = [(target, method, FULL) for method in methods if (target, method, FULL) in found]
        each = []
        for place in places:
            title, test, number, _, *cost = _line(found, paper, place, titles)
            pck = found[place].pck
            each.append((title.removesuffix(ALL_LABELS), test, number, "-" if pck is None else f"{pck:.1f}", *cost))
        tables.append(Table(target, ACROSS, tuple(each)))
    return tables


def notes(study: Study, scale: str, budget: str, metric: str = "") -> str:
    """What all rows have in common; ``budget`` is that of their last trainings, ``metric`` that of the scores."""
    scores = f"Scores are {metric}: mean" if metric else "Mean"
    if study.across_domains:
        return (
            f"Scale {scale}. Every row ends with a training of {budget} and has the same labels of "
            "the source and the same images of the target, whose labels none sees; it is scored once, on the target's "
            f"test images. {scores} ± standard deviation over seeds. Trainings, images and minutes are of a whole run "
            "with its search. The paper's numbers are of AlphaPose's network with ResNet-101, trained on people as "
            "well: they stand beside ours for their order, not their size."
        )
    scored = "scored on the test set once" if study.scored_on == "test" else "scored on that validation set"
    return (
        f"Scale {scale}. Every row ends with a training of {budget}, has the same labels, "
        f"augmentation and validation set, and is {scored}. {scores} ± standard deviation over seeds, "
        "each with labels and weights of its own. Trainings, images and minutes are of a whole run with its search. "
        "The paper's numbers are of HRNet-w32 at 256 px: they stand beside ours for their order, not their size."
    )


def markdown(study: Study, tables: Sequence[Table], note: str) -> str:
    parts = [f"# {study.title}", "", note]
    for table in tables:
        parts += ["", f"## {table.title}", "", "| " + " | ".join(table.head) + " |"]
        parts.append("|---" + "|--:" * (len(table.head) - 1) + "|")
        parts += ["| " + " | ".join(line) + " |" for line in table.lines]
    return "\n".join(parts) + "\n"


def html(study: Study, tables: Sequence[Table], note: str) -> str:
    parts = [f"<h1>{escape(study.title)}</h1><p>{escape(note)}</p>"]
    for table in tables:
        head = "".join(f"<th>{escape(name)}</th>" for name in table.head)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in table.lines)
        parts.append(
            f"<h2>{escape(table.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    title = escape(study.title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{asset("report.css")}</style></head>'
        f"<body>{''.join(parts)}</body></html>\n"
    )
