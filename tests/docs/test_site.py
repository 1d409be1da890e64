"""The documentation as a whole: nothing is left out, and every link leads somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import typer
import yaml

import placl
from pages import PAGES, ROOT, prose
from placl.cli.main import app
from placl.config import Config, flat

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def anchors(page: Path) -> set[str]:
    """As GitHub and mkdocs make them of headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", prose(page))
    for target, anchor in LINK.findall(text):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{page}: {target}#{anchor}"


def commands() -> list[str]:
    """``placl train``, ``placl data import``, ..."""
    top = typer.main.get_command(app)
    found = []
    for name, command in top.commands.items():
        below = getattr(command, "commands", {})
        found += [f"placl {name} {own}" for own in below] or [f"placl {name}"]
    return found


@pytest.mark.parametrize("command", commands())
def test_every_command_is_documented(command: str) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert re.search(rf"{command}\b", " ".join(text.split()))


def test_every_public_name_is_on_the_python_page() -> None:
    documented = re.findall(r"^::: placl\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(name for name in placl.__all__ if name != "__version__")


def test_every_page_can_be_found_from_the_first() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text)["nav"]
    listed = set(re.findall(r"\w+\.md", str(nav)))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} | {"index.md"}


def test_the_table_of_settings_has_every_key() -> None:
    pytest.importorskip("mkdocs")
    table = "\n".join(runpy.run_path(str(ROOT / "docs" / "hooks.py"))["settings_table"]())
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)) == sorted(flat(Config()))
    assert "| `train.lr` | 0.03 | 0.002 | " in table
