"""A run's report while it is still being written."""

from __future__ import annotations

import json
from pathlib import Path

from placl.report.collecting import collect
from placl.report.page import page
from placl.ui.server import Answer, Site

NEWS = "data.json"


def watch_site(run: Path) -> Site:
    """The report, and the values that it asks for again and again. Nothing can be changed."""
    collect(run)  # refuse what is no run before anything is served

    def values() -> Answer:
        return Answer(json.dumps({"runs": [collect(run)]}, allow_nan=False))

    def report() -> Answer:
        return Answer(page([collect(run)], live=NEWS), "text/html")

    return Site(get={"": report, NEWS: values})
