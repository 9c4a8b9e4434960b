# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a party agrees to: checked against the plan before the run and at every message.

A policy speaks about what its owner's data may tell others. Kinds of disclosure are the short names
in front of each message's ``reveals``; ``fedsift methods`` lists them, and names of sets of them.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsift.config.parties import KIND_SETS
from fedsift.errors import ParameterError, PolicyViolation
from fedsift.protocol.message import Declaration

SMALLEST_CLASS = 5
"""Fewest rows of a class where no policy says otherwise."""
_AMOUNTS = ("bins", "classes", "groups", "epochs", "columns")
_ROUNDING = 1e-9
"""Share of a budget that sums of decimal fractions may exceed it by."""


@dataclass(frozen=True)
class Policy:
    """Limits of one party.

    Parameters
    ----------
    methods : tuple of str, optional
        Methods the party takes part in; any if missing.
    may_reveal : tuple of str, optional
        Kinds of disclosure the party allows, or names of sets of them, such as "basic"; any other
        kind stops a run. If missing: whatever a method needs, but nothing that it declares as
        optional.
    may_not_reveal : tuple of str
        Kinds, or sets of them, that the party never allows.
    min_security_bits : int
        Weakest encryption the party accepts; ``security="plain"`` counts as 0.
    min_bin_size : int
        Smallest bin, in rows, that the party lets into a count.
    min_class_size : int, optional
        Fewest rows that share a class of the label, whoever has it: the label holder's too. If
        missing: ``min_bin_size``, but not below 5. At least 1. The strictest party counts.
    min_rows : int
        Fewest rows of its own that the party takes part with.
    anonymous_names : bool
        Whether others see numbers instead of the names of the party's features, such as "shop #3".
        Parties with the same columns (horizontal) have to show them.
    max_epsilon : float, optional
        Largest budget of differential privacy; runs without one are refused then.
    max_release_epsilon : float, optional
        The same for what the selection itself reveals.
    max_epsilon_total : float, optional
        Largest sum of both budgets over all jobs on one table. If missing: each budget on its own
        may add up to ``max_epsilon`` and ``max_release_epsilon``, where those are given.
    max_jobs_per_table : int, optional
        Most jobs that a member takes part in with one table, whatever its file is called. If
        missing: 20, and where another party has the labels at most one for every 20 rows that are
        used, but never fewer than 3.
    min_row_change : int, optional
        Fewest rows by which two jobs may differ, unless they have the same rows; ``min_bin_size``
        if missing, and 0 allows any difference.
    max_ids_asked : int, optional
        Longest list of ids that the party compares with its own. If missing, a member answers
        lists up to ten times as long as its own.
    approval : {"none", "ask"}
        Whether a person at the member has to approve every job.
    max_bins, max_classes, max_groups, max_epochs, max_columns : int
        Most that a job may ask of the party's machine: bins of a column, classes of a label, groups
        or particles to try, epochs or iterations, columns of all parties. Checked before memory
        is taken.
    """

    methods: tuple[str, ...] | None = None
    may_reveal: tuple[str, ...] | None = None
    may_not_reveal: tuple[str, ...] = ()
    min_security_bits: int = 128
    min_bin_size: int = 5
    min_class_size: int | None = None
    min_rows: int = 0
    anonymous_names: bool = False
    max_epsilon: float | None = None
    max_release_epsilon: float | None = None
    max_epsilon_total: float | None = None
    max_jobs_per_table: int | None = None
    min_row_change: int | None = None
    max_ids_asked: int | None = None
    approval: str = "none"
    max_bins: int = 1_000
    max_classes: int = 1_000
    max_groups: int = 10_000
    max_epochs: int = 10_000
    max_columns: int = 100_000

    def __post_init__(self) -> None:
        if self.min_class_size is not None and self.min_class_size < 1:
            raise ParameterError(
                f"A policy has a min_class_size of {self.min_class_size}.",
                "A class has at least one row; 1 allows any class.",
                "Give 1 or more, or leave it out for the usual number.",
            )

    @property
    def smallest_class(self) -> int:
        """Fewest rows of a class; below the usual number only where the policy says so by name."""
        if self.min_class_size is None:
            return max(self.min_bin_size, SMALLEST_CLASS)
        return self.min_class_size

    def allows(self, declaration: Declaration) -> bool:
        """Whether the owner may send a message of this declaration."""
        if not declaration.reveals_something:
            return True
        if declaration.kind in expand_kinds(self.may_not_reveal):
            return False
        if self.may_reveal is None:
            return not declaration.optional
        return declaration.kind in expand_kinds(self.may_reveal)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Policy:
        """Build from the ``[policy]`` table of a party file."""
        if not isinstance(values, Mapping):
            raise ParameterError(
                f"A policy is a {type(values).__name__}.",
                "A Policy, or a mapping of its terms, is needed.",
                "Pass Policy(min_rows=100), for example.",
            )
        names = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise ParameterError(
                f"Unknown policy key {unknown[0]!r}.",
                f"Known: {', '.join(sorted(names))}.",
                "Remove or rename it.",
            )
        settings: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**settings)


