"""A small real run with names that try to be markup, and a browser to look at pages with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostile import HOSTILE
from placl.api import train
from placl.config import Config
from placl.data.load import Dataset


@pytest.fixture(scope="session")
def finished(
    tiny: Callable[[dict[str, Any]], Config], dataset: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two rounds of animals, whose files have names such as ``<script>``, quotes, and 200 letters."""
    names = [HOSTILE, 'it\'s "quoted" & más', "x" * 200, "日本/鳥 1.jpg"]
    ids = tuple(f"{names[i % 4]}#{i}" for i in range(len(dataset.pool)))
    out = tmp_path_factory.mktemp("runs") / "a <title><b> run"
    config = tiny({"data.label_fraction": 0.4, "reference": True, "rounds.finish": "last"})
    train(config, out, dataset=replace(dataset, pool=replace(dataset.pool, ids=ids)))
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    program = os.environ.get("PLACL_BROWSER") or shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page that is open, with everything that went wrong on it and every address that it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.asked: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: self.asked.append(request.url))


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    contexts = []

    def open_(address: str, **options: Any) -> Visit:
        contexts.append(browser.new_context(**options))
        seen = Visit(contexts[-1].new_page())
        seen.page.goto(address)
        return seen

    yield open_
    for context in contexts:
        context.close()
