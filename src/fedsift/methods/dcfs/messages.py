# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of DCFS, in the order they are first sent."""

from __future__ import annotations

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

SIGNALS = signals_between("coordinator", "member")


@message(flow="coordinator -> member", reveals="nothing: asks for a masking key")
class Hello(Message, frozen=True):
    """Opens the run."""


@message(flow="member -> coordinator", reveals="schema: number of columns, as all members share it")
class Greeting(Message, frozen=True):
    """A member's masking key."""

    key: PublicKeys
    n_features: int


@message(flow="coordinator -> member", reveals="nothing: public masking keys of all members")
class Roster(Message, frozen=True):
    """Everybody's masking key."""

    keys: dict[str, PublicKeys]


@message(flow="member -> coordinator", reveals="nothing: sealed for the other members")
class SecretDealt(Message, frozen=True):
    """The first member's secret for the anchors, sealed for each other one; empty from the rest."""

    sealed: dict[str, Ciphertexts]


@message(flow="coordinator -> member", reveals="nothing: passes on what another member sealed")
class AnchorSecret(Message, frozen=True):
    """The secret that anchors are drawn from."""

    sealed: Ciphertexts


@message(flow="coordinator -> member", reveals="nothing: asks for masked sums")
class SumsWanted(Message, frozen=True):
    """Asks for sums and squares of every column."""


@message(
    flow="member -> coordinator",
    reveals="pooled-sums: totals over all members; one member's part is masked",
)
class MaskedSums(Message, frozen=True):
    """One member's sums and squares under pairwise masks; sent only with ``scale="pooled"``."""

    sums: MaskedArray


@message(
    flow="coordinator -> member",
    reveals="pooled-moments: common mean and spread of every column",
    optional=True,
    about="member",
)
class CommonScale(Message, frozen=True):
    """What everybody scales by, instead of own means and spreads."""

    mean: PublicArray
    unit: PublicArray


@message(flow="coordinator -> member", reveals="nothing: asks for the first image")
class ImagesWanted(Message, frozen=True):
    """Everybody has the anchors' secret."""


@message(
    flow="member -> coordinator",
    reveals="anchor-images: the party's projection of anchors the receiver does not know",
)
class Images(Message, frozen=True):
    """B X^a, shape (p, r), fewer anchors than columns."""

    image: PublicArray


@message(
    flow="member -> coordinator",
    reveals="known-anchor-images: the party's projection of anchors the receiver may know, because "
    "they are public or drawn from the seed of the job",
)
class ImagesOfKnownAnchors(Message, frozen=True):
    """B X^a of fewer anchors than columns, which are no secret of the members."""

    image: PublicArray


@message(
    flow="member -> coordinator",
    reveals="recoverable-projection: as many anchor images as columns, so that whoever knows the "
    "anchors recovers the party's projection and the span of its rows",
)
class ImagesOfManyAnchors(Message, frozen=True):
    """B X^a with at least as many anchors as columns, sent only after an explicit override."""

    image: PublicArray


@message(
    flow="coordinator -> member",
    reveals="alignment: how the receiver's projection maps to the common target",
    about="member",
)
class AlignOne(Message, frozen=True):
    """M_i for one party, shape (q, p); asks for the next image."""

    matrix: PublicArray


@message(
    flow="coordinator -> member",
    reveals="anchor-images: every party's projection of anchors that all members know",
    about="member",
)
class AlignAll(Message, frozen=True):
    """All images, as the paper shares them; asks for the next image."""

    images: dict[str, PublicArray]


@message(flow="coordinator -> member", reveals="nothing: asks for masked scores")
class ScoresWanted(Message, frozen=True):
    """Asks for the feature scores of the last update, or for ranks if every party selects alone."""


@message(
    flow="member -> coordinator",
    reveals="pooled-scores: mean score or rank of every column over all members; one member's part "
    "is masked",
)
class MaskedScores(Message, frozen=True):
    """One member's scores under pairwise masks."""

    scores: MaskedArray


@message(
    flow="coordinator -> member",
    reveals="selection: which columns were selected",
    about="member",
)
class Chosen(Message, frozen=True):
    """The joint selection."""

    features: tuple[int, ...]


MESSAGES = (*messages_in(__name__), *SIGNALS.messages)