@dataclass(frozen=True)
class RemotePolicy(Policy):
    """Stands for the policy of a party at another site, which enforces it there.

    Parameters
    ----------
    choices : frozenset of str
        Kinds that decide a setting of the run.
    granted : frozenset of str
        Those of them that the party said it allows.
    min_class_size : int
        What the parties agreed on.
    """

    min_security_bits: int = 0
    min_bin_size: int = 1
    min_class_size: int | None = 1
    max_bins: int = sys.maxsize
    max_classes: int = sys.maxsize
    max_groups: int = sys.maxsize
    max_epochs: int = sys.maxsize
    max_columns: int = sys.maxsize
    choices: frozenset[str] = frozenset()
    granted: frozenset[str] = frozenset()

    def allows(self, declaration: Declaration) -> bool:
        """What the party said where it was asked; anything else it sees to itself."""
        return declaration.kind not in self.choices or declaration.kind in self.granted


_OF_ONE_USER = ("bin-counts", "numeric-scores")
"""Optional kinds that can tell single rows, and are allowed where one user has all tables."""


@dataclass(frozen=True)
class SimulationPolicy(Policy):
    """Of parties without a policy in a simulation, where one user has all tables.

    What a method needs is allowed, and so are counts and scores of numeric labels; other optional
    extras are not.
    """

    min_security_bits: int = 0
    min_bin_size: int = 1

    def allows(self, declaration: Declaration) -> bool:
        """As :meth:`Policy.allows`; single rows are no secret to who has the rows."""
        return super().allows(declaration) or declaration.kind in _OF_ONE_USER


def only_kinds(policy: Policy) -> Policy:
    """The same lists of kinds, and no other term that could refuse a run."""
    limits: dict[str, Any] = dict.fromkeys((f"max_{what}" for what in _AMOUNTS), sys.maxsize)
    return dataclasses.replace(
        policy,
        methods=None,
        min_security_bits=0,
        min_bin_size=1,
        min_class_size=1,
        min_rows=0,
        anonymous_names=False,
        max_epsilon=None,
        max_release_epsilon=None,
        max_epsilon_total=None,
        **limits,
    )


OPEN = SimulationPolicy()
"""For simulations without a policy."""


def strictest_class_size(policies: Mapping[str, Policy], parties: Iterable[str]) -> int:
    """Fewest rows of a class that all these parties accept; the usual number without a policy."""
    return max(policies.get(party, OPEN).smallest_class for party in parties)


@dataclass(frozen=True)
class PlannedDisclosure:
    """A disclosure that a run will make if it goes through; ``step`` as in the ledger."""

    learner: str
    learner_role: str
    about: str
    about_role: str
    kind: str
    what: str
    message: str
    step: int = 0


