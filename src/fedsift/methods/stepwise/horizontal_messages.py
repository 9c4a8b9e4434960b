# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of horizontal stepwise selection, and which of them a run with given settings sends."""

from __future__ import annotations

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.methods.stepwise.messages import Params
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

SIGNALS = signals_between("coordinator", "member")

_DOWN, _UP = "coordinator -> member", "member -> coordinator"


@message(flow=_DOWN, reveals="nothing: asks for masking key and column kinds")
class Hello(Message, frozen=True):
    """Opens the run."""


@message(
    flow=_UP,
    reveals="schema: number and kinds of columns and of classes, as all members share them",
)
class Greeting(Message, frozen=True):
    """A member's masking key and the common schema; 0 categories for a number."""

    key: PublicKeys
    category_counts: tuple[int, ...]
    n_classes: int


@message(flow=_DOWN, reveals="nothing: public masking keys")
class Roster(Message, frozen=True):
    """Everybody's masking key, so that each pair of members shares a secret."""

    keys: dict[str, PublicKeys]


@message(flow=_UP, reveals="nothing: sealed for the other members")
class CheckSecretDealt(Message, frozen=True):
    """The first member's secret for checks of totals, sealed for each other one."""

    sealed: dict[str, Ciphertexts]


@message(flow=_DOWN, reveals="nothing: passes on what another member sealed")
class CheckSecret(Message, frozen=True):
    """The secret that all members share and the coordinator does not know."""

    sealed: Ciphertexts


class Due(Message, frozen=True):
    """The answer to the request before, and how members can check it; see ``checked_course``."""

    step: int
    after: str
    totals: PublicArray
    small: PublicArray
    proof: PublicArray


@message(flow=_DOWN, reveals="nothing: asks for comparisons of sizes")
class SizesWanted(Due, frozen=True):
    """Asks to compare sizes of classes and of categories with the minimum; is first."""


@message(
    flow=_DOWN,
    reveals="pooled-sizes: which categories, and which missing values, few rows have",
    about="member",
)
class LengthsWanted(Due, frozen=True):
    """Asks for the squared lengths of the columns that are left."""


@message(
    flow=_DOWN,
    reveals="pooled-sums: number of rows and squared length of every column over all members",
    about="member",
)
class LeaningWanted(Due, frozen=True):
    """Asks which columns, over all members, are made up of few rows."""


@message(
    flow=_DOWN,
    reveals="pooled-sizes: which columns few rows make up; without a minimum, number of rows and "
    "squared lengths over all members",
    about="member",
)
class LabelsWanted(Due, frozen=True):
    """Asks for products of the columns with the labels."""


@message(flow=_DOWN, reveals="selection: which column was selected last", about="member")
class ColumnWanted(Message, frozen=True):
    """Asks for the products of one column with all."""

    round: int
    column: int


@message(flow=_DOWN, reveals="nothing: asks for the products of all columns")
class PairsWanted(Message, frozen=True):
    """Asks for the products of all columns with all; for knockoffs alone."""


@message(
    flow=_UP,
    reveals="pooled-sizes: whether counts over all members lie between 1 and the minimum less 1",
)
class HiddenCounts(Message, frozen=True):
    """One member's part of comparisons, under pairwise masks; no count is opened."""

    residues: MaskedArray


@message(
    flow=_UP,
    reveals="pooled-sums: number of rows and squared length of every column over all members; one "
    "member's part is masked",
)
class MaskedLengths(Message, frozen=True):
    """One member's squared lengths under pairwise masks, and its part of their tag."""

    residues: MaskedArray


@message(
    flow=_UP,
    reveals="pooled-sums: products of the columns with the labels, and with labels in random "
    "orders, over all members; one member's part is masked",
)
class MaskedLabelProducts(Message, frozen=True):
    """One member's products with its labels, under pairwise masks."""

    sums: MaskedArray


@message(
    flow=_UP,
    reveals="pooled-sums: products of the column selected last with all columns over all members; "
    "one member's part is masked",
)
class MaskedProducts(Message, frozen=True):
    """One member's products of one column with all, under pairwise masks."""

    sums: MaskedArray


@message(
    flow=_UP,
    reveals="pooled-sums: products of all columns with all columns over all members; one member's "
    "part is masked",
)
class MaskedPairs(Message, frozen=True):
    """One member's products of all pairs of columns, under pairwise masks."""

    sums: MaskedArray


@message(flow=_DOWN, reveals="selection: which features were selected", about="member")
class Chosen(Message, frozen=True):
    """The outcome: numbers of the selected features."""

    features: tuple[int, ...]


MESSAGES = (*messages_in(__name__), *SIGNALS.messages)


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    unused: set[type[Message]] = set()
    if params.min_class_size <= 1:
        unused |= {SizesWanted, LeaningWanted, HiddenCounts}
    unused |= {ColumnWanted, MaskedProducts} if params.knockoffs else {PairsWanted, MaskedPairs}
    return tuple(cls for cls in messages_in(__name__) if cls not in unused)
