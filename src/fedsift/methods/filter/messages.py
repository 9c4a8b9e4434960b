# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the vertical filters, and which of them a run with given settings sends."""

from __future__ import annotations

from typing import cast

import msgspec

from fedsift.crypto.columns.api import ColumnSpec
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.methods.filter import scores
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

SIGNALS = signals_between("label holder", "feature holder")

VALUE_BITS = 40
"""Fraction bits of standardised columns whose class sums are revealed."""

SHARE_BITS = (30, 33)
"""Fraction bits of standardised columns and of scaled labels when only scores are revealed."""


@message(
    flow="label holder -> feature holder",
    reveals="row-count: number of rows, and which score is wanted",
)
class Introduction(Message, frozen=True):
    """The job in short; asks what the party has to offer."""

    n_rows: int
    score: str


@message(
    flow="feature holder -> label holder",
    reveals="feature-count: number of features and of bins, and whether all are frequencies",
)
class Offer(Message, frozen=True):
    """What a feature holder brings along; no names, no values."""

    n_features: int
    n_cells: int
    frequencies: bool


@message(
    flow="feature holder -> label holder",
    reveals="feature-count: number of features and of bins, of each unnamed feature too, and "
    "whether all are frequencies",
)
class OfferOfBins(Offer, frozen=True):
    """As :class:`Offer`, with the bins of every feature that hold rows, for p-values."""

    bins: PublicArray


@message(
    flow="label holder -> feature holder",
    reveals="class-count: number of classes, and of features and bins at the largest party; "
    "the labels themselves are under the sender's key",
    key="label holder",
)
class EncryptedLabels(Message, frozen=True):
    """Class indicators (or a scaled target) under the label holder's key, sent once."""

    way: str
    n_classes: int
    most_features: int
    most_cells: int
    keys: PublicKeys
    columns: Ciphertexts


@message(
    flow="feature holder -> label holder",
    reveals="feature-scores: one score per unnamed feature",
    key="label holder",
)
class SealedScores(Message, frozen=True):
    """Masked products and corrections that open to one number per feature."""

    scores: Ciphertexts


@message(
    flow="feature holder -> label holder",
    reveals="feature-scores: one score per unnamed feature, and the power of two next to the "
    "largest sum of a column",
    key="label holder",
)
class ScaledScores(Message, frozen=True):
    """The same for chi2 of frequencies, which has no natural scale."""

    scores: Ciphertexts
    exponent: PublicArray


@message(
    flow="feature holder -> label holder",
    reveals="numeric-scores: one score per unnamed feature, for a label of numbers, whose digits "
    "can make it tell values of single rows",
    key="label holder",
    optional=True,
)
class NumericScores(SealedScores, frozen=True):
    """As :class:`SealedScores`, for a label of numbers."""


@message(
    flow="feature holder -> label holder",
    reveals="numeric-scores: one score per unnamed feature, for a label of numbers, and the power "
    "of two next to the largest sum of a column",
    key="label holder",
    optional=True,
)
class ScaledNumericScores(ScaledScores, frozen=True):
    """As :class:`ScaledScores`, for a label of numbers."""


@message(
    flow="feature holder -> label holder",
    reveals="bin-counts: bin-by-class counts of unnamed features, bins in secret order",
    key="label holder",
    optional=True,
)
class SealedCounts(Message, frozen=True):
    """Contingency counts, re-randomised, with the sizes of the bins."""

    counts: Ciphertexts
    sizes: PublicArray


@message(
    flow="feature holder -> label holder",
    reveals="noisy-counts: bin-by-class counts of unnamed features with noise that hides any "
    "single row",
    key="label holder",
)
class NoisyCounts(Message, frozen=True):
    """Contingency counts of all classes, noise added before they were sealed."""

    counts: Ciphertexts


@message(
    flow="feature holder -> label holder",
    reveals="class-sums: sum per class of each unnamed feature",
    key="label holder",
)
class SealedSums(Message, frozen=True):
    """Sums per class of standardised (f) or scaled (chi2) columns."""

    sums: Ciphertexts
    exponents: PublicArray


@message(
    flow="feature holder -> label holder",
    reveals="numeric-scores: sum of the products of each unnamed feature with a label of numbers, "
    "or sum per class of such a label",
    key="label holder",
    optional=True,
)
class NumericSums(SealedSums, frozen=True):
    """As :class:`SealedSums`, for a label of numbers."""


@message(flow="label holder -> feature holder", reveals="nothing: asks for scores without labels")
class ScoresWanted(Message, frozen=True):
    """Asks for scores that need no label."""


@message(
    flow="feature holder -> label holder",
    reveals="feature-scores: one score per unnamed feature, computed without the label",
)
class OpenScores(Message, frozen=True):
    """Variances of unnamed features."""

    scores: PublicArray


@message(
    flow="label holder -> feature holder",
    reveals="selection: which of the receiver's own features were selected",
)
class Selected(Message, frozen=True):
    """Numbers of the selected features, in the receiver's own secret order."""

    features: tuple[int, ...]


@message(
    flow="label holder -> feature holder",
    reveals="own-scores: scores of the receiver's own features, an equation in the label counts",
    optional=True,
)
class OwnScores(Message, frozen=True):
    """Scores of the receiver's features, only where the label holder's policy names them."""

    scores: PublicArray


