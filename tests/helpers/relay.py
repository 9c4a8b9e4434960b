"""Several sites in one process: every site is a thread, the hub between them is in the test's hands."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from fedsift.crypto.envelope import OrganisationKey
from fedsift.engine.remote.engine import SiteEngine
from fedsift.engine.remote.secure_transport import SecureTransport
from fedsift.engine.timeouts import Timeouts
from fedsift.protocol import RemoteRole
from fedsift.testing.memory import MemoryHub

QUICK = Timeouts(round_trip_seconds=20.0, hold_seconds=0.2, join_seconds=20.0, idle_seconds=30.0)
"""Generous limits for what must succeed, short holds so that polling is exercised."""

LIMIT_SECONDS = 60.0
"""Longer than any test takes; a site that is still at work then hangs."""


@dataclass
class Ended:
    """How a site's script ended: with a value or with an error."""

    value: Any = None
    error: BaseException | None = None


class Sites:
    """Sites with keys of their own, connected by one hub.

    Parameters
    ----------
    members : mapping of party -> site
    fingerprints : mapping of site -> str, optional
        For sites that run another job than the others.
    """

    def __init__(self, members, *, hub=None, timeouts=QUICK, fingerprints=None, session="job 1"):
        self.members = dict(members)
        self.names = sorted(set(members.values()))
        self.hub = hub or MemoryHub()
        self.timeouts = timeouts
        self.fingerprints = fingerprints or {}
        self.session = session
        self.keys = {name: OrganisationKey.generate() for name in self.names}
        self.ended, self.threads = {}, {}

    def line(self, site):
        """The sealed line of one site."""
        pinned = {name: key.public for name, key in self.keys.items() if name != site}
        return SecureTransport(
            self.hub.transport(site),
            self.keys[site],
            pinned,
            session=self.session,
            fingerprint=self.fingerprints.get(site, "the job"),
            attempts=self.timeouts.attempts,
        )

    def start(self, script, names=None):
        """Run a script at every site, or at some of them; ``script`` takes the player."""
        for name in names or self.names:
            thread = threading.Thread(target=self._run, args=(name, script), daemon=True)
            self.threads[name] = thread
            thread.start()
        return self

    def _run(self, name, script):
        ended = Ended()
        try:
            with SiteEngine(self.members, self.line(name), self.timeouts) as engine:
                ended.value = script(engine)
        except BaseException as error:
            ended.error = error
        self.ended[name] = ended

    def finish(self, limit_seconds=LIMIT_SECONDS):
        """How every site ended; none may hang."""
        for name, thread in self.threads.items():
            thread.join(limit_seconds)
            assert not thread.is_alive(), f"{name} hangs"
        return self.ended

    def run(self, script):
        """Start and finish."""
        return self.start(script).finish()


def at_home(engine, nodes):
    """Nodes as a site builds them: roles of its own parties, the others absent."""
    return {
        party: tuple(
            role if engine.home is None or party in engine.home else RemoteRole(type(role))
            for role in roles
        )
        for party, roles in nodes.items()
    }
