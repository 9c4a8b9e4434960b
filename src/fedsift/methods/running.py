# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What selectors of one method share: a run is prepared, planned or executed, and kept."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from fedsift.engine import LOCAL_ENGINE
from fedsift.engine.observer import as_observer
from fedsift.methods.base import FederatedSelector
from fedsift.methods.execution import execute, facts_of, make_plan
from fedsift.protocol.resume import forget_finished


class MethodSelector(FederatedSelector):
    """A selector that runs one method.

    Subclasses say how a run is prepared (``_prepare``) and what is kept of it (``keep_result``).
    A job between organisations calls the same methods as :meth:`run`, with messages before and
    after.
    """

    def plan(self, X, y=None):
        """Check settings and policies and list who would learn what; nothing is sent."""
        return make_plan(self.prepare(X, y))

    def run(self, X, y=None, *, timeout_seconds=None, observer=None, engine=LOCAL_ENGINE):
        """As :meth:`fit`, with a time limit per request and an observer of the progress.

        Parameters
        ----------
        timeout_seconds : float, optional
            Limit of every single request to a party.
        observer : Observer or callable, optional
            Follows the run; a callable is called with a :class:`~fedsift.engine.Progress` after
            every message.
        engine : Engine
            Runs all parties, which are in this process.
        """
        prepared = self.prepare(X, y, simulated=True, observer=observer)
        outcome = execute(prepared, timeout_seconds=timeout_seconds, engine=engine)
        forget_finished(prepared.nodes)
        self.keep_result(prepared, outcome, facts_of(prepared.nodes))
        return self

    def prepare(self, X, y=None, *, simulated=False, observer=None):
        """Make a run ready; every check that needs no message.

        Parameters
        ----------
        simulated : bool
            Whether all parties belong to whoever runs it.
        observer : Observer or callable, optional

        Returns
        -------
        prepared : PreparedRun
        """
        prepared = self._prepare(X, y, simulated=simulated)
        return replace(prepared, labels=y, observer=as_observer(observer))

    @abstractmethod
    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes, parameters and policies of a run."""

    @abstractmethod
    def keep_result(self, prepared, outcome, facts):
        """Set the fitted attributes.

        Parameters
        ----------
        prepared : PreparedRun
        outcome : Outcome
            What the driving role found.
        facts : list of (party, dict)
            What the roles of the parties know at the end, as far as it may be known here.
        """