def _with_shuffles(reply: type[Message]) -> type[Message]:
    """The same reply for features and for copies of them, in a job that asks for such copies."""
    known = reply.declaration
    name = f"{reply.__name__}AndShuffles"
    made = msgspec.defstruct(name, [], bases=(reply,), module=__name__, frozen=True)
    kind = cast("type[Message]", made)
    kind.__doc__ = f"As :class:`{reply.__name__}`, with copies of features to compare with."
    return message(
        flow=f"{known.sender} -> {known.receiver}",
        reveals=f"{known.kind}: {known.text}; and of copies whose rows are in a secret order, "
        "which tell of the column by itself",
        key=known.key,
        optional=known.optional,
    )(kind)


_OF_FEATURES = (
    SealedScores, ScaledScores, NumericScores, ScaledNumericScores, SealedCounts, SealedSums,
    NumericSums,
)  # fmt: skip
SHUFFLED: dict[type[Message], type[Message]] = {one: _with_shuffles(one) for one in _OF_FEATURES}
"""Replies that have scores of shuffled copies too."""
MESSAGES = (*messages_in(__name__), *SHUFFLED.values(), *SIGNALS.messages)


# How a score is computed under encryption, and what the reply to EncryptedLabels is then.
REPLIES: dict[str, type[Message]] = {
    "count": SealedCounts,
    "noisy": NoisyCounts,
    "impurity": SealedScores,
    "sum": SealedSums,
    "share": SealedScores,
    "pearson": SealedScores,
    "frequency": ScaledScores,
}


_OF_NUMBERS: dict[type[Message], type[Message]] = {
    SealedScores: NumericScores,
    ScaledScores: ScaledNumericScores,
    SealedSums: NumericSums,
}
"""Policies have to name what is told about labels of numbers."""


def form_of(reply: type[Message], params: Params) -> type[Message]:
    """How a reply to EncryptedLabels is sent in one run."""
    form = _OF_NUMBERS.get(reply, reply) if params.numeric_label else reply
    return SHUFFLED[form] if params.n_permutations else form


def reply_of(way: str, params: Params) -> type[Message]:
    """The reply to EncryptedLabels in one run."""
    return form_of(REPLIES[way], params)


def offer_of(params: Params) -> type[Offer]:
    """The reply to Introduction in one run."""
    return OfferOfBins if params.tells_bins else Offer


def way_of(score: str, disclose: str, *, frequencies: bool = False, noisy: bool = False) -> str:
    """Which products the label holder gets to see: counts and sums, or scores of one kind."""
    if noisy:
        return "noisy"
    if score == "f":
        return "share" if disclose == "scores" else "sum"
    if score == "chi2" and disclose == "scores":
        return "frequency" if frequencies else "pearson"
    if score == "chi2" and frequencies:
        return "sum"
    return "impurity" if (score, disclose) == ("gini", "scores") else "count"


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    middle: tuple[type[Message], ...]
    if params.score == "variance":
        middle = (ScoresWanted, OpenScores)
    else:
        ways = {
            way_of(params.score, params.disclose, frequencies=f, noisy=params.noisy)
            for f in (False, True)
        }
        middle = (EncryptedLabels, *dict.fromkeys(reply_of(way, params) for way in sorted(ways)))
    last = (Selected, OwnScores) if params.share_scores else (Selected,)
    return (Introduction, offer_of(params), *middle, *last)


def deviation_columns(n_classes: int) -> int:
    """Columns of deviations from the class shares; of two classes one says all."""
    return 1 if n_classes == 2 else n_classes


def column_spec(
    way: str,
    n_rows: int,
    n_classes: int,
    features: int,
    cells: int,
    noise_bits: int = 0,
    *,
    fine: bool = False,
) -> ColumnSpec:
    """Shapes and number ranges of the encrypted labels; both sides derive the same.

    ``features`` and ``cells`` (bins of one feature) are those of the largest feature holder, and
    so is the length of the noise. ``fine`` impurities are exact to less than one row.
    """
    row_bits, n_columns = n_rows.bit_length(), max(1, n_classes)
    if way == "noisy":
        bits = max(row_bits, noise_bits) + 1
        return ColumnSpec(n_rows, n_columns, bits, weight_bits=0, expected_rows=features * cells)
    if way == "count":
        return ColumnSpec(
            n_rows, n_classes - 1, row_bits, counting=True, expected_rows=features * cells
        )
    if way == "impurity":
        weight_bits = scores.gini_weight_bits(n_rows, fine=fine) + 1
        n_columns = 1 if n_classes == 2 else n_classes
        bits, rows = weight_bits + row_bits, 2 * features * cells
        return ColumnSpec(n_rows, n_columns, bits, False, weight_bits, rows, features)
    if way == "pearson":
        weight_bits, n_columns = scores.gini_weight_bits(n_rows) + 1, deviation_columns(n_classes)
        bits = weight_bits + 2 * scores.deviation_bits(n_rows) + (n_rows * n_classes).bit_length()
        rows = 2 * features * cells
        return ColumnSpec(n_rows, n_columns, bits, False, weight_bits, rows, features)
    if way == "frequency":
        bits = 2 * sum(SHARE_BITS) + 2 + row_bits
        n_columns = deviation_columns(n_classes)
        return ColumnSpec(n_rows, n_columns, bits, False, 1, 2 * features, features)
    if way == "sum":
        # A numeric target is one standardised column instead of class indicators.
        bits = VALUE_BITS + row_bits + 1 if n_classes else 2 * VALUE_BITS + 1
        return ColumnSpec(n_rows, n_columns, bits, weight_bits=0, expected_rows=features)
    bits = 2 * sum(SHARE_BITS) + 2
    return ColumnSpec(n_rows, n_columns, bits, False, 1, 2 * features, features)
