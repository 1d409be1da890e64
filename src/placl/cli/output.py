"""What commands print on stdout: a table for people or one JSON document for machines."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from placl.files import plain


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(plain(content), indent=2, ensure_ascii=True))  # the same whatever the stream's encoding


def print_anything() -> None:
    """Let stdout and stderr take characters that their encoding lacks, as escapes: no path may fail finished work."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, text: Collection[str] = ()
) -> None:
    """The first column is a name, the others are numbers, or ``text`` that may take several lines."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for number, column in enumerate(columns):
        if column in text:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def share(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{100 * value:.0f} %"
