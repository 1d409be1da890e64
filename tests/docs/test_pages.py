"""Every code block of the documentation does what it says. How a block is checked stands in its mark: see pages.py."""

from __future__ import annotations

import argparse
import ast
import json
import re
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from pages import MARKS, PAGES, ROOT, Block, blocks, inline_commands, start
from placl import config as configuration
from placl.cli import train as cli_train
from placl.cli.main import app, main

IDS = [str(page.relative_to(ROOT)) for page in PAGES]
LANGUAGES = {"bash", "python", "yaml", "json", "text", "dockerfile", ""}
CHECKED = [page for page in PAGES if any(block.mark in ("run", "file", "parse") for block in blocks(page))]
every_page = pytest.mark.parametrize("page", PAGES, ids=IDS)


@every_page
def test_every_block_is_marked(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, block.place
        assert block.mark in MARKS, f"{block.place}: has no mark, see tests/pages.py"
        assert (block.mark in ("file", "parse")) == bool(block.value), f"{block.place}: {block.mark} what, or why?"


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: page.name)
def test_the_page_does_what_it_says(
    page: Path, prepare: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """From top to bottom in one folder, Python in one namespace, as a reader would."""
    folder = prepare(start(page))
    for block in blocks(page):
        if block.mark == "file":
            (folder / block.value).write_text(block.text)
            read_file(block, folder / block.value)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.mark in ("run", "parse"):
            capsys.readouterr()
            check(block, namespace)
        elif block.mark == "shows" and block.language == "text":
            assert shape(capsys.readouterr().out) == shape(block.text), f"{block.place}: is not what is printed"


def check(block: Block, namespace: dict[str, Any]) -> None:
    if block.language == "bash":
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
        for words in block.commands:
            check_command(block, words)
    elif block.language == "python":
        tree = ast.parse(block.text, block.place)
        if block.mark == "parse":  # what is imported must be there
            tree.body = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        exec(compile(tree, block.place, "exec", dont_inherit=True), namespace)
    elif block.language == "yaml":
        yaml.safe_load(block.text)
        for command in re.findall(r"entrypoint: placl (.+)", block.text):
            parse(command.split())
    else:
        assert block.language == "dockerfile", f"{block.place}: cannot be run"


def shape(printed: str) -> str:
    """Text without its numbers, which are of a longer training; lists of numbers may differ in length."""
    numberless = re.sub(r"\d+(\.\d+)?", "#", printed)
    return re.sub(r"#(, #)+", "#", numberless)


def check_command(block: Block, words: list[str]) -> None:
    """Run a command, or have it parsed by the program that it is for."""
    program, *arguments = words
    if program == "pip":
        check_extras(arguments)
    elif program == "placl" and block.mark == "run":
        assert main(arguments) == 0, f"{block.place}: {' '.join(words)}"
    elif program == "placl":
        parse(arguments)
    elif program == "python" and arguments[0].startswith("benchmarks/"):
        assert block.mark == "parse", f"{block.place}: benchmarks take too long to be run here"
        parse_script(arguments)
    else:
        assert block.mark == "parse", f"{block.place}: {program} is not ours. Give the block the mark parse."


def read_file(block: Block, path: Path) -> None:
    """A file by the reader that it is for."""
    if block.language == "json":
        json.loads(block.text)
    elif "rows" in yaml.safe_load(block.text):
        from placl.studies.study import read_study

        read_study(str(path))
    elif path.name == "placl.yaml":
        configuration.load(None, {"data": str(path)})
    else:
        configuration.load(path)


def parse(arguments: list[str]) -> None:
    """Everything but the work: options by the command line, settings by the configuration, studies by their planner."""
    with pytest.MonkeyPatch.context() as patch:
        seen: list[tuple[str, dict[str, Any]]] = []
        patch.setattr("typer.core.TyperCommand.invoke", lambda self, ctx: seen.append((self.name, ctx.params)))
        assert main(arguments) == 0, arguments
    (name, given), *_ = seen
    if name in ("train", "plan"):
        file, overrides = cli_train.split_settings(given["settings"] or [])
        configuration.load(file and Path(file.name), overrides)  # of whatever folder it is on a cluster
    elif name == "study":
        from placl import studies

        places = dict(text.split("=") for text in given["data"])
        choice = {key: given[key] for key in ("rows", "fractions", "seeds")}
        _, runs = studies.plan_study(
            given["name"],
            {key: Path(path) for key, path in places.items()},
            Path("study"),
            scale=given["scale"],
            overrides=dict(configuration.parse_override(text) for text in given["settings"] or []),
            datasets=given["datasets"] or list(places),
            **choice,
        )
        assert runs


def parse_script(arguments: list[str]) -> None:
    """A benchmark's own parser takes the arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", arguments)
        patch.syspath_prepend(ROOT / "benchmarks")
        for name in ("parse_args", "parse_intermixed_args"):
            patch.setattr(argparse.ArgumentParser, name, stopping_after(getattr(argparse.ArgumentParser, name)))
        with pytest.raises(Parsed):
            runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")


class Parsed(Exception):  # noqa: N818 - it is no error
    """The parser has had no complaint."""


def stopping_after(parse: Callable[[argparse.ArgumentParser], Any]) -> Callable[[argparse.ArgumentParser], None]:
    def parse_and_stop(parser: argparse.ArgumentParser) -> None:
        parse(parser)
        raise Parsed

    return parse_and_stop


def check_extras(arguments: list[str]) -> None:
    """``pip install 'placl[ray]'``: there is such an extra."""
    _, _, section = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")
    known = re.findall(r"^(\w+) = \[", section.partition("\n[")[0], re.MULTILINE)
    for extras in re.findall(r"(?:placl|\.)\[([\w,]+)\]", " ".join(arguments)):
        assert set(extras.split(",")) <= set(known)


@every_page
def test_commands_in_running_text_exist(page: Path) -> None:
    for text in inline_commands(page, "placl"):
        command: Any = typer.main.get_command(app)
        words = text.split()[1:]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not hasattr(command, "commands") or not words or words[0].startswith(("-", "...")), text
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        asked = {word for word in words if re.fullmatch(r"--?[a-z][\w-]*", word)}
        assert asked <= known | {"--help", "-h"}, text
    for text in inline_commands(page, "python"):
        assert not text.startswith("python benchmarks/") or (ROOT / text.split()[1]).is_file(), text
