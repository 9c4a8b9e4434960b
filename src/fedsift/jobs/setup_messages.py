# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the meeting that comes before a joint run, in the order they are first sent."""

from __future__ import annotations

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.protocol import Message, PublicArray, message

COORDINATOR, PARTICIPANT, NEUTRAL = "coordinator", "participant", "neutral"
_DOWN, _UP = f"{COORDINATOR} -> {PARTICIPANT}", f"{PARTICIPANT} -> {COORDINATOR}"


@message(flow=_DOWN, reveals="nothing: which job and which version of fedsift")
class Invitation(Message, frozen=True):
    """From a coordinator without data; asks what the receiver brings along."""

    version: str
    job: str


@message(
    flow=_DOWN,
    reveals="outline: number of rows, and whether the labels are classes (how many, if a setting "
    "depends on it) or numbers",
    allowed_by_default=True,
)
class HolderInvitation(Message, frozen=True):
    """From a coordinator that is a party itself; asks what the receiver brings along."""

    version: str
    job: str
    n_rows: int
    labels: str
    n_classes: int


@message(
    flow=_UP,
    reveals="outline: number of rows, names of features and (where all need the same) which of "
    "them are categories, and whether the labels are numbers, classes or a single class",
    allowed_by_default=True,
)
class OwnOutline(Message, frozen=True):
    """What a party brings along, and which of the disclosures that are a choice it allows."""

    n_rows: int
    features: tuple[str, ...]
    categorical: tuple[str, ...]
    labels: str
    allows: tuple[str, ...]
    key: PublicKeys | None


@message(flow=_DOWN, reveals="nothing: the columns that all parties have, and what they allow")
class Agreement(Message, frozen=True):
    """From a coordinator without data: what all sites compute the same settings from.

    ``columns`` is the common order of columns; ``allowed`` lists the disclosures by choice that
    each party allows.
    """

    columns: tuple[str, ...]
    allowed: dict[str, tuple[str, ...]]


@message(
    flow=_DOWN,
    reveals="total-feature-count: number of features of all parties together, and who has any",
    allowed_by_default=True,
)
class HolderAgreement(Message, frozen=True):
    """From a coordinator that is a party itself: what all sites compute the same settings from."""

    tables: tuple[str, ...]
    n_features: int
    allowed: dict[str, tuple[str, ...]]


@message(
    flow=f"{COORDINATOR} -> {NEUTRAL}",
    reveals="outline: number of rows, number of features of all parties together, and whether the "
    "labels are classes or numbers",
    allowed_by_default=True,
)
class Briefing(Message, frozen=True):
    """What a party without data needs to compute the same settings."""

    version: str
    job: str
    n_rows: int
    labels: str
    n_classes: int
    tables: tuple[str, ...]
    n_features: int
    allowed: dict[str, tuple[str, ...]]


@message(flow=_DOWN, reveals="nothing: public keys of the other parties")
class SecretWanted(Message, frozen=True):
    """Asks one party to deal a secret that the coordinator does not learn."""

    keys: dict[str, PublicKeys]


@message(flow=_UP, reveals="nothing: sealed for the other parties")
class SecretDealt(Message, frozen=True):
    """The secret for each of the others."""

    sealed: dict[str, Ciphertexts]


@message(flow=_DOWN, reveals="nothing: passes on what another party sealed")
class WordsWanted(Message, frozen=True):
    """Asks for the categories and classes of the receiver, as digests under the secret."""

    dealer: PublicKeys | None
    sealed: Ciphertexts | None


@message(
    flow=_UP,
    reveals="word-counts: how many categories and classes there are, and how many of them other "
    "parties have too; the words themselves are under a secret the receiver does not know",
    allowed_by_default=True,
)
class Words(Message, frozen=True):
    """Digests by column, two words each."""

    digests: dict[str, PublicArray]


@message(
    flow=_DOWN,
    reveals="word-counts: how many categories and classes all parties have together",
    about=PARTICIPANT,
    allowed_by_default=True,
)
class WordNumbers(Message, frozen=True):
    """Common numbers of the receiver's own words, and how many there are, by column."""

    codes: dict[str, PublicArray]
    sizes: dict[str, int]


MESSAGES = (
    Invitation,
    HolderInvitation,
    OwnOutline,
    Briefing,
    Agreement,
    HolderAgreement,
    SecretWanted,
    SecretDealt,
    WordsWanted,
    Words,
    WordNumbers,
)
