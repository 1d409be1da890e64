"""Markdown from names and texts that anybody may have written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_ACTIVE = re.compile(r"([\\`*_\[\]|~<>&$])")  # marks up wherever it stands
_FIRST = re.compile(r"^(\d*)([-+#=:.)])(?=\s|$|[-=#:])")  # marks up where a line begins: lists, headings, rules
_BY_NAME = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def plain(text: object) -> str:
    """Text that shows as it is, on one line, wherever it stands: no markup, no HTML, no table borders, no links."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    line = _ACTIVE.sub(lambda found: _BY_NAME.get(found[1], "\\" + found[1]), line)
    line = _FIRST.sub(r"\1\\\2", line)
    return line.replace("://", ":&#47;&#47;").replace("www.", "www&#46;").replace("@", "&#64;")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The first column is text, the others are numbers. Cells are shown as they are."""
    head = f"| {' | '.join(columns)} |\n|{'|'.join(['---', *['---:'] * (len(columns) - 1)])}|\n"
    return head + "".join(f"| {' | '.join(plain(cell) for cell in row)} |\n" for row in rows)
