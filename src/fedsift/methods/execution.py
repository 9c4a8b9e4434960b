# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A run of a method: prepared, planned or executed, and turned into a result."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from fedsift.data import Federation
from fedsift.data.remote_table import local_only
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import Observer
from fedsift.errors import ParameterError
from fedsift.protocol import Message, Policy, Protocol, RemoteRole, Role, Transcript
from fedsift.protocol.policy import OPEN, PlannedDisclosure, check_before, check_epsilon
from fedsift.protocol.protocol import placement_of
from fedsift.protocol.resume import checkpoint_messages
from fedsift.result import SelectionResult

PolicyChoice = Policy | Mapping[str, Any] | None
"""One policy for everybody, or one per party (objects or tables), or none."""

_LIBRARIES = ("fedsift", "numpy", "scikit-learn", "seal-python", "gmpy2", "msgspec", "torch")


Facts = list[tuple[str, dict[str, Any]]]
"""Pairs of a party and what one of its roles knows at the end, as :meth:`Role.facts` gives it."""


@dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """A method made ready for one federation; nothing has been sent yet.

    Parameters
    ----------
    nodes : mapping of party to roles
    used : tuple of Message types
        What the plan shows; no other message can be sent.
    params : Params of the method
        Settings that all parties are told.
    rows : mapping of party to int
        Rows of the parties that are here, which their policies may want more of.
    labels : array-like, optional
        As the caller gave them, beside arrays.
    on_interrupt : callable, optional
        Asks the driving role for an early but orderly end.
    display : context manager
        What is shown while the method runs.
    """

    protocol: Protocol
    nodes: Mapping[str, Sequence[Role]]
    used: tuple[type[Message], ...]
    security_bits: int
    federation: Federation | None = None
    params: Any = None
    policies: Mapping[str, Policy] = field(default_factory=dict)
    min_bin_size: int | None = None
    notes: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    epsilon: float | None = None
    release_epsilon: float | None = None
    labels: Any = None
    observer: Observer = field(default_factory=Observer)
    on_interrupt: Callable[[], None] | None = None
    display: AbstractContextManager[Any] = field(default_factory=nullcontext)

    @property
    def has_budget(self) -> bool:
        """Whether what is told of rows is limited, so that remarks on them are kept back."""
        return self.epsilon is not None or self.release_epsilon is not None


@dataclass(frozen=True)
class Plan:
    """Who will learn what if the job runs; what a privacy officer reads first."""

    method: str
    disclosures: tuple[PlannedDisclosure, ...]
    notes: tuple[str, ...]
    security_bits: int


def policies_for(policy: PolicyChoice, parties: Sequence[str]) -> dict[str, Policy]:
    """A policy for every party that has one."""
    if policy is None:
        return {}
    if isinstance(policy, Policy):
        return dict.fromkeys(parties, policy)
    if policy and set(policy) <= set(parties):
        return {
            party: given if isinstance(given, Policy) else Policy.from_mapping(given)
            for party, given in policy.items()
        }
    if any(isinstance(given, (Policy, Mapping)) for given in policy.values()):
        strangers = sorted(set(policy) - set(parties))
        raise ParameterError(
            f"There is a policy for {strangers[0]!r}, which is not a party.",
            f"The parties are {', '.join(parties)}.",
            "Name the policies after the parties.",
        )
    return dict.fromkeys(parties, Policy.from_mapping(policy))


def make_plan(prepared: PreparedRun) -> Plan:
    """Check the policies and list the disclosures; sends nothing."""
    placement = placement_of(prepared.nodes)
    check_before(
        prepared.protocol.name,
        prepared.policies,
        prepared.protocol.sends(prepared.used, placement),
        security_bits=prepared.security_bits,
        min_bin_size=prepared.min_bin_size,
        rows=prepared.rows,
    )
    check_epsilon(prepared.policies, prepared.epsilon, prepared.release_epsilon)
    planned = prepared.protocol.planned(prepared.used, placement)
    return Plan(prepared.protocol.name, tuple(planned), prepared.notes, prepared.security_bits)


