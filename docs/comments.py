"""For the Python page: what stands as a comment behind a field is its description."""

from __future__ import annotations

import re
from typing import Any

import griffe

BEHIND = re.compile(r"^[^#\"']*#\s*(?P<said>.+)$")


class Comments(griffe.Extension):
    """``rows: list[dict[str, Any]]  # a line each`` -> the docstring "a line each"."""

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        if attr.docstring is None and isinstance(attr.parent, griffe.Class) and attr.lineno and attr.lines:
            found = BEHIND.match(attr.lines[0])
            if found:
                attr.docstring = griffe.Docstring(found["said"], lineno=attr.lineno, parent=attr)
