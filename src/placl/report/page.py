"""``report.html``: one self-contained file that opens offline, written anew whenever a stage is finished.

The page is a style sheet, a script and the values of one or several runs. Only that script may run, by its hash in the
content security policy, and nothing can be fetched. Values go in as JSON that cannot end its element, and reach the
page as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any


@cache
def asset(name: str, package: str = "placl.report") -> str:
    return files(package).joinpath("assets", name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """As a content security policy names an element's content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(content: Any) -> str:
    """JSON for a script element: ``<`` would be the only way out of it."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page(runs: Sequence[dict[str, Any]], live: str = "") -> str:
    """The report of runs as :func:`~placl.report.collecting.collect` has them; ``live`` is where a server has news."""
    name = runs[0]["name"] if len(runs) == 1 else f"{len(runs)} runs"
    allowed = "img-src data:; connect-src 'self'" if live else "img-src data:"
    return document(name, asset("report.css"), asset("report.js"), {"runs": list(runs)}, allowed, live)


def document(title: str, style: str, script: str, content: Any, allowed: str, live: str = "") -> str:
    """A page in one file, drawn by ``script`` from ``content``; ``allowed`` is what else it may load."""
    style, script = asset("common.css") + style, asset("common.js") + script
    policy = f"default-src 'none'; {allowed}; style-src {source_hash(style)}; script-src {source_hash(script)}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}"><link rel="icon" href="data:,">'
        f"<title>{escape(title)} · placl</title><style>{style}</style></head>"
        f'<body data-live="{escape(live)}"><main id="page">'
        "<noscript>This page is drawn by a script, which this browser does not run.</noscript></main>"
        '<dialog id="zoom" aria-label="a picture, larger"></dialog>'
        f'<script type="application/json" id="data">{embedded(content)}</script>'
        f"<script>{script}</script></body></html>\n"
    )
