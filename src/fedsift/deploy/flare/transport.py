# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A line over NVIDIA FLARE's auxiliary messages, between the job processes of sites and hub.

FLARE encrypts what goes from site to site (``secure=True``) as long as the time limit is not zero;
it does not insist on that at the receiver, and anybody can write any sender's name. So nothing here
is relied on: a sealed line lies on top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvflare.apis.fl_constant import ReservedKey, ReturnCode
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedsift.engine.remote.transport import Handler
from fedsift.errors import FedsiftError, SiteUnreachable

HUB = "hub"
"""The hub as a member; FLARE calls its job process by another name."""

RELAY = "fedsift.relay"
_SERVER = "server"
_SENDER, _CONTENT, _REFUSED = "sender", "content", "refused"
_NOT_READY = "E405"
_SHORTEST_SECONDS = 0.1


class FlareTransport:
    """See :class:`fedsift.engine.remote.transport.Transport`.

    Parameters
    ----------
    engine : object
        FLARE's engine at this member.
    site : str
        This member.
    is_aborted : callable
        Whether FLARE has given up the job.
    """

    def __init__(self, engine: Any, site: str, is_aborted: Callable[[], bool]) -> None:
        self.site = site
        self._engine = engine
        self._is_aborted = is_aborted
        self._handler: Handler | None = None
        self._hung_up = Signal()
        engine.register_aux_message_handler(RELAY, self._receive)

    @property
    def aborted(self) -> bool:
        """Whether FLARE has given up the job."""
        return self._is_aborted()

    def request(self, site: str, content: bytes, timeout_seconds: float) -> bytes:
        """Send to a member and wait for its answer."""
        sent = Shareable()
        sent[_SENDER], sent[_CONTENT] = self.site, content
        reply = self.send(site, RELAY, sent, timeout_seconds)
        refused, answer = reply.get(_REFUSED), reply.get(_CONTENT)
        if isinstance(refused, str):
            raise SiteUnreachable(site, f"it refused ({refused[:4]})", refused=refused)
        if not isinstance(answer, bytes):
            raise SiteUnreachable(site, "its answer is damaged")
        return answer

    def send(self, site: str, topic: str, content: Shareable, timeout_seconds: float) -> Shareable:
        """One request to one member, also while FLARE is ending the job."""
        target = _SERVER if site == HUB else site
        with self._engine.new_context() as fl_ctx:
            # With FLARE's own signal a request would fail at once when a job is given up, and
            # nobody could say any more why it was.
            fl_ctx.put(
                key=ReservedKey.RUN_ABORT_SIGNAL, value=self._hung_up, private=True, sticky=False
            )
            replies = self._engine.send_aux_request(
                [target],
                topic,
                content,
                max(timeout_seconds, _SHORTEST_SECONDS),  # zero would mean: unencrypted
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
        self._hung_up.trigger(True)

    def serve(self, handler: Handler | None) -> None:
        """Answer what arrives from now on."""
        self._handler = handler

    def _receive(self, topic: str, request: Shareable, fl_ctx: Any) -> Shareable:  # noqa: ARG002
        reply, handler = make_reply(ReturnCode.OK), self._handler
        sender, content = request.get(_SENDER), request.get(_CONTENT)
        if handler is None or not isinstance(sender, str) or not isinstance(content, bytes):
            reply[_REFUSED] = _NOT_READY
            return reply
        try:
            reply[_CONTENT] = handler(sender, content)
        except Exception as error:
            # The hub can read this: a code and nothing else.
            reply[_REFUSED] = error.code if isinstance(error, FedsiftError) else FedsiftError.code
        return reply
