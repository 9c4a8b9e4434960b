# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of vertical stepwise selection, and which of them a run with given settings sends."""

from __future__ import annotations

from dataclasses import dataclass

from fedsift.crypto.columns.api import STATISTICAL_BITS, ColumnSpec
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.methods.base import number_or_auto
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

SIGNALS = signals_between("label holder", "feature holder")

VALUE_BITS = 30
"""Fraction bits of columns of length 1; products have twice as many."""

SHUFFLED_BITS = 18
"""The same where labels are shuffled: chance need not be known to more digits."""

MASK_LIMBS = 2
"""64-bit words of a masked product."""

ROWS_PER_PRODUCT = 10
"""Rows that a party has for every product with columns that the label holder makes up."""

AUTO = "auto"

FDR = "fdr"

MRMR = "mrmr"
"""The criterion that counts rows of bins."""

ALL = "all"
"""In place of a party: what is found holds for all members."""


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party; parameters of the selector, and these.

    Parameters
    ----------
    n_features_to_select : int, "auto" or "fdr"
        Features to add to those that are kept.
    scheme : {"bgv", "paillier", "plain"}
    security_bits : int
    min_class_size : int
        Rows that share a class, or the squared length of a column, at least.
    min_bin_size : int
        Rows of a bin at least, where columns are bins.
    numeric_label : bool
        The label has numbers: products with it have a kind of their own.
    own_columns : bool
        The label holder has columns.
    level : float
        With ``"auto"``, how often chance may explain as much as a selected feature.
    n_shuffles : int
        Shuffled copies of the label, where there are rows enough.
    masked : bool
        Products with a selected column are masked; False for tests and attacks alone.
    seed : int, optional
        Makes secret orders and shuffled labels repeatable, for simulations; by default they come
        from the operating system. Masks and keys always do.
    """

    n_features_to_select: int | str = AUTO
    criterion: str = "partial"
    ridge: float | None = None
    keep_own: bool = True
    adjust: tuple[str, ...] = ()
    fdr: float = 0.1
    scheme: str = "bgv"
    security_bits: int = 128
    min_class_size: int = 1
    min_bin_size: int = 1
    numeric_label: bool = False
    own_columns: bool = True
    level: float = 0.05
    n_shuffles: int = 50
    masked: bool = True
    seed: int | None = None

    @property
    def shuffles(self) -> bool:
        """Whether shuffled labels may be used."""
        return self.n_features_to_select == AUTO and self.n_shuffles > 0

    @property
    def knockoffs(self) -> bool:
        """Whether every column has a knockoff."""
        return self.n_features_to_select == FDR

    @property
    def binned(self) -> bool:
        """Whether columns are bins."""
        return self.criterion == MRMR

    @property
    def smallest_bin(self) -> int:
        """Rows of a bin at least: it is multiplied with others, as a class is."""
        return max(self.min_bin_size, self.min_class_size)

    def most_products(self, n_rows: int) -> int:
        """Products per column with own columns and shuffled labels; of any class size, any number.

        So many equations say little about so many more rows.
        """
        return n_rows // ROWS_PER_PRODUCT if self.min_class_size > 1 else n_rows * n_rows

    def copies(self, n_rows: int, n_own: int, n_contrasts: int) -> int:
        """Shuffled copies that the rows allow; none if so few that they could not tell chance."""
        if not self.shuffles:
            return 0
        most = (self.most_products(n_rows) - n_own) // max(n_contrasts, 1)
        copies = min(self.n_shuffles, most)
        return copies if (copies + 1) * self.level >= 1 else 0


def number_wanted(given: int | float | str, n_candidates: int) -> int | str:
    """How many features to add; nothing where there is nothing to add."""
    if n_candidates == 0:
        return 0
    if given == FDR:
        return FDR
    number = number_or_auto(given, n_candidates)
    return AUTO if number is None else number


_DOWN, _UP = "label holder -> feature holder", "feature holder -> label holder"


@message(flow=_DOWN, reveals="row-count: number of rows, and which criterion is wanted")
class Introduction(Message, frozen=True):
    """The job in short; asks what the party has to offer."""

    n_rows: int
    criterion: str


@message(
    flow=_UP,
    reveals="feature-count: number of features, of the columns that each unnamed one makes (none "
    "of those that are constant, or that few rows make up), and of directions they have",
)
class Offer(Message, frozen=True):
    """What a feature holder brings along: columns by feature, in a secret order; no names."""

    widths: PublicArray
    n_directions: int


@message(
    flow=_UP,
    reveals="bin-counts: number of features, and of rows in each bin of each unnamed one; with it, "
    "products with classes and with bins are counts of rows in both, of which single ones can be "
    "small",
    optional=True,
)
class OfferOfBins(Offer, frozen=True):
    """As :class:`Offer`, with the sizes of bins; only for ``criterion="mrmr"``."""

    sizes: PublicArray


@message(
    flow=_DOWN,
    reveals="class-count: number of classes, and of columns at the largest party; the labels "
    "themselves are under the sender's key",
    key="label holder",
)
class EncryptedLabels(Message, frozen=True):
    """Orthonormal contrasts of the classes, or one number of length 1."""

    n_columns: int
    most_columns: int
    keys: PublicKeys
    columns: Ciphertexts


@message(
    flow=_UP,
    reveals="class-sums: products of each unnamed column with contrasts of the classes, which are "
    "its means per class",
    key="label holder",
)
class LabelProducts(Message, frozen=True):
    """Products of unnamed columns, and of their common directions, with the labels."""

    products: Ciphertexts


@message(
    flow=_UP,
    reveals="numeric-scores: product of each unnamed column with a label of numbers, whose digits "
    "can make it tell values of single rows",
    key="label holder",
    optional=True,
)
class NumericProducts(LabelProducts, frozen=True):
    """As :class:`LabelProducts`, for a label of numbers."""


@message(
    flow=_DOWN,
    reveals="nothing: as many columns as there are rows for, under the sender's key",
    key="label holder",
)
class EncryptedShuffles(Message, frozen=True):
    """The same with rows in random orders; only for ``n_features_to_select="auto"``."""

    n_columns: int
    most_columns: int
    keys: PublicKeys
    columns: Ciphertexts


@message(
    flow=_UP,
    reveals="shuffled-products: products of each unnamed column with shuffled classes, to few "
    "digits",
    key="label holder",
)
class ShuffledProducts(Message, frozen=True):
    """What columns reach by chance."""

    products: Ciphertexts


@message(
    flow=_UP,
    reveals="numeric-scores: product of each unnamed column with shuffled numbers of the label, "
    "to few digits",
    key="label holder",
    optional=True,
)
class ShuffledNumericProducts(ShuffledProducts, frozen=True):
    """As :class:`ShuffledProducts`, for a label of numbers."""


@message(
    flow=_DOWN,
    reveals="feature-count: number of the sender's columns, which are under its own key",
    key="label holder",
)
class EncryptedOwn(Message, frozen=True):
    """The label holder's own columns, of length 1."""

    n_columns: int
    most_columns: int
    keys: PublicKeys
    columns: Ciphertexts


