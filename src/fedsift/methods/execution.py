# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A run of a method: prepared, planned or executed, and turned into a result with its budget."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import msgspec

from fedsift.crypto.kernels import run_distance
from fedsift.data import Federation
from fedsift.data.federation import is_remote, local_only
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import Observer
from fedsift.errors import ParameterError
from fedsift.privacy.mechanisms import Accountant
from fedsift.privacy.release import Release
from fedsift.protocol import Message, Policy, Protocol, RemoteRole, Role, Transcript
from fedsift.protocol.policy import (
    OPEN,
    PlannedDisclosure,
    check_amounts,
    check_before,
    check_epsilon,
)
from fedsift.protocol.resume import checkpoint_messages, release_checkpoints
from fedsift.protocol.role import placement_of
from fedsift.result import SURVIVAL_TIMES, Disclosure, SelectionResult

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
        Settings that all parties know.
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
        """Whether what is revealed of rows is limited, so that remarks on them are kept back."""
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
    terms: Any = policy
    if not isinstance(terms, Mapping):
        return dict.fromkeys(parties, Policy.from_mapping(terms))  # which says what is needed
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


def refuse_too_much(policy: PolicyChoice, federation: Federation, **amounts: int) -> None:
    """Refuse what a job asks of a party beyond its policy, before a role takes memory for it.

    ``amounts`` are bins, groups and epochs; columns, and classes where labels are, are added.
    """
    given = policy.items() if isinstance(policy, Mapping) else ()
    named = [name for name, one in given if isinstance(one, (Policy, Mapping))]
    policies = policies_for(policy, tuple(dict.fromkeys((*federation.parties, *named))))
    target = federation.target
    n_classes = 0 if target is None or is_remote(target) else target.n_classes
    asked = {**amounts, "classes": n_classes, "columns": federation.n_features}
    check_amounts(policies, federation.parties, asked)


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
    prepared: PreparedRun,
    *,
    timeout_seconds: float | None = None,
    engine: Engine = LOCAL_ENGINE,
    checked: bool = False,
) -> Outcome:
    """Run the method; its checkpoints stay until the result is made.

    Policies are checked first, unless they have been since the method was prepared.
    """
    if not checked:
        make_plan(prepared)
    try:
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
    finally:
        release_checkpoints(prepared.nodes)


def facts_of(nodes: Mapping[str, Sequence[Role]]) -> Facts:
    """What all roles that are here know."""
    return [
        (party, role.facts())
        for party, roles in nodes.items()
        for role in roles
        if not isinstance(role, RemoteRole)
    ]


def facts_by_party(facts: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """What all roles of a party know together."""
    together: dict[str, dict[str, Any]] = {}
    for party, known in facts:
        together.setdefault(party, {}).update(known)
    return together


def replace_remote_roles(
    nodes: Mapping[str, Sequence[Role]], home: Collection[str] | None
) -> Mapping[str, Sequence[Role]]:
    """The same nodes, with stand-ins for the roles of parties of other sites."""
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
    p_values: Mapping[str, Mapping[str, float]] | None = None,
    q_values: Mapping[str, Mapping[str, float]] | None = None,
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
    traffic = outcome.transcript.traffic()
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
        traffic=msgspec.structs.replace(
            traffic, lines=(*federation.messages, *outcome.transcript.lines)
        ),
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
        distance_bits=run_distance(crypto, traffic.ciphertexts, prepared.security_bits),
        p_values={party: dict(values) for party, values in (p_values or {}).items()},
        q_values={party: dict(values) for party, values in (q_values or {}).items()},
    )


