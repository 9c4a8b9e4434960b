# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What selectors of one method share: a run is prepared, planned or carried out, and kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedsift.data import Federation
from fedsift.methods.base import FederatedSelector
from fedsift.methods.carrier import ALONE
from fedsift.methods.execution import Prepared, make_plan
from fedsift.protocol import Policy


class Ready(NamedTuple):
    """A run that every check has passed which needs no message.

    Parameters
    ----------
    federation : Federation
    prepared : Prepared
        Roles of all parties, and the messages they will send.
    params : Params of the method
        What all parties are told.
    policies : mapping of party to Policy
    """

    federation: Federation
    prepared: Prepared
    params: Any
    policies: Mapping[str, Policy]


class MethodSelector(FederatedSelector):
    """A selector that runs one method.

    Subclasses say how a run is prepared (``_prepare``) and what is kept of it (``_keep``).
    """

    def plan(self, X, y=None):
        """Check settings and policies and list who would learn what; nothing is sent."""
        ready = self._prepare(X, y)
        return make_plan(ready.prepared, ready.policies)

    def run(self, X, y=None, *, timeout_seconds=None, observer=None, carrier=ALONE):
        """As :meth:`fit`, with a time limit per request and an observer of the progress.

        Parameters
        ----------
        timeout_seconds : float, optional
            Limit of every single request to a party.
        observer : callable, optional
            Called with a :class:`~fedsift.engine.Progress` after every message.
        carrier : Carrier, optional
            Reaches the parties; by default all of them are in this process.
        """
        ready = self._prepare(X, y, simulated=carrier is ALONE)
        options = {"timeout_seconds": timeout_seconds, "observer": observer}
        outcome = carrier.execute(ready.prepared, ready.policies, **options)
        facts = carrier.facts(ready.prepared)
        if facts is not None:  # else another site makes the result
            self._keep(ready, outcome, facts)
        return self

    @abstractmethod
    def _prepare(self, X, y=None, *, simulated=False):
        """Make a run ready; ``simulated`` if all parties belong to whoever runs it."""

    @abstractmethod
    def _keep(self, ready, outcome, facts):
        """Fitted attributes, from what the driving role and the others know at the end."""