@message(
    flow=_UP,
    reveals="numeric-scores: correlation of each unnamed column with the receiver's own columns, "
    "whose digits can make it tell values of single rows",
    key="label holder",
    optional=True,
)
class OwnProducts(Message, frozen=True):
    """Products of unnamed columns with the label holder's own ones."""

    products: Ciphertexts


@message(
    flow=_DOWN,
    reveals="selection: that one of the receiver's own columns was selected, and when",
)
class ColumnWanted(Message, frozen=True):
    """The column just selected; asks for its products with all others."""

    round: int
    column: int
    most_columns: int


@message(
    flow="feature holder -> feature holder",
    reveals="selection: that one of the sender's columns was selected, and when; the column is "
    "under the sender's key",
    key="feature holder",
)
class EncryptedColumn(Message, frozen=True):
    """The column just selected, under its owner's key."""

    round: int
    most_columns: int
    keys: PublicKeys
    column: Ciphertexts


@message(
    flow="feature holder -> feature holder",
    reveals="feature-count: number of the sender's columns; every product is under a mask that its "
    "sender keeps",
    key="feature holder",
)
class HiddenProducts(Message, frozen=True):
    """Products with the column just selected, each with a mask added before it was sealed."""

    n_columns: int
    products: Ciphertexts


@message(
    flow=_UP,
    reveals="correlations: with the masks of the others, the correlation of the column just "
    "selected with every other unnamed one",
)
class OpenedProducts(Message, frozen=True):
    """Masked products, opened by the owner of the column; its own products need no mask."""

    masked: dict[str, MaskedArray]
    own: PublicArray


@message(flow=_DOWN, reveals="nothing: asks for masks")
class MasksWanted(Message, frozen=True):
    """Asks for the masks of one round."""

    round: int


@message(
    flow=_UP,
    reveals="correlations: with the masked products, the correlation of every unnamed column with "
    "the one just selected",
)
class Masks(Message, frozen=True):
    """What the sender added to its products."""

    masks: MaskedArray


@message(
    flow=_DOWN,
    reveals="selection: which of the receiver's own features were selected",
)
class Selected(Message, frozen=True):
    """Numbers of the selected features, in the receiver's own secret order."""

    features: tuple[int, ...]


MESSAGES = (*messages_in(__name__), *SIGNALS.messages)

_SHUFFLED = (EncryptedShuffles, ShuffledProducts, ShuffledNumericProducts)
_OF_CLASSES = (LabelProducts, ShuffledProducts)
_OF_NUMBERS = (NumericProducts, ShuffledNumericProducts)


def products_of(params: Params) -> tuple[type[LabelProducts], type[ShuffledProducts]]:
    """How products with labels, and with shuffled ones, are sent."""
    if params.numeric_label:
        return NumericProducts, ShuffledNumericProducts
    return LabelProducts, ShuffledProducts


def messages_used(params: Params, n_holders: int) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    unused: set[type[Message]] = set(_OF_CLASSES if params.numeric_label else _OF_NUMBERS)
    if not params.shuffles:
        unused.update(_SHUFFLED)
    if not params.own_columns:
        unused |= {EncryptedOwn, OwnProducts}
    unused.add(Offer if params.binned else OfferOfBins)
    if n_holders < 2:
        unused |= {EncryptedColumn, HiddenProducts, MasksWanted, Masks}
    return tuple(cls for cls in messages_in(__name__) if cls not in unused)


def column_spec(
    n_rows: int, n_columns: int, most_columns: int, bits: int = VALUE_BITS
) -> ColumnSpec:
    """Shapes and ranges of columns of length 1 under their owner's key."""
    return ColumnSpec(
        n_rows, n_columns, 2 * bits + 1, weight_bits=0, expected_rows=max(1, most_columns)
    )


def masked_spec(n_rows: int, most_columns: int) -> ColumnSpec:
    """The same for one column whose products are masked before they are opened."""
    bits = mask_bits() + 1
    return ColumnSpec(n_rows, 1, bits, weight_bits=0, expected_rows=max(1, most_columns))


def mask_bits() -> int:
    """Bits of a mask, ``STATISTICAL_BITS`` and a sign longer than what it hides."""
    return 2 * VALUE_BITS + 1 + STATISTICAL_BITS + 1