def execute(
    prepared: PreparedRun, *, timeout_seconds: float | None = None, engine: Engine = LOCAL_ENGINE
) -> Outcome:
    """Check the policies, then run the method; its checkpoints stay until the result is made."""
    make_plan(prepared)
    with prepared.display:
        return engine.run(
            prepared.protocol,
            prepared.nodes,
            planned=(*prepared.used, *checkpoint_messages(prepared.protocol.roles[0])),
            policies={party: prepared.policies.get(party, OPEN) for party in prepared.nodes},
            timeout_seconds=timeout_seconds,
            observer=prepared.observer,
            protected=prepared.security_bits > 0,
            on_interrupt=prepared.on_interrupt,
        )


def facts_of(nodes: Mapping[str, Sequence[Role]]) -> Facts:
    """What all roles that are here know."""
    return [
        (party, role.facts())
        for party, roles in nodes.items()
        for role in roles
        if not isinstance(role, RemoteRole)
    ]


def replace_remote_roles(
    nodes: Mapping[str, Sequence[Role]], home: Collection[str] | None
) -> Mapping[str, Sequence[Role]]:
    """The same nodes, with stand-ins for the roles of parties that are not at home."""
    if home is None:
        return nodes
    return {
        party: tuple(
            role if party in home or isinstance(role, RemoteRole) else RemoteRole(type(role))
            for role in roles
        )
        for party, roles in nodes.items()
    }


def build_result(
    federation: Federation,
    prepared: PreparedRun,
    outcome: Outcome,
    *,
    selected: Mapping[str, Sequence[str]],
    parameters: Mapping[str, Any],
    crypto: str,
    seed: int | None,
    scores: Mapping[str, Mapping[str, float]] | None = None,
    ranking: Mapping[str, Mapping[str, int]] | None = None,
    participants: Mapping[str, float] | None = None,
    history: Sequence[Mapping[str, Any]] | None = None,
    warnings: Sequence[str] = (),
) -> SelectionResult:
    """A result from a method's outcome; cost, ledger, shapes and versions are filled in here.

    Selected names are listed in their owner's column order. ``history`` defaults to the traffic by
    round; a method with steps of its own (epochs, rounds of a swarm) gives them instead. Remarks on
    the data are left out if rows have a budget of privacy: a single row can make one.
    """
    order = {party: list(table.feature_names) for party, table in federation.tables.items()}
    return SelectionResult(
        method=prepared.protocol.name,
        setting=federation.setting,
        selected={
            party: tuple(sorted(names, key=order[party].index)) for party, names in selected.items()
        },
        scores={party: dict(values) for party, values in (scores or {}).items()},
        ranking={party: dict(values) for party, values in (ranking or {}).items()},
        history=(
            history_of(outcome.transcript)
            if history is None
            else tuple(dict(entry) for entry in history)
        ),
        participants=dict(participants or {}),
        traffic=outcome.transcript.traffic(),
        timings=outcome.timings,
        disclosures=(*federation.disclosures, *outcome.ledger.rows()),
        parameters=dict(parameters),
        security="secure" if prepared.security_bits else "plain",
        security_bits=prepared.security_bits,
        crypto=crypto,
        seed=seed,
        shape=shape_of(federation),
        versions=versions(),
        warnings=(*(() if prepared.has_budget else federation.warnings), *warnings),
    )


def history_of(transcript: Transcript) -> tuple[dict[str, Any], ...]:
    """One entry per round: which messages went and how many bytes."""
    rounds: dict[int, dict[str, Any]] = {}
    for entry in transcript.ordered():
        row = rounds.setdefault(
            entry.round_number, {"round": entry.round_number, "messages": [], "n_bytes": 0}
        )
        row["n_bytes"] += entry.n_bytes
        if entry.message not in row["messages"]:
            row["messages"].append(entry.message)
    return tuple(rounds.values())


def shape_of(federation: Federation) -> dict[str, Any]:
    """Rows and features by party; no names, no values."""
    return {
        "n_rows": federation.n_rows,
        "n_features": federation.n_features,
        "parties": {
            party: {"n_rows": table.n_rows, "n_features": table.n_columns}
            for party, table in federation.tables.items()
        },
        "label_holder": federation.label_holder,
    }


def rows_of(federation: Federation) -> dict[str, int]:
    """Rows of every party with features, which its policy may want more of."""
    return {party: table.n_rows for party, table in local_only(federation.tables).items()}


def versions() -> dict[str, str]:
    """Versions a result depends on."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found
