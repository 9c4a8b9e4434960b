# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""All a method ever sees of other parties: ``ask`` and ``tell``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from fedsift.errors import CryptoError, PartyFailed, ProtocolError
from fedsift.protocol.message import Message

T = TypeVar("T", bound=Message)


class Network(Protocol):
    """One role's door to the other roles of the protocol."""

    party: str
    """The organisation this role belongs to."""

    def members(self, role: str) -> tuple[str, ...]:
        """Parties that play a role, in party order."""
        ...

    async def ask(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        reply: type[T],
        *,
        timeout_seconds: float | None = None,
    ) -> list[T]:
        """Send to every member of a role at once and return the replies in party order.

        ``message`` is one for all, or one per party (parties left out are not asked). Raises one
        :class:`~fedsift.errors.PartyFailed` that names the party, the message and the round.
        """
        ...

    async def tell(
        self,
        role: str,
        message: Message | Mapping[str, Message],
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        """Send without expecting more than a confirmation."""
        ...

    def account(self) -> dict[str, Any]:
        """Traffic and disclosures that this site has counted so far; plain values, no content.

        Empty at a role that has the driver beside it, whose account has everything.
        """
        ...

    def go_on(self, account: Mapping[str, Any]) -> None:
        """Count on from the account of an interrupted run."""
        ...


@contextmanager
def errors_belong_to(party: str, message: str, round_number: int) -> Iterator[None]:
    """Turn errors found while reading a party's answer into that party's failure."""
    try:
        yield
    except PartyFailed:
        raise
    except (CryptoError, ProtocolError) as error:
        reason = f"its answer is not valid ({error})"
        raise PartyFailed(party, message, round_number, reason, cause_code=error.code) from error
