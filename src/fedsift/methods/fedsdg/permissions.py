# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What the protocol of the paper opens of single rows, and who has to allow it by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fedsift.errors import PolicyViolation
from fedsift.protocol import Message, Policy, Protocol, Role
from fedsift.protocol.policy import OPEN, expand_kinds
from fedsift.protocol.role import placement_of


def one_owner(messages: Iterable[type[Message]]) -> Policy:
    """Policy of parties in this process only, cut out of one table of the caller's."""
    kinds = dict.fromkeys(message.declaration.kind for message in messages)
    return Policy(may_reveal=tuple(kinds), min_security_bits=0, min_bin_size=1)


def refuse_unnamed(
    protocol: Protocol,
    used: tuple[type[Message], ...],
    nodes: Mapping[str, Sequence[Role]],
    policies: Mapping[str, Policy],
) -> None:
    """Refuse gradients and outputs of single rows that a policy does not name; nothing was sent.

    What a policy forbids by name is refused with all other kinds, before the run.
    """
    sends = list(protocol.sends(used, placement_of(nodes)))
    missing: dict[str, list[str]] = {}
    for party, declaration in sends:
        policy = policies.get(party, OPEN)
        forbidden = declaration.kind in expand_kinds(policy.may_not_reveal)
        if declaration.optional and not forbidden and not policy.allows(declaration):
            named = expand_kinds(policy.may_reveal or ())
            kinds = (own.kind for other, own in sends if other == party and own.reveals_something)
            missing[party] = [kind for kind in dict.fromkeys(kinds) if kind not in named]
    if not missing:
        return
    missing = {party: missing[party] for party in nodes if party in missing}
    listed = "; ".join(f"{p}: {', '.join(map(repr, kinds))}" for p, kinds in missing.items())
    raise PolicyViolation(
        "protocol='paper' opens numbers of single rows, from which labels and columns can be "
        f"computed, and {', '.join(map(repr, missing))} did not allow it by name.",
        f"Every policy has to name what it reveals. Missing in may_reveal: {listed}.",
        "Add these kinds to the policies, or use protocol='blind', the default, which opens no row "
        "and needs none of them; nothing was sent.",
    )
