# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Runs with everything kept: the bytes every party received, and what it opened of them.

Parties follow the protocol. Where an attack needs numbers that a party decrypts on the way, the
party's role becomes its curious twin from :mod:`fedsift.lab.attacks`, which notes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.engine import LocalEngine, Outcome
from fedsift.lab.attacks.attack import Trial
from fedsift.lab.attacks.fedsdg.layer_views import (
    CuriousFeatureHolder,
    CuriousLabelHolder,
    Weakness,
)
from fedsift.lab.attacks.fpso.accuracy_profile import CuriousThirdParty
from fedsift.lab.attacks.vfps.distance_reconstruction import CuriousLeader
from fedsift.lab.attacks.vfps.pseudonym_linking import CuriousAggregator
from fedsift.methods.carrier import Carrier
from fedsift.methods.execution import Prepared, execute
from fedsift.methods.fedsdg import label_holder as fedsdg
from fedsift.methods.fedsdg.feature_holder import FeatureHolder
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.vfps import aggregator as vfps_parties
from fedsift.methods.vfps import leader as vfps
from fedsift.protocol import Codec, Policy, Protocol, Role


@dataclass(frozen=True, eq=False)
class Stage:
    """One protocol of a run, with its roles as they are at the end."""

    protocol: Protocol
    nodes: Mapping[str, Sequence[Role]]
    outcome: Outcome

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


class RecordingEngine(LocalEngine):
    """Plays every protocol with curious parties, and keeps what there is at the end.

    ``keep_frames=False`` is for methods whose attacks need no bytes: those of a training are many.
    """

    def __init__(self, *, keep_frames: bool = True) -> None:
        self._keep_frames = keep_frames
        self.stages: list[Stage] = []

    def run(
        self, protocol: Protocol, nodes: Mapping[str, Sequence[Role]], **options: Any
    ) -> Outcome:
        """See :class:`~fedsift.engine.api.Engine`."""
        for roles in nodes.values():
            for role in roles:
                make_curious(role)
        options["keep_frames"] = self._keep_frames
        outcome = super().run(protocol, nodes, **options)
        self.stages.append(Stage(protocol, nodes, outcome))
        return outcome


class RecordingCarrier(Carrier):
    """Lets a selector run as ever, in the hands of a recording player."""

    def __init__(self, engine: RecordingEngine) -> None:
        self._engine = engine

    def execute(
        self, prepared: Prepared, policies: Mapping[str, Policy], **options: Any
    ) -> Outcome:
        """Carry out what a selector prepared."""
        return execute(prepared, policies, engine=self._engine, **options)


def recorded_fit(selector: Any, federation: Any) -> Stage:
    """Fit a selector on a federation with everything kept."""
    engine = RecordingEngine()
    selector.run(federation, carrier=RecordingCarrier(engine))
    return engine.stages[-1]


def make_curious(role: Role) -> None:
    """Turn a role that has not played yet into its curious twin, if it has one."""
    for kind, turn in _TWINS.items():
        if type(role) is kind:
            turn(role)


def _turn(twin: type[Any], *arguments: Any) -> Callable[[Any], None]:
    def turn(role: Any) -> None:
        # The twin has the same fields and overrides what its owner does with them.
        role.__class__ = twin
        role.watch(*arguments)

    return turn


_TWINS: dict[type[Any], Callable[[Any], None]] = {
    fedsdg.LabelHolder: _turn(CuriousLabelHolder, Weakness.NONE),
    FeatureHolder: _turn(CuriousFeatureHolder, Weakness.NONE),
    fpso.ThirdParty: _turn(CuriousThirdParty),
    vfps.Leader: _turn(CuriousLeader),
    vfps_parties.Aggregator: _turn(CuriousAggregator),
}
