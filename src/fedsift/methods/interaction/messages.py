# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the interaction protocol, and which of them a run with given settings sends."""

from __future__ import annotations

from dataclasses import dataclass

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.methods.interaction.measures import MOST_PARTS, is_binary
from fedsift.protocol import Message, message, messages_in
from fedsift.protocol.resume import signals_between

OWNER_SIGNALS = signals_between("label owner", "feature owner")
CLOUD_SIGNALS = signals_between("label owner", "cloud server", "Cloud")


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party; parameters of the selector, and these.

    Parameters
    ----------
    n_paired : int
        Columns of which all pairs are weighed before anything is selected; 0 for none.
    n_features_to_select : int or None
        None stops by itself: when the best remaining feature no longer beats what shuffled labels
        reach.
    scheme : {"bgv", "plain"}
    security_bits : int
    noise_bits : int or None
        Opened relevances and weights carry uniform noise of ``+-2**-noise_bits``; None switches it
        off, for tests.
    n_shuffles : int
        Shuffled labels that the threshold is taken from.
    target_bins : int
        Quantile classes of a numeric target.
    seed : int, optional
        Makes secret orders and shuffled labels repeatable, for simulations; by default they come
        from the operating system. Masks and low-bit noise always do.
    """

    measure: str = "miw"
    n_features_to_select: int | None = 10
    n_paired: int = 0
    scheme: str = "bgv"
    security_bits: int = 128
    noise_bits: int | None = 16
    n_shuffles: int = 6
    target_bins: int = 4
    seed: int | None = None

    @property
    def n_vectors(self) -> int:
        """Vectors of labels in one exchange: ``miw`` that stops by itself adds a shuffled one."""
        return 2 if self.n_features_to_select is None and not is_binary(self.measure) else 1


@message(
    flow="label owner -> feature owner",
    reveals="row-count: number of rows, and which measure is wanted",
)
class Introduction(Message, frozen=True):
    """The job in short; asks what the party has to offer."""

    n_rows: int
    measure: str


@message(
    flow="feature owner -> label owner",
    reveals="feature-count: number of features, how many of them are constant, and into how many "
    "parts the levels of each unnamed column of categories are cut (7 at most)",
)
class Offer(Message, frozen=True):
    """What a feature owner brings along; no names, no values."""

    n_features: int
    n_constant: int
    parts: tuple[int, ...]

    def is_sound(self) -> bool:
        """Whether its numbers fit each other."""
        fits = self.n_constant >= 0 and len(self.parts) == self.n_features - self.n_constant
        return fits and all(1 <= n <= MOST_PARTS for n in self.parts)


@message(
    flow="label owner -> cloud server",
    reveals="class-count: number of rows and of classes, and of features and their parts by party",
    key="label owner",
)
class Setup(Message, frozen=True):
    """Sizes of the job, and the keys to compute with (none to decrypt)."""

    n_rows: int
    n_classes: int
    owners: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...]
    keys: PublicKeys


@message(
    flow="label owner -> feature owner",
    reveals="nothing: a public key",
    key="label owner",
)
class ColumnKey(Message, frozen=True):
    """The key to encrypt columns with; asks to send them to the cloud server."""

    keys: PublicKeys


@message(
    flow="feature owner -> cloud server",
    reveals="nothing: only the label owner has the key",
    key="label owner",
)
class EncryptedColumns(Message, frozen=True):
    """All usable columns of one owner and, for the paper's measures, factors of their entropies."""

    owner: str
    columns: Ciphertexts
    scalars: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class EncryptedLabels(Message, frozen=True):
    """Class indicators, the true or shuffled ones; asks for the class sums of all columns."""

    labels: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="nothing: every number is uniform, the cloud keeps the other share",
    key="label owner",
)
class MaskedColumns(Message, frozen=True):
    """Columns under one-time masks, what the masks add up to by class, and masked factors."""

    masked: Ciphertexts
    corrections: Ciphertexts
    scalars: Ciphertexts


@message(flow="label owner -> cloud server", reveals="nothing: asks for sums of squares")
class SquaresWanted(Message, frozen=True):
    """For measures on binary columns: asks for what is needed to check that they are."""


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class CheckTerms(Message, frozen=True):
    """The label owner's shares of ``sum x^2 - x`` of every column."""

    terms: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="column-check: whether each column is made of zeros and ones",
    key="label owner",
    about="feature owner",
)
class SealedCheck(Message, frozen=True):
    """``sum x^2 - x`` times a random number: zero for binary columns, else uniform."""

    check: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class Terms(Message, frozen=True):
    """Terms whose sums stay shared."""

    step: str
    terms: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="nothing: every number is uniform, the cloud keeps the other share",
    key="label owner",
)
class MaskedTerms(Message, frozen=True):
    """Terms times the cloud's factors, under fresh masks."""

    terms: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class RelevanceTerms(Message, frozen=True):
    """The last terms of phase 1."""

    terms: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="relevance: relevance of every unnamed feature, blurred in its low bits",
    key="label owner",
    about="feature owner",
)
class SealedRelevance(Message, frozen=True):
    """Shares that add up to one number per feature."""

    relevance: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class ShuffledTerms(Message, frozen=True):
    """The last terms of phase 1 for shuffled labels, of which there may be two vectors."""

    vector: int
    terms: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="shuffled-relevance: relevance of every unnamed feature for shuffled labels, blurred",
    key="label owner",
    about="feature owner",
)
class ShuffledRelevance(Message, frozen=True):
    """What features reach by chance; only for ``n_features_to_select="auto"``."""

    relevance: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="selection: which unnamed features are the most relevant (all of them, up to 20)",
)
class PairsWanted(Message, frozen=True):
    """Features of a pair start; asks for the products of some of them with those that follow."""

    features: tuple[int, ...]
    mates: tuple[int, ...]


