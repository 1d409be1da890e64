"""What the site has beside ``docs/*.md``: the README as its first page, linked files, and a table of all settings.

Pages link as files in the repository do (``../benchmarks/results/speed.csv``), so that they can be read there too. Here
such files are taken into the site, and their links made to point at them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from placl.config import PRESETS, Config, Section, read_preset

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#]+)")  # the target of a link, without its anchor
SETTINGS = "<!-- settings -->"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=readme))
    for path in sorted(_linked(readme, ROOT, files)):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    place = ROOT if page.file.src_uri == "index.md" else ROOT / "docs"
    markdown = LINK.sub(lambda found: _in_site(found[1], place), markdown)
    return markdown.replace(SETTINGS, "\n".join(settings_table()))


def _linked(readme: str, root: Path, files: Files) -> set[str]:
    """Files outside of docs/ that some page links to, from the repository's root."""
    texts = [(readme, root)]
    texts += [(file.content_string, root / "docs") for file in files.documentation_pages() if file.abs_src_path]
    targets = {_from_root(target, place) for text, place in texts for target in LINK.findall(text)}
    return {target for target in targets if not target.startswith("docs/") and (root / target).is_file()}


def _from_root(target: str, place: Path) -> str:
    path = (place / target).resolve()
    return path.relative_to(ROOT).as_posix() if path.exists() and path.is_relative_to(ROOT) else target


def _in_site(target: str, place: Path) -> str:
    return _from_root(target, place).removeprefix("docs/")


def settings_table() -> list[str]:
    """Every key of the configuration, what it means, and what the presets say, section by section."""
    presets = {name: read_preset(name) for name in PRESETS}
    alone = {name: field for name, field in Config.model_fields.items() if not _is_section(field)}
    lines = _head()
    for name, field in alone.items():
        lines.append(_line(name, field, [preset[name] for preset in presets.values()]))
    for name, field in Config.model_fields.items():
        if not _is_section(field):
            continue
        section: Any = field.annotation
        lines += ["", f"## {name}", "", section.__doc__ or "", "", *_head()]
        for key, own in section.model_fields.items():
            lines.append(_line(f"{name}.{key}", own, [p.get(name, {}).get(key, own.default) for p in presets.values()]))
    return lines


def _is_section(field: Any) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, Section)


def _head() -> list[str]:
    return [f"| key | {' | '.join(PRESETS)} | meaning |", "|---" * (len(PRESETS) + 2) + "|"]


def _line(key: str, field: Any, values: list[Any]) -> str:
    return f"| `{key}` | {' | '.join(map(_shown, values))} | {field.description or ''} |"


def _shown(value: Any) -> str:
    if value is None or value in ((), []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
