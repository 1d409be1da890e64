"""A small server for pages on this machine: loopback only, behind a token in the link.

Other pages that are open in the same browser may try to reach it: a request must name the right host and token, and
what changes something must come from a page of ours.
"""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from placl.errors import InputError, MachineError, PlaclError

HOST = "127.0.0.1"
LARGEST = 1 << 20  # bytes that a page may send
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Beside the policy in each page, which names its own script and style: what a page cannot say of itself.
    "Content-Security-Policy": "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


@dataclass(frozen=True)
class Answer:
    content: str | bytes
    kind: str = "application/json"


@dataclass
class Site:
    """What is served: a function for each address below the token."""

    get: dict[str, Callable[[], Answer]] = field(default_factory=dict)
    post: dict[str, Callable[[Any], Answer]] = field(default_factory=dict)  # gets the JSON that was sent
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))


def make_server(site: Site, port: int = 0) -> ThreadingHTTPServer:
    """Listening, and not yet answering; port 0 is any free one."""
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(site))
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise MachineError(
                f"port {port}: cannot be had ({error.strerror}). Leave --port out for a free one."
            ) from error
        raise
    server.daemon_threads = True
    return server


def link(site: Site, server: ThreadingHTTPServer) -> str:
    return f"http://{HOST}:{server.server_address[1]}/{site.token}/"


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "placl", ""
        timeout = 30  # of a visitor who says nothing

        def do_GET(self) -> None:
            self._answer(site.get, lambda found: found())

        def do_POST(self) -> None:
            self._answer(site.post, lambda found: found(self._sent()))

        def _answer(self, known: dict[str, Any], call: Callable[[Any], Answer]) -> None:
            name = self._allowed()
            if name is None or name not in known:
                self._send(HTTPStatus.NOT_FOUND, Answer('{"error": "nothing here"}'))
                return
            try:
                self._send(HTTPStatus.OK, call(known[name]))
            except PlaclError as error:
                self._send(HTTPStatus.BAD_REQUEST, Answer(json.dumps({"error": str(error)})))

        def _allowed(self) -> str | None:
            """The address below the token, for whoever knows it and comes from here."""
            address, port = self.path.split("?", 1)[0], self.connection.getsockname()[1]
            hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
            origin = self.headers.get("Origin")
            if self.headers.get("Host") not in hosts or origin not in {None, *(f"http://{host}" for host in hosts)}:
                return None
            if self.command == "POST" and origin is None:
                return None
            _, token, *rest = address.split("/", 2) if address.count("/") >= 2 else ("", "", "")
            return rest[0] if secrets.compare_digest(token.encode(), site.token.encode()) else None

        def _sent(self) -> Any:
            try:
                length = int(self.headers.get("Content-Length", ""))
                if not 0 <= length <= LARGEST:
                    raise ValueError("too long")
                return json.loads(self.rfile.read(length))
            except (ValueError, RecursionError) as error:
                raise InputError(f"what was sent is not JSON of at most {LARGEST} bytes.") from error

        def _send(self, status: HTTPStatus, answer: Answer) -> None:
            content = answer.content.encode() if isinstance(answer.content, str) else answer.content
            self.send_response(status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            with suppress(ConnectionError):  # a visitor may leave before the answer is there
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            """The link holds the token: it is written nowhere."""

    return Handler
