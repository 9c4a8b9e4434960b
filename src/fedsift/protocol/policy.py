# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a party agrees to: checked against the plan before the run and at every message.

A policy speaks about what its owner's data may tell others. Kinds of disclosure are the short names
in front of each message's ``reveals``; ``fedsift methods`` lists them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsift.errors import ParameterError, PolicyViolation
from fedsift.protocol.message import Declaration


@dataclass(frozen=True)
class Policy:
    """Limits of one party.

    Parameters
    ----------
    methods : tuple of str, optional
        Methods the party takes part in; any if missing.
    may_reveal : tuple of str, optional
        Kinds of disclosure the party allows, besides customary ones. If missing: whatever a method
        needs, but nothing that it declares as optional.
    may_not_reveal : tuple of str
        Kinds the party never allows.
    min_security_bits : int
        Weakest encryption the party accepts; ``security="plain"`` counts as 0.
    min_bin_size : int
        Smallest bin, in rows, that the party lets into a count.
    min_rows : int
        Fewest rows of its own that the party takes part with.
    anonymous_names : bool
        Whether others see numbers instead of the names of the party's features, such as "shop #3".
        Parties with the same columns (horizontal) have to show them.
    max_epsilon : float, optional
        Largest budget of differential privacy; runs without one are refused then.
    max_release_epsilon : float, optional
        The same for what the selection itself reveals.
    """

    methods: tuple[str, ...] | None = None
    may_reveal: tuple[str, ...] | None = None
    may_not_reveal: tuple[str, ...] = ()
    min_security_bits: int = 128
    min_bin_size: int = 5
    min_rows: int = 0
    anonymous_names: bool = False
    max_epsilon: float | None = None
    max_release_epsilon: float | None = None

    def allows(self, declaration: Declaration) -> bool:
        """Whether the owner may send a message of this declaration."""
        if not declaration.reveals_something:
            return True
        if declaration.kind in self.may_not_reveal:
            return False
        if declaration.allowed_by_default:
            return True
        if self.may_reveal is None:
            return not declaration.optional
        return declaration.kind in self.may_reveal

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Policy:
        """Build from the ``[policy]`` table of a party file."""
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
    """

    min_security_bits: int = 0
    min_bin_size: int = 1
    choices: frozenset[str] = frozenset()
    granted: frozenset[str] = frozenset()

    def allows(self, declaration: Declaration) -> bool:
        """What the party said where it was asked; anything else it sees to itself."""
        return declaration.kind not in self.choices or declaration.kind in self.granted


OPEN = Policy(min_security_bits=0, min_bin_size=1)
"""For simulations without a policy: what a method needs is allowed, optional extras are not."""


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
    for party, declaration in planned:
        check_message(party, policies.get(party, OPEN), declaration)


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


def check_message(party: str, policy: Policy, declaration: Declaration) -> None:
    """Refuse one message that the sender's policy does not allow."""
    if policy.allows(declaration):
        return
    if policy.may_reveal is None:
        allowed = f"anything but {', '.join(policy.may_not_reveal) or 'optional disclosures'}"
    else:
        allowed = ", ".join(policy.may_reveal) or "nothing"
    raise _violation(
        party, f"the disclosure {declaration.kind!r} ({declaration.text})", f"disclosing {allowed}"
    )


def _violation(party: str, found: str, allowed: str) -> PolicyViolation:
    return PolicyViolation(
        f"The run needs {found}, which the policy of party {party!r} forbids.",
        f"That policy allows {allowed}.",
        f"Change the job, or ask {party!r} to change its policy; no message was sent for this.",
    )
