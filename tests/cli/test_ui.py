"""``placl ui`` on the command line: what it serves, and refusals in one line."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placl.data.corrections import Correction, Corrections
from placl.data.synthetic import ANIMAL
from placl.ui.server import Site


@pytest.fixture
def run(placl: Callable[..., Any], animals: Path, small: list[str], tmp_path: Path) -> Path:
    assert placl("train", "--labeled", animals, "--out", tmp_path / "run", "-q", *small).code == 0
    return tmp_path / "run"


def test_review_correct_train_and_convert(
    placl: Callable[..., Any],
    run: Path,
    animals: Path,
    small: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sites: list[Site] = []

    class Server:
        server_address = ("127.0.0.1", 8123)

        def serve_forever(self, poll_interval: float) -> None:
            raise KeyboardInterrupt

        def server_close(self) -> None:
            pass

    monkeypatch.setattr("placl.ui.server.make_server", lambda site, port: sites.append(site) or Server())
    ended = placl("ui", run, "--review", "-n", "3", "--no-browser")
    assert ended.code == 0
    assert ended.out == f"http://127.0.0.1:8123/{sites[0].token}/\nCtrl-C ends it.\n"
    assert set(sites[0].get) == {"", "verdicts.json", "picture/0.jpg", "picture/1.jpg", "picture/2.jpg"}

    save = {
        "keypoints": [[30.0, 31.0]] * 14,
        "visibility": [2] * 14,
        "reviewer": "me",
        "seen": 0,
        "verdict": "accepted",
    }
    chosen = _ids(sites[0])[0]
    sites[0].post["save"]({"id": chosen, **save})
    file = run / "corrections.jsonl"
    again = placl("train", "--labeled", animals, "--corrections", file, "--out", tmp_path / "b", "--json", *small)
    assert again.code == 0
    assert json.loads(again.out)["labels"] == {"labelled": 16, "unlabelled": 22, "val": 10, "test": 12}
    assert f"{file}: 1 instances accepted, 0 rejected." in again.err
    assert chosen in json.loads((tmp_path / "b/split.json").read_text())["labelled"]

    done = placl("data", "import", file, "--out", tmp_path / "coco", "--json")
    content = json.loads(Path(json.loads(done.out)["files"][0]).read_text())
    assert content["annotations"][0]["keypoints"] == [30, 31, 2] * 14


def _ids(site: Site) -> list[str]:
    page = str(site.get[""]().content)
    data = page.split('id="data">')[1].split("</script>")[0]
    return [item["id"] for item in json.loads(data)["items"]]


def test_a_port_in_use(placl: Callable[..., Any], run: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        ended = placl("ui", run, "--no-browser", "--port", number)
        ended.refused(f"port {number}: cannot be had", "Leave --port out", code=1)


def test_what_is_no_run(placl: Callable[..., Any], tmp_path: Path) -> None:
    placl("ui", tmp_path, "--review", "--no-browser").refused("is not a run folder")


def test_corrections_that_do_not_fit(
    placl: Callable[..., Any], animals: Path, small: list[str], tmp_path: Path
) -> None:
    command = "train", "--labeled", animals, "--out", tmp_path / "run", "-q", *small, "--corrections"
    placl(*command, tmp_path / "none.jsonl").refused("none.jsonl: does not exist")
    file = tmp_path / "c.jsonl"
    Corrections(file, ANIMAL).save(Correction("x.jpg#1", "accepted", ((1.0, 1.0),) * 14, (2,) * 14, "x.jpg", None))
    placl(*command, file).refused('the corrections name "x.jpg#1", which is not in the data')
    assert not (tmp_path / "run").exists()