@message(
    flow="cloud server -> feature owner",
    reveals="selection: which of the receiver's own features are among the most relevant (all of "
    "them, up to 20 features)",
    about="label owner",
)
class MatesWanted(Message, frozen=True):
    """Asks an owner for columns of a pair start, each beside every other."""

    features: tuple[int, ...]


@message(
    flow="feature owner -> cloud server",
    reveals="nothing: only the label owner has the key",
    key="label owner",
)
class MateColumns(Message, frozen=True):
    """Some columns, repeated over the slots."""

    columns: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class PairTerms(Message, frozen=True):
    """The last terms of a pair start."""

    terms: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="interaction-weights: interaction of pairs of the most relevant unnamed features (all, "
    "up to 20), and of each with itself, blurred in its low bits",
    key="label owner",
    about="feature owner",
)
class SealedPairs(Message, frozen=True):
    """Shares that add up to one number per pair."""

    weights: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class ShuffledWeightTerms(Message, frozen=True):
    """The last terms of a round, or of a pair start, for shuffled labels."""

    terms: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="shuffled-weights: interaction of the same unnamed features for shuffled labels, "
    "blurred",
    key="label owner",
    about="feature owner",
)
class ShuffledWeights(Message, frozen=True):
    """What gains reach by chance; only for ``n_features_to_select="auto"``."""

    weights: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="selection: which unnamed feature was selected",
)
class Mate(Message, frozen=True):
    """The feature just selected; asks for its products with all remaining ones."""

    feature: int


@message(
    flow="cloud server -> feature owner",
    reveals="selection: that one of the receiver's own features was selected, and when",
    about="label owner",
)
class MateWanted(Message, frozen=True):
    """Asks an owner for its selected column, beside every other."""

    feature: int


@message(
    flow="feature owner -> cloud server",
    reveals="nothing: only the label owner has the key",
    key="label owner",
)
class MateColumn(Message, frozen=True):
    """One column, repeated over the slots."""

    column: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="nothing: every number is uniform, the cloud keeps the other share",
    key="label owner",
)
class MaskedProducts(Message, frozen=True):
    """Products of two columns under one-time masks, and what the masks add up to by class."""

    masked: Ciphertexts
    corrections: Ciphertexts


@message(
    flow="label owner -> cloud server",
    reveals="nothing: under the label owner's own key",
    key="label owner",
)
class WeightTerms(Message, frozen=True):
    """The last terms of a round."""

    terms: Ciphertexts


@message(
    flow="cloud server -> label owner",
    reveals="interaction-weights: interaction of every remaining unnamed feature with the one just "
    "selected, blurred in its low bits",
    key="label owner",
    about="feature owner",
)
class SealedWeights(Message, frozen=True):
    """Shares that add up to one number per remaining feature."""

    weights: Ciphertexts


@message(
    flow="label owner -> feature owner",
    reveals="selection: which of the receiver's own features were selected",
)
class Selected(Message, frozen=True):
    """The receiver's selected features, by the numbers of its own secret order."""

    features: tuple[int, ...]


MESSAGES = (*messages_in(__name__), *OWNER_SIGNALS.messages, *CLOUD_SIGNALS.messages)


def messages_used(params: Params, n_features: int) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    unused: set[type[Message]] = set()
    if params.n_features_to_select is not None:
        unused |= {ShuffledTerms, ShuffledRelevance}
    if params.n_vectors == 1:
        unused |= {ShuffledWeightTerms, ShuffledWeights}
    if not params.n_paired:
        unused |= {PairsWanted, MatesWanted, MateColumns, PairTerms, SealedPairs}
    elif params.n_paired >= n_features:
        unused |= {Mate, MateWanted, MateColumn, WeightTerms, SealedWeights}
    binary = is_binary(params.measure)
    if not binary:
        unused |= {SquaresWanted, CheckTerms, SealedCheck}
    if params.n_features_to_select == 1:
        unused |= {Mate, MateWanted, MateColumn, WeightTerms, SealedWeights}
        if not binary:
            unused |= {MaskedProducts, Terms, MaskedTerms}
    return tuple(cls for cls in MESSAGES if cls not in unused)
