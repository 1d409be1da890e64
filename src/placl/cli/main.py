"""``placl``: the commands together, and how each of them may end.

Exit codes: 0 done, 1 the machine failed, 2 the user's input is wrong, 130 and 143 stopped by SIGINT
and SIGTERM. Errors are one line on stderr.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from placl import stopping
from placl.cli.bench import app as bench
from placl.cli.data import app as data
from placl.cli.demo import demo
from placl.cli.evaluate import evaluate
from placl.cli.export import export
from placl.cli.output import print_anything
from placl.cli.plan import plan
from placl.cli.predict import predict
from placl.cli.report import report
from placl.cli.study import study
from placl.cli.suggest import suggest
from placl.cli.train import train
from placl.cli.ui import ui
from placl.errors import PlaclError
from placl.version import VERSION

UsageError = typer.BadParameter.__mro__[1]  # typer brings click's exceptions along, under names that moved

app = typer.Typer(
    name="placl",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Keypoint models from a few labelled and many unlabelled images.",
)
for command in (demo, train, plan, report, ui, predict, evaluate, suggest, export, study):
    app.command()(command)
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"placl {VERSION}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    print_anything()
    try:
        command = typer.main.get_command(app)
        with stopping.heeding(), command.make_context("placl", list(arguments)) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except BrokenPipeError:  # the reader of our output has left, as in `placl ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - nobody above us would say it in one line
        if "--debug" in arguments or os.environ.get("PLACL_DEBUG", "0") not in ("", "0"):
            traceback.print_exception(error)
        message, code = _ending(error, carries_on=bool({"train", "demo", "study"} & set(arguments[:1])))
        print("placl: " + " ".join(message.splitlines()), file=sys.stderr)
        return code
    return 0


def _ending(error: BaseException, carries_on: bool) -> tuple[str, int]:
    """What to say about an error, and the exit code. A command that ``carries_on`` has kept what it had done."""
    if isinstance(error, PlaclError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        kept = "stopped; the same command carries on where it was." if carries_on else "interrupted."
        return kept, stopping.exit_code()
    if isinstance(error, UsageError):
        where = getattr(getattr(error, "ctx", None), "command_path", "placl")
        message = str(getattr(error, "format_message", error.__str__)())
        return f"{message}{'' if message.endswith(('.', '?')) else '.'} See {where} --help.", 2
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}no space left on the disk. Free some and run the same command again.", 1
    lines = str(error).strip().splitlines() or ["no message"]
    summary = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"
    return f"{type(error).__name__}: {summary} (run with --debug or PLACL_DEBUG=1 for the traceback)", 1
