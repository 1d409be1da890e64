"""A small run on animals in files with awkward names, and its review page, served."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hostile import AWKWARD
from placl.api import train
from placl.config import Config
from placl.data.corrections import Corrections
from placl.data.instances import Instances
from placl.data.load import read_instances
from placl.data.synthetic import write_animals
from placl.suggesting import Opinions, opinions_of, ranked
from placl.ui.reviewing import FILE, items_of, site_of
from placl.ui.server import Site, link, make_server

COUNT = 6  # instances under review


@pytest.fixture(scope="session")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The annotation file of 40 animals; the images have names that try to be markup, quotes, 200 letters."""
    path = write_animals(tmp_path_factory.mktemp("animals"), 40, seed=0, size=64)
    content = json.loads(path.read_text())
    for n, image in enumerate(content["images"]):
        new = f"images/{n}/{AWKWARD[n % len(AWKWARD)]}"
        (path.parent / new).parent.mkdir(parents=True)
        (path.parent / image["file_name"]).rename(path.parent / new)
        image["file_name"] = new
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="session")
def review_config(
    tiny: Callable[[dict[str, Any]], Config], animals: Path, tmp_path_factory: pytest.TempPathFactory
) -> Config:
    return tiny(
        {
            "data.labeled": [str(animals)],
            "data.cache": str(tmp_path_factory.mktemp("cache")),
            "data.label_fraction": 0.4,
            "data.test_fraction": 0.2,
            "rounds.finish": "last",
            "search.steps": 1,
            "execute.workers": 1,
        }
    )


@pytest.fixture(scope="session")
def trained(review_config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "a <b> run"
    train(review_config, out)
    return out


@pytest.fixture(scope="session")
def opinions(trained: Path) -> Opinions:
    return opinions_of(trained)


@pytest.fixture(scope="session")
def instances(review_config: Config) -> Instances:
    return read_instances(review_config.data)[0]


@pytest.fixture
def reviewed(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that may be written to."""
    return Path(shutil.copytree(trained, tmp_path / trained.name))


@pytest.fixture
def make_site(reviewed: Path, opinions: Opinions, instances: Instances) -> Callable[[], Site]:
    """The review of the run as :func:`review_site` has it, without asking the networks again."""

    def make() -> Site:
        corrections = Corrections(reviewed / FILE, opinions.pool.skeleton)
        ids = [one.id for one in ranked(opinions, COUNT)]
        return site_of(reviewed, items_of(opinions, instances, ids), corrections)

    return make


@pytest.fixture
def serve() -> Iterator[Callable[[Site], str]]:
    """``serve(site)``: the link to it."""
    servers = []

    def start(site: Site) -> str:
        servers.append(make_server(site))
        Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return link(site, servers[-1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def address(make_site: Callable[[], Site], serve: Callable[[Site], str]) -> str:
    """The link to the review page."""
    return serve(make_site())
