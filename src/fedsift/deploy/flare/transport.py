# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A transport over NVIDIA FLARE's auxiliary messages, between the job processes of members.

FLARE encrypts what goes from site to site (``secure=True``) as long as the time limit is not zero;
it does not insist on that at the receiver, and anybody can write any sender's name. So nothing here
is relied on: a secure transport lies on top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvflare.apis.fl_constant import ReservedKey, ReturnCode
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedsift.deploy.flare import wire
from fedsift.deploy.site_files import HUB
from fedsift.engine.remote.secure_transport import Handler
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.errors import FedsiftError, SiteUnreachable

_SERVER = "server"
"""FLARE's name for the job process of the hub."""

_NOT_READY = SiteUnreachable.code


class FlareTransport:
    """See :class:`fedsift.engine.remote.secure_transport.Transport`.

    Parameters
    ----------
    engine : object
        FLARE's engine at this member.
    site : str
        This member.
    is_aborted : callable
        Whether FLARE has aborted the job.
    """

    def __init__(self, engine: Any, site: str, is_aborted: Callable[[], bool]) -> None:
        self.site = site
        self._engine = engine
        self._is_aborted = is_aborted
        self._handler: Handler | None = None
        self._closed = Signal()
        engine.register_aux_message_handler(wire.RELAY, self._receive)

    @property
    def aborted(self) -> bool:
        """Whether FLARE has aborted the job."""
        return self._is_aborted()

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Send to a member and wait for its reply."""
        sent = Shareable()
        sent[wire.SENDER], sent[wire.CONTENT] = self.site, content
        reply = self.send(site, wire.RELAY, sent, timeout_seconds)
        refused, answer = reply.get(wire.REFUSED), reply.get(wire.CONTENT)
        if isinstance(refused, str):
            raise SiteUnreachable(site, f"it refused ({refused[:4]})", refused=refused)
        if not isinstance(answer, bytes):
            raise SiteUnreachable(site, "its answer is damaged")
        return answer

    def send(self, site: str, topic: str, content: Shareable, timeout_seconds: float) -> Shareable:
        """Send one request to one member, also while FLARE is ending the job."""
        target = _SERVER if site == HUB else site
        with self._engine.new_context() as fl_ctx:
            # With FLARE's own signal a request would fail at once when a job is aborted, and
            # nobody could say any more why it was.
            fl_ctx.put(
                key=ReservedKey.RUN_ABORT_SIGNAL, value=self._closed, private=True, sticky=False
            )
            replies = self._engine.send_aux_request(
                [target],
                topic,
                content,
                max(timeout_seconds, DEFAULT_TIMEOUTS.shortest_request_seconds),
                fl_ctx,
                optional=True,
                secure=True,
            )
        reply = (replies or {}).get(target)
        if not isinstance(reply, Shareable):
            raise SiteUnreachable(site, "the hub does not know it")
        code = reply.get_return_code(ReturnCode.OK)
        if code != ReturnCode.OK:
            raise SiteUnreachable(site, f"no answer ({code})")
        return reply

    def close(self) -> None:
        """Wait for nothing any more; FLARE's process ends only when nothing is waited for."""
        self._closed.trigger(True)

    def serve(self, handler: Handler | None) -> None:
        """Answer what arrives from now on."""
        self._handler = handler

    def _receive(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:  # noqa: ARG002
        reply, handler = make_reply(ReturnCode.OK), self._handler
        sender, content = request.get(wire.SENDER), request.get(wire.CONTENT)
        if handler is None or not isinstance(sender, str) or not isinstance(content, bytes):
            reply[wire.REFUSED] = _NOT_READY
            return reply
        try:
            reply[wire.CONTENT] = handler(sender, content)
        except Exception as error:
            # The hub can read this: a code and nothing else.
            reply[wire.REFUSED] = (
                error.code if isinstance(error, FedsiftError) else FedsiftError.code
            )
        return reply
