"""The table of labels that DeepLabCut and Lightning Pose share: a row an image, columns under 3 or 4 header rows.

Coordinates are clicked on a drawn image, whose pixel centres are at integers: they are placl's own, as they stand.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from placl.errors import InputError

LEVELS = {3: ("scorer", "bodyparts", "coords"), 4: ("scorer", "individuals", "bodyparts", "coords")}
UNIQUE = "single"  # the individual under which DeepLabCut keeps what belongs to no animal


@dataclass(frozen=True)
class Table:
    """Labels of R images: I individuals (one without a name in a single-animal table) with K bodyparts."""

    path: Path
    names: tuple[str, ...]  # (R,) images as the table calls them, with forward slashes
    individuals: tuple[str, ...]  # (I,)
    bodyparts: tuple[str, ...]  # (K,)
    points: np.ndarray  # (R, I, K, 2) float32; NaN where not labelled
    unique: tuple[str, ...] = ()  # bodyparts that belong to no animal, and are left out

    def with_bodyparts(self, bodyparts: tuple[str, ...]) -> np.ndarray:
        """(R, I, K', 2): its points under other bodyparts; those that it lacks are not labelled."""
        points = np.full((*self.points.shape[:2], len(bodyparts), 2), np.nan, np.float32)
        points[:, :, [bodyparts.index(part) for part in self.bodyparts]] = self.points
        return points


def make_table(path: Path, columns: list[tuple[str, ...]], names: list[str], values: np.ndarray) -> Table:
    """From (R, C) values and the C columns' header cells, top to bottom; the same for csv and h5."""
    places = _places(path, columns)
    individuals = tuple(dict.fromkeys(individual for individual, _ in places))
    parts = {name: tuple(part for owner, part in places if owner == name) for name in individuals}
    unique: tuple[str, ...] = ()
    animals = tuple(name for name in individuals if name != UNIQUE)
    if animals and UNIQUE in parts and not any(set(parts[UNIQUE]) & set(parts[name]) for name in animals):
        individuals, unique = animals, parts[UNIQUE]
    bodyparts = tuple(dict.fromkeys(part for name in individuals for part in parts[name]))
    points = np.full((len(names), len(individuals), len(bodyparts), 2), np.nan, np.float32)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused below
        for i, individual in enumerate(individuals):
            for part in parts[individual]:
                points[:, i, bodyparts.index(part)] = values[:, places[individual, part]]
    table = Table(
        path, tuple(name.strip().replace("\\", "/") for name in names), individuals, bodyparts, points, unique
    )
    _check(table)
    return table


def _places(path: Path, columns: list[tuple[str, ...]]) -> dict[tuple[str, str], list[int]]:
    """The columns of x and y for every individual ("" where there are none) and bodypart."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for number, column in enumerate(columns):
        if len(column) not in LEVELS:
            raise InputError(f"{path}: has {len(column)} header rows. A table of labels has 3, or 4 with individuals.")
        individual, part, coordinate = column[1] if len(column) == 4 else "", column[-2], column[-1]
        if coordinate == "likelihood":
            raise InputError(
                f"{path}: holds predictions (it has likelihood columns). Pass labels: CollectedData_SCORER.csv."
            )
        title = f'"{individual}" "{part}"' if individual else f'"{part}"'
        if coordinate not in ("x", "y") or not part:
            raise InputError(f'{path}: column {title} "{coordinate}" is not an x or y of a bodypart. Fix the header.')
        place = found.setdefault((individual, part), {})
        if coordinate in place:
            raise InputError(
                f'{path}: has two columns {title} "{coordinate}". Keep one scorer and one of each bodypart.'
            )
        place[coordinate] = number
    if not found:
        raise InputError(f"{path}: has no columns of bodyparts. Is it a file of labels?")
    for (_, part), place in found.items():
        if len(place) < 2:
            raise InputError(f'{path}: bodypart "{part}" has no {"y" if "x" in place else "x"} column. Fix the header.')
    return {key: [place["x"], place["y"]] for key, place in found.items()}


def _check(table: Table) -> None:
    """Every image once, every number finite, never one coordinate of a keypoint without the other."""
    seen: set[str] = set()
    for name in table.names:
        if not name or name in seen:
            raise InputError(f'{table.path}: image "{name}" {"occurs twice" if name else "has no name"}. Fix the file.')
        seen.add(name)
    missing = np.isnan(table.points)
    half = missing[..., 0] != missing[..., 1]
    for wrong, complaint in (
        (np.isinf(table.points).any(axis=3), "a coordinate that is not finite"),
        (half, "only one of x and y"),
    ):
        for row, individual, part in np.argwhere(wrong):
            owner = f' of "{table.individuals[individual]}"' if table.individuals[individual] else ""
            raise InputError(
                f'{table.path}: image "{table.names[row]}": bodypart "{table.bodyparts[part]}"{owner} has {complaint}. '
                "Fix the file; empty both cells of a bodypart that is not labelled."
            )


def header_levels(path: Path) -> int:
    """How many header rows a csv has, 3 or 4, if it is such a table; else 0. Looks at its first lines only."""
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            lines = [line.split(",", 1)[0].strip().strip('"') for line in islice(file, 4)]
    except OSError:
        return 0
    return next((n for n, titles in LEVELS.items() if tuple(lines[:n]) == titles), 0)


def read_csv_table(path: Path) -> Table:
    rows = read_rows(path)
    titles = tuple(cells[0].strip() for _, cells in rows[:4])
    levels = next((n for n, expected in LEVELS.items() if titles[:n] == expected), 0)
    if not levels:
        raise InputError(f"{path}: its first rows are not {', '.join(LEVELS[3])}. Is it a file of labels?")
    header = [cells for _, cells in rows[:levels]]
    # A name may take three columns: labeled-data, video, image. Then the header has empty cells above them.
    lead = next((i for i, cell in enumerate(header[-1]) if i and cell.strip()), len(header[-1]))
    names, cells_of = [], []
    for number, cells in rows:
        if len(cells) != len(header[0]):
            raise InputError(
                f"{path}: line {number} has {len(cells)} cells, the first has {len(header[0])}. Fix the file."
            )
    for _, cells in rows[levels:]:
        names.append("/".join(cell.strip() for cell in cells[:lead]))
        cells_of.append(cells[lead:])
    columns = list(zip(*([cell.strip() for cell in row[lead:]] for row in header), strict=True))
    return make_table(path, columns, names, _numbers(path, rows[levels:], cells_of, len(columns)))


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a csv that hold anything, each with the number of its line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not a csv file ({error}).") from error
    if not rows:
        raise InputError(f"{path}: is empty. Pass a csv file with labels.")
    return rows


def _numbers(path: Path, rows: list[tuple[int, list[str]]], cells_of: list[list[str]], width: int) -> np.ndarray:
    """(R, width) float64; NaN where a cell is empty."""
    try:
        numbers = [float(cell) if cell else np.nan for cells in cells_of for cell in cells]
    except ValueError:
        numbers = []
        for (line, row), cells in zip(rows, cells_of, strict=True):
            numbers += [number_in(path, line, row[0], cell) for cell in cells]
    return np.array(numbers, np.float64).reshape(len(cells_of), width)


def number_in(path: Path, line: int, name: str, cell: str) -> float:
    """A cell's number, NaN if it is empty; the complaint names the line."""
    try:
        return float(cell) if cell.strip() else np.nan
    except ValueError:
        raise InputError(f'{path}: line {line} ({name}): "{cell}" is not a number. Fix the cell or empty it.') from None


def table_text(
    names: Sequence[str],
    individuals: tuple[str, ...],
    bodyparts: tuple[str, ...],
    points: np.ndarray,
    scorer: str,
    coords: tuple[str, ...] = ("x", "y"),
) -> str:
    """The csv of (R, I, K, C) points; individuals ("",) give the 3 header rows of a single-animal table."""
    columns = [(i, part, axis) for i in individuals for part in bodyparts for axis in coords]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["scorer"] + [scorer] * len(columns))
    if individuals != ("",):
        writer.writerow(["individuals"] + [individual for individual, _, _ in columns])
    writer.writerow(["bodyparts"] + [part for _, part, _ in columns])
    writer.writerow(["coords"] + [axis for _, _, axis in columns])
    flat = points.reshape(len(names), len(columns))
    cells = np.where(np.isnan(flat), "", flat.astype(np.float32).astype(str))  # the shortest that reads back the same
    writer.writerows([name, *row] for name, row in zip(names, cells.tolist(), strict=True))
    return text.getvalue()
