"""``placl ui``: a run's report in the browser, while the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placl.cli import options
from placl.cli.progress import open_watch

if TYPE_CHECKING:
    from placl.ui.server import Site


def ui(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that placl train writes or wrote.")],
    review: Annotated[bool, typer.Option("--review", help="Look at pseudo-labels and correct them.")] = False,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Instances to review that are new.")] = 50,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Default: a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    debug: options.Debug = False,
) -> None:
    """Look at a run in the browser while it trains; with --review, correct its pseudo-labels.

    The page updates by itself. It is served on this machine only, to those who have the link. Corrections are saved at
    once to RUN/corrections.jsonl: placl train --corrections uses them, placl data import writes them in other formats.
    """
    import webbrowser

    from placl.ui.server import link, make_server

    site = _review(run, count) if review else _watch(run)
    server = make_server(site, port)
    address = link(site, server)
    print(f"{address}\nCtrl-C ends it.", flush=True)
    if browser:
        webbrowser.open(address)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _watch(run: Path) -> Site:
    from placl.ui.watching import watch_site

    return watch_site(run)


def _review(run: Path, count: int) -> Site:
    with open_watch(False) as watch:
        from placl.ui.reviewing import review_site

        return review_site(run, count, lambda done, total: watch.progress("label", done, total, "looking"))
