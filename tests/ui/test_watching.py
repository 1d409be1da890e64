"""A run's page while it is still being written, and the command that serves it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from placl.errors import InputError
from placl.ui.server import link, make_server
from placl.ui.watching import watch_site


@pytest.fixture
def going(finished: Path, tmp_path: Path) -> Path:
    """A run whose last network is not there yet."""
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    shutil.rmtree(run / "best")
    lines = (run / "results.csv").read_text().splitlines()
    (run / "results.csv").write_text("\n".join(lines[:3]) + "\n")
    return run


@pytest.fixture
def address(going: Path) -> Iterator[str]:
    site = watch_site(going)
    server = make_server(site)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield link(site, server)
    server.shutdown()
    server.server_close()


@pytest.mark.browser
def test_the_page_follows_the_run(going: Path, finished: Path, address: str, visit: Callable[..., Any]) -> None:
    seen = visit(address)
    page = seen.page
    assert "not finished" in page.text_content("#page")
    assert page.locator("tbody tr").count() == 2
    page.fill("#threshold", "0.9")
    page.evaluate("document.activeElement.blur()")
    shutil.copy(finished / "results.csv", going / "results.csv")
    shutil.copytree(finished / "best", going / "best")
    page.locator("tbody tr").nth(3).wait_for(timeout=20_000)
    assert "not finished" not in page.text_content("#page")
    assert page.input_value("#threshold") == "0.9"  # what was set stays
    assert seen.problems == []
    assert all(asked.startswith((address, "data:")) for asked in seen.asked)


def test_what_is_no_run_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        watch_site(tmp_path)


def test_the_command_serves_until_it_is_interrupted(going: Path) -> None:
    command = [sys.executable, "-m", "placl", "ui", str(going), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with urllib.request.urlopen(address, timeout=20) as answer:
        assert b"<title>run \xc2\xb7 placl</title>" in answer.read()
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
