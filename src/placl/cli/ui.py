"""``placl ui``: a run's report in the browser, while the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placl.cli import options


def ui(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that placl train writes or wrote.")],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Default: a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    debug: options.Debug = False,
) -> None:
    """Look at a run in the browser while it trains.

    The page updates by itself. It is served on this machine only, to those who have the link.
    """
    import webbrowser

    from placl.ui.server import link, make_server
    from placl.ui.watching import watch_site

    site = watch_site(run)
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
