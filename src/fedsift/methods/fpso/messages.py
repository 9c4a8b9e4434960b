# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of FPSO-FS, in the order they are first sent."""

from __future__ import annotations

from fedsift.crypto.wire import PublicKeys
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

SIGNALS = signals_between("third party", "participant")


@message(flow="third party -> participant", reveals="nothing: asks for a masking key")
class Hello(Message, frozen=True):
    """Opens the run."""


@message(
    flow="participant -> third party",
    reveals="schema: number of columns, as all participants share it",
)
class Greeting(Message, frozen=True):
    """A participant's masking key."""

    key: PublicKeys
    n_features: int


@message(flow="third party -> participant", reveals="nothing: public masking keys of all")
class Roster(Message, frozen=True):
    """Everybody's masking key."""

    keys: dict[str, PublicKeys]


@message(flow="third party -> participant", reveals="nothing: asks for a round of local search")
class SearchWanted(Message, frozen=True):
    """Asks for the best subset of one round."""

    round_number: int


@message(
    flow="participant -> third party",
    reveals="unnamed-subsets: which columns serve each party best, without saying whose is whose",
)
class UnnamedSubset(Message, frozen=True):
    """Private best subset X_i of a round, as what it adds to sums under pairwise masks."""

    summands: MaskedArray


@message(
    flow="participant -> third party",
    reveals="local-subset: which columns serve this party best",
    optional=True,
)
class LocalSubset(Message, frozen=True):
    """The same openly, as the paper's trusted third party gets it."""

    mask: PublicArray


@message(
    flow="third party -> participant",
    reveals="unnamed-subsets: which columns serve each party best, without saying whose is whose",
    about="participant",
)
class Candidates(Message, frozen=True):
    """All private subsets, to be tried on the receiver's own rows; shape (n, n_features)."""

    step: int
    masks: PublicArray


@message(
    flow="third party -> participant",
    reveals="search-path: subsets that a search on pooled accuracies visits",
    about="participant",
)
class Particles(Message, frozen=True):
    """Subsets of a common swarm, to be tried on the receiver's own rows."""

    step: int
    masks: PublicArray


@message(
    flow="participant -> third party",
    reveals="pooled-accuracy: mean accuracy of each subset over all parties",
)
class MaskedAccuracies(Message, frozen=True):
    """Accuracies of every subset in whole steps, under pairwise masks."""

    accuracies: MaskedArray


@message(
    flow="participant -> third party",
    reveals="smallest-accuracy: smallest accuracy of each subset over all parties, not whose it is",
)
class MaskedShortfalls(Message, frozen=True):
    """Per subset and level of accuracy zero, or a random number if this party stays below it.

    Added up over all parties under pairwise masks: zero where everybody reaches the level.
    """

    shortfalls: MaskedArray


@message(
    flow="participant -> third party",
    reveals="accuracies: the party's own accuracy with each subset",
    optional=True,
)
class Accuracies(Message, frozen=True):
    """Open accuracies, as the paper's trusted third party gets them."""

    accuracies: PublicArray


@message(flow="third party -> participant", reveals="nothing: asks for votes of blocks of rows")
class VotesWanted(Message, frozen=True):
    """Asks for noisy votes; sent instead of everything between roster and selection."""


@message(
    flow="participant -> third party",
    reveals="noisy-votes: how many blocks of rows of all parties vote for each column, with noise "
    "from every party",
)
class NoisyVotes(Message, frozen=True):
    """Votes of its own blocks for every column, with noise, under pairwise masks."""

    votes: MaskedArray


@message(
    flow="third party -> participant",
    reveals="selection: the subset that serves all parties best",
    about="participant",
)
class GlobalSubset(Message, frozen=True):
    """X*."""

    mask: PublicArray


MESSAGES = (*messages_in(__name__), *SIGNALS.messages)
