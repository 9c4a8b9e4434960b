# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How a selector reaches the parties: it hands over what it prepared and gets back what they know.

Alone, a selector has every party in this process and reads what it likes. In a joint run its
carrier plays this site's roles only, and facts of other parties come in messages or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fedsift.engine import Outcome
from fedsift.methods.execution import Prepared, execute
from fedsift.protocol import Policy, RemoteRole, Role

Facts = list[tuple[str, dict[str, Any]]]
"""Pairs of a party and what one of its roles knows at the end, as :meth:`Role.facts` gives it."""


class Carrier:
    """Every party is in this process."""

    def execute(
        self, prepared: Prepared, policies: Mapping[str, Policy], **options: Any
    ) -> Outcome:
        """Carry out what a selector prepared; options as of :func:`execute`."""
        return execute(prepared, policies, **options)

    def facts(self, prepared: Prepared) -> Facts | None:
        """What the result is made of; None if another site makes it."""
        return facts_of(prepared.nodes)


ALONE = Carrier()
"""For selectors that were given no carrier."""


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
    """Roles of parties that are not at home become absent ones."""
    if home is None:
        return nodes
    return {
        party: tuple(
            role if party in home or isinstance(role, RemoteRole) else RemoteRole(type(role))
            for role in roles
        )
        for party, roles in nodes.items()
    }


def parts_of_model(
    nodes: Mapping[str, Sequence[Role]], home: Collection[str] | None
) -> dict[str, dict[str, Any]]:
    """Parts of a trained model that belong to the parties at home, if the method leaves one."""
    return {
        party: role.part_state()
        for party, roles in replace_remote_roles(nodes, home).items()
        for role in roles
        if hasattr(role, "part_state")
    }
