"""The documentation's pages as tests see them: code blocks, each with the mark that says how it is checked.

A mark is an HTML comment in the line before a block, invisible to readers:

    <!-- run -->             commands and Python are run, one block after another, as someone who follows the page would
    <!-- file: NAME -->      the block is written to a file of that name, for the blocks that are run
    <!-- parse: REASON -->   is not run, for that reason; commands, settings and imports are checked all the same
    <!-- shows -->           is nothing to run: a listing, or, as ```text, what the block before it prints
    <!-- test -->            the README's own test commands, which .ci/run runs

A page may begin with ``<!-- start: trained -->``: its folder then holds finished runs beside the data.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
MARKS = {"run", "file", "parse", "shows", "test"}
COMMENT = re.compile(r"^<!-- (?P<mark>[a-z]+)(?:: (?P<value>.+))? -->$")
FENCE = re.compile(r"^```(?P<language>\w*)$")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int  # of its first line of text
    language: str
    text: str
    mark: str | None
    value: str  # what stands behind the mark

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command: comments are gone, lines that end in a backslash are joined."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(page: Path) -> list[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    i = 0
    while i < len(lines):
        fence = FENCE.match(lines[i])
        if fence is None:
            i += 1
            continue
        end = lines.index("```", i + 1)
        comment = COMMENT.match(lines[i - 1]) if i else None
        text = "\n".join(lines[i + 1 : end]) + "\n"
        mark, value = (comment["mark"], comment["value"] or "") if comment else (None, "")
        found.append(Block(page, i + 2, fence["language"], text, mark, value))
        i = end + 1
    return found


def start(page: Path) -> str:
    """What the page's folder holds in the beginning."""
    found = re.search(r"^<!-- start: (\w+) -->$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else "images"


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def inline_commands(page: Path, program: str) -> list[str]:
    """Commands in running text: ```placl data info``` -> "placl data info"; line breaks do not count."""
    found = re.findall(rf"`({program} [^`]+)`", prose(page))
    return [" ".join(text.split()) for text in found]
