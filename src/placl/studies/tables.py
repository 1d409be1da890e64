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
from placl.studies.study import GRIDS, Study

FULL = 1.0  # all labels


@dataclass(frozen=True)
class Cell:
    """What the seeds of one row, dataset and fraction came to."""

    mean: float
    deviation: float | None  # of a sample; None with one seed
    seeds: int
    trainings: float
    images: float
    seconds: float

    @property
    def text(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.1f}"
        return f"{self.mean:.1f}{spread}"


Place = tuple[str, str, float]  # dataset, method, fraction


def cells(rows: Iterable[dict[str, Any]]) -> dict[Place, Cell]:
    """The finished runs, seeds put together, by their test scores."""
    groups: dict[Place, list[dict[str, Any]]] = {}
    for row in rows:
        if row["test"] not in (None, ""):
            place = str(row["dataset"]), str(row["method"]), float(row["fraction"])
            groups.setdefault(place, []).append(row)
    return {place: _cell(group) for place, group in groups.items()}


def _cell(rows: Sequence[dict[str, Any]]) -> Cell:
    tests = [float(row["test"]) for row in rows]
    spent = (statistics.mean(float(row[key]) for row in rows) for key in ("trainings", "images", "seconds"))
    return Cell(statistics.mean(tests), statistics.stdev(tests) if len(tests) > 1 else None, len(tests), *spent)


def gap_recovered(found: dict[Place, Cell], place: Place) -> float | None:
    """(row - few labels) / (all labels - few labels), of means."""
    dataset, _, fraction = place
    few, full = found.get((dataset, "supervised", fraction)), found.get((dataset, "supervised", FULL))
    if few is None or full is None or place not in found or few.mean == full.mean or fraction == FULL:
        return None
    return (found[place].mean - few.mean) / (full.mean - few.mean)


def paper_numbers(name: str) -> dict[Place, str]:
    """What the paper has for a study: "70.76 ± 1.47" by place."""
    folder = resources.files("placl.studies").joinpath("paper")
    names = [name] if name in GRIDS else ["table1", "table3", "fig3b"]  # a study of one's own: all that is comparable
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


HEAD = ("method", "test", "paper", "gap recovered", "seeds", "trainings", "images", "minutes")


def make_tables(study: Study, rows: Sequence[dict[str, Any]]) -> list[Table]:
    found, paper = cells(rows), paper_numbers(study.name)
    titles = {row.name: row.title for row in study.rows}
    tables = []
    for dataset in study.datasets:
        for fraction in [one for one in study.fractions if one != FULL] or [FULL]:
            methods = list(dict.fromkeys(method for d, method, f in found if d == dataset and f == fraction))
            places = [(dataset, method, fraction) for method in methods]
            if places and (dataset, "supervised", FULL) in found and fraction != FULL:
                places.append((dataset, "supervised", FULL))
            lines = tuple(_line(found, paper, place, titles) for place in places)
            if lines:
                tables.append(Table(f"{dataset}, {100 * fraction:g} % of the labels", HEAD, lines))
    return tables


def _line(found: dict[Place, Cell], paper: dict[Place, str], place: Place, titles: dict[str, str]) -> tuple[str, ...]:
    cell, gap = found[place], gap_recovered(found, place)
    title = titles.get(place[1], place[1]) + (" (all labels)" if place[2] == FULL else "")
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


def notes(study: Study, scale: str, budget: str) -> str:
    return (
        f"Scale {scale}. Every row ends with a training of the same budget ({budget}), has the same labels, "
        "augmentation and validation set, and is scored on the test set once. Mean ± standard deviation over seeds, "
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