def check_before(
    method: str,
    policies: Mapping[str, Policy],
    planned: Iterable[tuple[str, Declaration]],
    *,
    security_bits: int,
    min_bin_size: int | None = None,
    rows: Mapping[str, int] | None = None,
) -> None:
    """Refuse the run if it would leave any party's policy; nothing has been sent yet.

    ``planned`` lists (party, declaration) pairs, the party being the one whose data is disclosed;
    ``min_bin_size`` is given by methods that bin; ``rows`` are the parties' own numbers of rows.
    """
    for party, policy in policies.items():
        if policy.methods is not None and method not in policy.methods:
            raise _violation(
                party, f"the method {method!r}", f"methods: {', '.join(policy.methods)}"
            )
        if security_bits < policy.min_security_bits:
            found = f"{security_bits}-bit security" if security_bits else "a run without encryption"
            raise _violation(party, found, f"at least {policy.min_security_bits}-bit security")
        if min_bin_size is not None and min_bin_size < policy.min_bin_size:
            raise _violation(
                party, f"bins of {min_bin_size} rows", f"at least {policy.min_bin_size} rows a bin"
            )
        if rows is not None and party in rows:
            check_rows(party, policy, rows[party])
    refused: dict[str, list[Declaration]] = {}
    for party, declaration in planned:
        if not policies.get(party, OPEN).allows(declaration):
            refused.setdefault(party, []).append(declaration)
    for party, declarations in refused.items():
        raise _forbidden(party, policies.get(party, OPEN), declarations)


def check_epsilon(
    policies: Mapping[str, Policy], epsilon: float | None, release_epsilon: float | None = None
) -> None:
    """Refuse a run whose noise is too small for a party, or that has none."""
    for party, policy in policies.items():
        most = policy.max_epsilon
        if most is not None and (epsilon is None or epsilon > most):
            found = "a run without noise" if epsilon is None else f"an epsilon of {epsilon:g}"
            raise _violation(party, found, f"noise with an epsilon of at most {most:g}")
        most, spent = policy.max_release_epsilon, release_epsilon
        if most is not None and (spent is None or spent > most):
            found = "an exact selection" if spent is None else f"a release_epsilon of {spent:g}"
            raise _violation(party, found, f"selections with a release_epsilon of at most {most:g}")


