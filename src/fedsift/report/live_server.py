# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Serves a live view on this machine only, behind an address that nobody can guess."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from fedsift.errors import FileProblem
from fedsift.report.live import LiveView

LOOPBACK = "127.0.0.1"
_SOCKET_SECONDS = 5.0
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class LiveServer:
    """A server for as long as a job runs; use it as a context manager.

    Every address starts with a random token, so that other users of the machine cannot read it, and
    a request must name this host, so that no web page can reach it under a name of its own.

    Parameters
    ----------
    view : LiveView
    linger_seconds : float
        How long a page that is open may take to fetch the end of the job.
    """

    def __init__(self, view: LiveView, *, linger_seconds: float = 3.0) -> None:
        self._view = view
        self._linger_seconds = linger_seconds
        self._token = secrets.token_urlsafe(24)
        self._seen_end = threading.Event()
        self._last_asked = 0.0
        try:
            self._server = _Server((LOOPBACK, 0), _handler_of(self))
        except OSError as error:
            raise FileProblem(
                f"The live view cannot listen on {LOOPBACK}: {error.strerror}.",
                "A free port on this machine is needed.",
                "Run without --live; the terminal shows progress too.",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="live view", daemon=True
        )

    @property
    def url(self) -> str:
        """Where to look."""
        return f"http://{LOOPBACK}:{self._server.server_port}/{self._token}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let an open page see how the job ended, for a moment; then stop."""
        if time.monotonic() - self._last_asked < self._linger_seconds:
            self._seen_end.wait(self._linger_seconds)
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, host: str, site: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, type and content for a request.

        Parameters
        ----------
        path, host, site : str
            The path asked for, and the headers ``Host`` and ``Sec-Fetch-Site``.
        """
        port = self._server.server_port
        if host not in (f"{LOOPBACK}:{port}", f"localhost:{port}") or site == "cross-site":
            return HTTPStatus.FORBIDDEN, "text/plain", b"Not from here.\n"
        token, _, name = path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return HTTPStatus.NOT_FOUND, "text/plain", b"There is nothing here.\n"
        if name == "":
            return HTTPStatus.OK, "text/html; charset=utf-8", self._view.page().encode()
        if name == "state":
            self._last_asked = time.monotonic()
            state = self._view.state()
            if state["ended"]:
                self._seen_end.set()
            return HTTPStatus.OK, "application/json", json.dumps(state).encode()
        return HTTPStatus.NOT_FOUND, "text/plain", b"There is nothing here.\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away is no news."""


def _handler_of(live: LiveServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SOCKET_SECONDS
        server_version, sys_version = "fedsift", ""

        def do_GET(self) -> None:
            host, site = self.headers.get("Host", ""), self.headers.get("Sec-Fetch-Site", "")
            status, kind, content = live.answer(self.path, host, site)
            self.send_response(status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing: the address is a secret."""

    return Handler