def name_ranking(ranking: Any, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Selected names, scores and ranks by party from a ranking of numbers in secret order.

    P-values and q-values too, if it has any; those that are not known are left out.
    """

    def by_name(values: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        return {
            party: {
                name: number
                for name, number in zip(names[party], numbers.tolist(), strict=True)
                if not math.isnan(number)
            }
            for party, numbers in values.items()
        }

    return {
        "selected": {p: [names[p][i] for i in chosen] for p, chosen in ranking.selected.items()},
        "scores": by_name(ranking.scores),
        "ranking": by_name(ranking.ranks),
        "p_values": by_name(getattr(ranking, "p_values", {})),
        "q_values": by_name(getattr(ranking, "q_values", {})),
    }


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
    """Rows and features by party, and whether labels are survival times; no names, no values."""
    targets = [federation.target, *federation.targets.values()]
    times = any(target is not None and target.has_times for target in targets)
    return {
        "n_rows": federation.n_rows,
        "n_features": federation.n_features,
        "parties": {
            party: {"n_rows": table.n_rows, "n_features": table.n_columns}
            for party, table in federation.tables.items()
        },
        "label_holder": federation.label_holder,
        **({"labels": SURVIVAL_TIMES} if times else {}),
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


NEIGHBOURS = "data that differ in one row over all parties, its values and its label"

_NOISY_MESSAGES = ("NoisyCounts", "MaskedSums", "NoisyVotes")

_RELEASED = "selection"
"""Kind of the messages that tell what was chosen."""


def check_release(epsilon: float | None, checkpoint: Any) -> None:
    """Refuse runs that would spend a budget twice."""
    if epsilon is not None and checkpoint is not None:
        raise ParameterError(
            "A checkpoint together with a release_epsilon.",
            "A resumed run would choose again, and spend the budget again.",
            "Leave the checkpoint out.",
        )


def refuse_checkpoints(steps: Iterable[Mapping[str, Any]], place: Any) -> None:
    """Refuse a chain with checkpoints if a step has a budget, before the first step runs."""
    for number, settings in enumerate(steps, start=1):
        spends = any(settings.get(name) is not None for name in ("epsilon", "release_epsilon"))
        if spends and place is not None:
            raise ParameterError(
                f"Checkpoints of a chain, and step {number} has a budget of privacy.",
                "If that step is interrupted, a resumed run would spend the budget again.",
                "Leave the checkpoint out.",
            )


def budget_text(epsilon: float, delta: float) -> str:
    """For plans and ledgers."""
    return f"epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else "")


def release_notes(epsilon: float | None, delta: float, what: str = "scores") -> tuple[str, ...]:
    """For the plan."""
    if epsilon is None:
        return ()
    return (
        f"Differential privacy of the selection: it is drawn with {budget_text(epsilon, delta)} "
        f"for one row over all parties, its values and its label; {what}. What parties learn "
        "while the method runs is listed as without it.",
    )


def with_release(
    result: SelectionResult, budget: Release, account: Accountant, mechanism: str, **more: Any
) -> SelectionResult:
    """The result with what its selection has spent, in its parameters and ledger."""
    release = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "mechanism": mechanism,
        "neighbours": NEIGHBOURS,
        "spent": round(account.total, 9),
        **more,
    }
    privacy = {**result.parameters.get("privacy", {}), "release": release}
    return msgspec.structs.replace(
        result,
        parameters={**result.parameters, "privacy": privacy},
        disclosures=with_release_prices(result.disclosures, privacy),
    )


def with_release_prices(
    rows: Iterable[Disclosure], privacy: dict[str, Any]
) -> tuple[Disclosure, ...]:
    """Rows of a ledger; those that tell the selection say which budget they spent."""
    release = privacy.get("release")
    if not release:
        return tuple(rows)
    text = f"; drawn with noise, spent {budget_text(release['epsilon'], release['delta'])}"
    return tuple(
        msgspec.structs.replace(row, what=row.what + text) if row.kind == _RELEASED else row
        for row in rows
    )


def with_prices(
    rows: Iterable[Disclosure], parameters: Mapping[str, Any]
) -> tuple[Disclosure, ...]:
    """Rows of a ledger; those that carry noise say which budget they spent."""
    privacy = parameters.get("privacy", {})
    rows = with_release_prices(rows, privacy)
    if "epsilon" not in privacy:
        return rows
    budget = f"epsilon {privacy['epsilon']:g}"
    if privacy["delta"]:
        budget += f", delta {privacy['delta']:g}"
    return tuple(
        msgspec.structs.replace(row, what=f"{row.what}; with noise, spent {budget}")
        if row.message in _NOISY_MESSAGES
        else row
        for row in rows
    )