def add_budgets(steps: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """Sum one budget over the settings of all steps; None if no step has it.

    Examples
    --------
    >>> add_budgets([{"epsilon": 1.0}, {}, {"epsilon": 0.5}], "epsilon")
    1.5
    """
    spent = [settings[name] for settings in steps if settings.get(name) is not None]
    return float(sum(spent)) if spent else None


def check_budget_of_steps(
    policies: Mapping[str, Policy], steps: Iterable[Mapping[str, Any]]
) -> None:
    """Refuse a chain whose steps together spend more than a party allows.

    That every single step has noise is checked with its own plan.
    """
    settings = list(steps)
    noise, release = (add_budgets(settings, name) for name in ("epsilon", "release_epsilon"))
    for party, policy in policies.items():
        total = (noise or 0.0) + (release or 0.0)
        limits = (
            (policy.max_epsilon, noise, "epsilon"),
            (policy.max_release_epsilon, release, "release_epsilon"),
            (policy.max_epsilon_total, total, "epsilon"),
        )
        for most, spent, name in limits:
            if most is not None and spent is not None and spent > most * (1 + _ROUNDING):
                raise _violation(
                    party,
                    f"a sum of {spent:g} over the {name} of its steps",
                    f"a sum of at most {most:g}",
                )


def check_amounts(
    policies: Mapping[str, Policy], parties: Iterable[str], amounts: Mapping[str, int]
) -> None:
    """Refuse a run that asks more of a party's machine than it allows; takes no memory itself.

    ``amounts`` are numbers of bins, classes, groups, epochs and columns. Parties without a policy
    have the limits of one that says nothing about them.
    """
    for party in parties:
        policy = policies.get(party, OPEN)
        for what, amount in amounts.items():
            most: int = getattr(policy, f"max_{what}")
            if amount > most:
                raise PolicyViolation(
                    f"The run needs {amount:,} {what}; the policy of party {party!r} forbids that.",
                    f"That policy allows at most {most:,} {what} (max_{what}).",
                    f"Ask for fewer, or ask {party!r} to change its policy; nothing was sent.",
                )


def check_asked(party: str, policy: Policy, **amounts: int) -> None:
    """As :func:`check_amounts`, for what one message asks of its receiver."""
    check_amounts({party: policy}, (party,), amounts)


def check_names(policies: Mapping[str, Policy]) -> None:
    """Refuse a run of parties that must have the same columns, if one hides what it has."""
    for party, policy in policies.items():
        if policy.anonymous_names:
            raise _violation(party, "the names of all columns", "numbers instead of its names")


def check_rows(party: str, policy: Policy, n_rows: int) -> None:
    """Refuse to take part with too few rows; how many there are stays with the party."""
    if n_rows < policy.min_rows:
        raise _violation(
            party, "fewer of its rows than it allows", f"at least {policy.min_rows} rows"
        )


def check_ids_asked(party: str, policy: Policy, n_asked: int) -> None:
    """Refuse to compare ids with a list that is too long."""
    most = policy.max_ids_asked
    if most is not None and n_asked > most:
        raise _violation(party, f"a comparison with {n_asked} ids", f"lists of at most {most} ids")


def check_message(party: str, policy: Policy, declaration: Declaration) -> None:
    """Refuse one message that the sender's policy does not allow."""
    if not policy.allows(declaration):
        raise _forbidden(party, policy, [declaration])


def _forbidden(party: str, policy: Policy, refused: Sequence[Declaration]) -> PolicyViolation:
    """Name the kind and message that a policy does not allow, other such kinds, and what to add."""
    first, kinds = refused[0], list(dict.fromkeys(one.kind for one in refused))
    found = f"The run needs the disclosure {first.kind!r} for {first.name} ({first.text})"
    if policy.may_reveal is None:
        allowed = f"anything but {', '.join(policy.may_not_reveal) or 'optional disclosures'}"
    else:
        allowed = ", ".join(policy.may_reveal) or "nothing"
    needed = f"That policy allows disclosing {allowed}."
    if kinds[1:]:
        needed += f" The run also needs {', '.join(map(repr, kinds[1:]))}."
    if first.kind in expand_kinds(policy.may_not_reveal):
        change = f"take {first.kind!r} out of may_not_reveal"
    else:
        sets = "".join(f" (or the set {name!r})" for name in name_sets(first.kind)[:1])
        change = f"add {', '.join(map(repr, kinds))} to may_reveal{sets}"
        if policy.may_reveal is None:
            change += ", which is then a list of all that may be revealed"
    return PolicyViolation(
        f"{found}, which the policy of party {party!r} forbids.",
        needed,
        f"Change the job, or ask {party!r} to {change}; no message was sent for this.",
    )


def _violation(party: str, found: str, allowed: str) -> PolicyViolation:
    return PolicyViolation(
        f"The run needs {found}, which the policy of party {party!r} forbids.",
        f"That policy allows {allowed}.",
        f"Change the job, or ask {party!r} to change its policy; no message was sent for this.",
    )


def expand_kinds(names: Iterable[str]) -> frozenset[str]:
    """Return all kinds in a list of kinds and names of sets."""
    return frozenset(kind for name in names for kind in KIND_SETS.get(name, (name,)))


def name_sets(kind: str) -> tuple[str, ...]:
    """Return the names of the sets that hold a kind."""
    return tuple(name for name, kinds in KIND_SETS.items() if kind in kinds)
