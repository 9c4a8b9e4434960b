# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Runs with everything kept: the bytes every party received, and what it opened of them.

Parties follow the protocol. Where an attack needs numbers that a party decrypts on the way, the
party's role becomes its curious twin, which notes them: the module of a method's attacks says in
``CURIOUS`` which roles have one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.engine import LocalEngine, Outcome
from fedsift.lab.attacks.attack import Told, Trial
from fedsift.protocol import Codec, Protocol, Role
from fedsift.result import Disclosure


@dataclass(frozen=True, eq=False)
class Stage:
    """One protocol of a run, with its roles as they are at the end."""

    protocol: Protocol
    nodes: Mapping[str, Sequence[Role]]
    outcome: Outcome
    job_text: str = ""

    @property
    def job(self) -> str:
        """The text of the job that every party has: all settings, and the seed."""
        return self.job_text or job_of(self.protocol, self.nodes)

    @property
    def told(self) -> Told:
        """The ledger, and the text of the job."""
        return self.ledger, self.job

    @property
    def ledger(self) -> tuple[Disclosure, ...]:
        """Who learned what."""
        return self.outcome.ledger.rows()

    def received(self, party: str, *types: Any) -> list[Any]:
        """Messages of some types as a party decoded them from its bytes."""
        codec = Codec(self.protocol.messages)
        return list(self.outcome.transcript.messages(party, codec, list(types)))

    def received_from(self, party: str, kind: Any) -> Iterator[tuple[str, Any]]:
        """Pairs of sender and message of one type."""
        codec = Codec(self.protocol.messages)
        for entry in self.outcome.transcript.view(party):
            if entry.message == kind.__name__ and entry.frame is not None:
                yield entry.sender, codec.decode(entry.frame, [kind])

    def roles(self, kind: type[Any]) -> dict[str, Any]:
        """Roles of one kind by party."""
        return {
            party: role
            for party, roles in self.nodes.items()
            for role in roles
            if isinstance(role, kind)
        }


def job_of(protocol: Protocol, nodes: Mapping[str, Sequence[Role]]) -> str:
    """The text of a job that runs here: settings that every role is given, in canonical JSON."""
    roles = [role for some in nodes.values() for role in some if hasattr(role, "_params")]
    settings = dataclasses.asdict(roles[0]._params) if roles else {}
    job = {"method": protocol.name, "parameters": settings}
    return msgspec.json.encode(job, order="sorted", enc_hook=repr).decode()


@dataclass(eq=False)
class JobRun:
    """A job that has run, and what only somebody who holds all data can say about it.

    Parameters
    ----------
    method : str
    stages : list of Stage
    tables : mapping of party to PartyTable
    labels : mapping of party to ndarray
        Class names or numbers; one entry in a vertical job.
    notes : list of str
        Attacks that could not be mounted, and why.
    """

    method: str
    stages: list[Stage]
    tables: Mapping[str, PartyTable]
    labels: Mapping[str, npt.NDArray[Any]]
    notes: list[str] = field(default_factory=list)

    def stage(self, name: str) -> Stage | None:
        """The stage of a protocol, if it was played."""
        found = [stage for stage in self.stages if stage.protocol.name == name]
        return found[-1] if found else None


Mounted = tuple[str, str, Trial]
"""Name of an attack, the attacking party, and what it found."""

Twins = Mapping[type[Any], type[Any]]
"""Kinds of roles, and the curious twin of each."""


class RecordingEngine(LocalEngine):
    """Plays every protocol with curious parties, and keeps what there is at the end.

    ``keep_frames=False`` is for methods whose attacks need no bytes: those of a training are many.
    ``job`` is the text that parties were given; without one it is made from the roles' settings.
    """

    def __init__(self, curious: Twins, *, keep_frames: bool = True, job: str = "") -> None:
        self._curious, self._keep_frames, self._text = curious, keep_frames, job
        self.job = job
        self.stages: list[Stage] = []

    def run(
        self, protocol: Protocol, nodes: Mapping[str, Sequence[Role]], **options: Any
    ) -> Outcome:
        """See :class:`~fedsift.engine.session.Engine`."""
        make_curious(nodes, self._curious)
        self.job = self._text or job_of(protocol, nodes)
        options["keep_frames"] = self._keep_frames
        outcome = super().run(protocol, nodes, **options)
        self.stages.append(Stage(protocol, nodes, outcome, self._text))
        return outcome


def make_curious(nodes: Mapping[str, Sequence[Role]], curious: Twins, *watched: Any) -> None:
    """Turn roles that have not run yet into their curious twins, where they have one."""
    for role in (role for roles in nodes.values() for role in roles):
        twin: Any = curious.get(type(role))
        if twin is not None:
            # The twin has the same fields and overrides what its owner does with them.
            role.__class__ = twin
            twin.watch(role, *watched)


def recorded_fit(selector: Any, federation: Any, curious: Twins | None = None) -> Stage:
    """Fit a selector on a federation with everything kept."""
    engine = RecordingEngine(curious or {})
    selector.run(federation, engine=engine)
    return engine.stages[-1]
