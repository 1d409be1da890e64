"""The server: who is let in, and what is answered."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from placl.errors import InputError, MachineError
from placl.ui.server import HEADERS, LARGEST, Answer, Site, link, make_server

GOT: list[Any] = []


def refuse(content: Any) -> Answer:
    raise InputError(f"cannot: {content}")


SITE = Site(
    get={"": lambda: Answer("<p>hello", "text/html"), "data.json": lambda: Answer("{}")},
    post={"save": lambda content: GOT.append(content) or Answer('"kept"'), "no": refuse},
    token="secret-token",
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = make_server(SITE)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def ask(
    port: int, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET" if body is None else "POST", path, body, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def test_the_link_leads_to_the_page(port: int) -> None:
    status, text, headers = ask(port, "/secret-token/")
    assert (status, text) == (200, "<p>hello")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers.items() >= HEADERS.items()
    assert ask(port, "/secret-token/data.json?x=1")[:2] == (200, "{}")


@pytest.mark.parametrize(
    "path",
    ["/", "/secret-token", "/wrong/", "/secret-tokem/data.json", "/secret-token/x", "/secret-token/../data.json", "//"],
)
def test_without_the_token_there_is_nothing(port: int, path: str) -> None:
    assert ask(port, path)[0] == 404


def test_a_page_from_elsewhere_is_not_let_in(port: int) -> None:
    # DNS rebinding: a stranger's name that leads to this machine.
    assert ask(port, "/secret-token/", headers={"Host": f"evil.example:{port}"})[0] == 404
    assert ask(port, "/secret-token/", headers={"Origin": "http://evil.example"})[0] == 404
    assert ask(port, "/secret-token/", headers={"Host": f"localhost:{port}"})[0] == 200


def test_saving_needs_a_page_of_ours(port: int) -> None:
    ours = {"Origin": f"http://127.0.0.1:{port}"}
    assert ask(port, "/secret-token/save", b'{"a": 1}', ours)[:2] == (200, '"kept"')
    assert GOT == [{"a": 1}]
    assert ask(port, "/secret-token/save", b'{"a": 2}')[0] == 404
    assert ask(port, "/secret-token/save", b'{"a": 2}', {"Origin": "null"})[0] == 404
    assert GOT == [{"a": 1}]


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(port: int, body: bytes) -> None:
    ours = {"Origin": f"http://127.0.0.1:{port}"}
    status, text, _ = ask(port, "/secret-token/save", body, ours)
    assert status == 400
    assert json.loads(text)["error"].startswith("what was sent is not JSON")


def test_a_claim_of_gigabytes_is_not_waited_for(port: int) -> None:
    ours = {"Origin": f"http://127.0.0.1:{port}", "Content-Length": str(LARGEST + 1)}
    assert ask(port, "/secret-token/save", b"", ours)[0] == 400


def test_refusals_reach_the_page(port: int) -> None:
    status, text, _ = ask(port, "/secret-token/no", b'"<b>"', {"Origin": f"http://127.0.0.1:{port}"})
    assert (status, json.loads(text)) == (400, {"error": "cannot: <b>"})


def test_a_visitor_who_leaves_is_no_error(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port)) as visitor:
            visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # hang up at once
            visitor.sendall(f"GET /secret-token/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    assert ask(port, "/secret-token/")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {number}: cannot be had"):
            make_server(SITE, number)


def test_tokens_differ() -> None:
    assert Site().token != Site().token
    assert len(Site().token) >= 20
    server = make_server(SITE)
    assert link(SITE, server) == f"http://127.0.0.1:{server.server_address[1]}/secret-token/"
    server.server_close()
