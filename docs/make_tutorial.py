"""Run the cells of ``docs/tutorial.md`` and write what each prints below it: ``python docs/make_tutorial.py``."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("tutorial.md")
CELL = re.compile(
    r"(?P<cell>```python\n(?P<code>.*?)```)(?:\n\n<!-- shows -->\n```text\n.*?```)?",  # with what it printed before
    re.DOTALL,
)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}

    def run(cell: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell["code"], str(PAGE), "exec", dont_inherit=True), namespace)
        output = f"\n\n<!-- shows -->\n```text\n{printed.getvalue()}```" if printed.getvalue() else ""
        return cell["cell"] + output

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["PLACL_CACHE"] = folder
        made = CELL.sub(run, text)
        os.chdir(PAGE.parent)
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
