# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A role that is played elsewhere: it has a name and a place, and nothing behind them."""

from __future__ import annotations

from fedsift.protocol.role import DrivingRole, Role


class RemoteRole(Role):
    """Stands for a role whose party lives at another site.

    Parameters
    ----------
    role_type : Role type
        What the party plays over there.

    Examples
    --------
    >>> class Participant(Role, name="participant"):
    ...     pass
    >>> remote = RemoteRole(Participant)
    >>> remote.role_name, remote.driving
    ('participant', False)
    """

    def __init__(self, role_type: type[Role]) -> None:
        self.role_name = role_type.role_name
        self.driving = issubclass(role_type, DrivingRole)

    def __repr__(self) -> str:
        return f"<{self.role_name} at another site>"
