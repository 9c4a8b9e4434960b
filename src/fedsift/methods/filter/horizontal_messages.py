# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the horizontal filters, and which of them a run with given settings sends."""

from __future__ import annotations

from fedsift.crypto.wire import PublicKeys
from fedsift.methods.filter import features as local
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

SIGNALS = signals_between("coordinator", "member")


@message(flow="coordinator -> member", reveals="nothing: asks for masking key and column kinds")
class Hello(Message, frozen=True):
    """Opens the run."""

    score: str


@message(
    flow="member -> coordinator",
    reveals="schema: number and kinds of columns and of classes, as all members share them",
)
class Greeting(Message, frozen=True):
    """A member's masking key and the common schema."""

    key: PublicKeys
    category_counts: tuple[int, ...]
    n_classes: int
    numeric_target: bool
    frequencies: bool


@message(flow="coordinator -> member", reveals="nothing: public masking keys of all members")
class Roster(Message, frozen=True):
    """Everybody's masking key, so that each pair of members shares a secret."""

    keys: dict[str, PublicKeys]


@message(
    flow="coordinator -> member",
    reveals="pooled-quantiles: rounded order statistics of the pooled columns",
    about="member",
)
class CountsBelow(Message, frozen=True):
    """Asks how many values lie at or below each threshold (features by thresholds)."""

    step: int
    thresholds: PublicArray


@message(flow="coordinator -> member", reveals="nothing: asks for masked sizes of classes")
class ClassSizes(Message, frozen=True):
    """Asks how many rows each class has, before any count or sum of a column."""


@message(
    flow="coordinator -> member",
    reveals="pooled-quantiles: bin edges of the pooled columns",
    about="member",
)
class BinSizes(Message, frozen=True):
    """Asks for the size of each bin; edges are padded with +inf replaced by the last edge."""

    edges: PublicArray
    n_edges: tuple[int, ...]
    target_edges: PublicArray


@message(
    flow="coordinator -> member",
    reveals="pooled-sizes: which pooled bins were too small and merged",
    about="member",
)
class Tables(Message, frozen=True):
    """Asks for bin-by-class counts after merging; row f maps old to new bins of feature f."""

    merged: PublicArray
    n_bins: int


@message(flow="coordinator -> member", reveals="nothing: asks for masked sums")
class Moments(Message, frozen=True):
    """Asks for sums of values, squares and products."""


@message(
    flow="member -> coordinator",
    reveals="pooled-sums: totals over all members; one member's part is masked",
)
class MaskedSums(Message, frozen=True):
    """One member's numbers under pairwise masks."""

    sums: MaskedArray


@message(
    flow="coordinator -> member",
    reveals="selection: which features were selected",
    about="member",
)
class Chosen(Message, frozen=True):
    """The outcome: numbers of the selected columns."""

    features: tuple[int, ...]


MESSAGES = (*messages_in(__name__), *SIGNALS.messages)


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    binned: tuple[type[Message], ...] = (CountsBelow, BinSizes, Tables)
    middle: tuple[type[Message], ...] = (Moments,)
    if params.score in local.BINNED_SCORES:
        middle = (*binned, Moments) if params.score == "chi2" else binned
    if params.fixed_edges:
        middle = (BinSizes, Tables)
    if params.checks_classes:
        middle = (ClassSizes, *middle)
    return (Hello, Greeting, Roster, *middle, MaskedSums, Chosen)
