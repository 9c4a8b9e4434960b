# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Serves pages on this machine only, behind an address that nobody can guess."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from fedsift.errors import FileProblem
from fedsift.report.live import LiveView

LOOPBACK = "127.0.0.1"
_SOCKET_SECONDS = 5.0
_MOST_FORM_BYTES = 10_000
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


Answer = tuple[HTTPStatus, str, bytes]
"""Status, type and content of an answer."""

NOTHING_HERE: Answer = (HTTPStatus.NOT_FOUND, "text/plain", b"There is nothing here.\n")
HTML = "text/html; charset=utf-8"


class LocalServer:
    """Serves pages on this machine only; use it as a context manager.

    Every address starts with a random token, so that other users of the machine cannot read it, and
    a request must name this host, so that no web page can reach it under a name of its own.

    Parameters
    ----------
    what : str
        What it is, for the error if there is no free port.
    instead : str
        What to do then.
    """

    takes_forms = False
    """Whether pages may send something."""

    def __init__(self, what: str, instead: str) -> None:
        self._token = secrets.token_urlsafe(24)
        try:
            self._server = _Server((LOOPBACK, 0), _handler_of(self))
        except OSError as error:
            raise FileProblem(
                f"{what} cannot listen on {LOOPBACK}: {error.strerror}.",
                "A free port on this machine is needed.",
                instead,
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name=what, daemon=True
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
        """Stop."""
        self._server.shutdown()
        self._server.server_close()

    def answer(
        self, path: str, host: str, site: str, form: Mapping[str, str] | None = None
    ) -> Answer:
        """Answer a request.

        Parameters
        ----------
        path, host, site : str
            The path asked for, and the headers ``Host`` and ``Sec-Fetch-Site``.
        form : mapping of str to str, optional
            What a page sends.
        """
        port = self._server.server_port
        strange = site == "cross-site" or (form is not None and site not in ("", "same-origin"))
        if host not in (f"{LOOPBACK}:{port}", f"localhost:{port}") or strange:
            return HTTPStatus.FORBIDDEN, "text/plain", b"Not from here.\n"
        token, _, name = path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return NOTHING_HERE
        return self.show(name) if form is None else self.take(name, form)

    def show(self, name: str) -> Answer:
        """Return the page of a name."""
        raise NotImplementedError

    def take(self, name: str, form: Mapping[str, str]) -> Answer:  # noqa: ARG002
        """Take what a page sends."""
        return NOTHING_HERE


class LiveServer(LocalServer):
    """A server for as long as a job runs.

    Parameters
    ----------
    view : LiveView
    linger_seconds : float
        How long a page that is open may take to fetch the end of the job.
    """

    def __init__(self, view: LiveView, *, linger_seconds: float = 3.0) -> None:
        super().__init__("The live view", "Run without --live; the terminal shows progress too.")
        self._view = view
        self._linger_seconds = linger_seconds
        self._seen_end = threading.Event()
        self._last_asked = 0.0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let an open page see how the job ended, for a moment; then stop."""
        if time.monotonic() - self._last_asked < self._linger_seconds:
            self._seen_end.wait(self._linger_seconds)
        super().__exit__(kind, error, trace)

    def show(self, name: str) -> Answer:
        """Return the page, or its state."""
        if name == "":
            return HTTPStatus.OK, HTML, self._view.page().encode()
        if name == "state":
            self._last_asked = time.monotonic()
            state = self._view.state()
            if state["ended"]:
                self._seen_end.set()
            return HTTPStatus.OK, "application/json", json.dumps(state).encode()
        return NOTHING_HERE


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away is no news."""


def _handler_of(local: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SOCKET_SECONDS
        server_version, sys_version = "fedsift", ""

        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not local.takes_forms or not length.isdecimal() or int(length) > _MOST_FORM_BYTES:
                self.send_error(HTTPStatus.BAD_REQUEST)
                return
            sent = self.rfile.read(int(length)).decode(errors="replace")
            self._reply(dict(parse_qsl(sent)))

        def _reply(self, form: Mapping[str, str] | None) -> None:
            host, site = self.headers.get("Host", ""), self.headers.get("Sec-Fetch-Site", "")
            if self.headers.get("Origin", f"http://{host}") != f"http://{host}":
                site = "cross-site"  # older browsers say it only like this
            status, kind, content = local.answer(self.path, host, site, form)
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
