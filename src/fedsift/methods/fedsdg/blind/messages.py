# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the blind protocol."""

from __future__ import annotations

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.methods.fedsdg import messages as paper_messages
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.messages import GINI, Chosen
from fedsift.methods.filter import messages as filter_messages
from fedsift.protocol import MaskedArray, Message, Protocol, PublicArray, message

LABEL_HOLDER, FEATURE_HOLDER = "label holder", "feature holder"
_DOWN = f"{LABEL_HOLDER} -> {FEATURE_HOLDER}"
_UP = f"{FEATURE_HOLDER} -> {LABEL_HOLDER}"


@message(
    flow=_DOWN,
    reveals="training-rows: number of rows, and which of them train and which validate",
)
class BlindStart(Message, frozen=True):
    """The job in short; ``resume_from`` is the checkpoint that all have taken over, or -1."""

    n_rows: int
    training: PublicArray
    validation: PublicArray
    resume_from: int


@message(
    flow=_UP,
    reveals="feature-count: number of features, and of the inputs that each unnamed one makes",
)
class BlindReady(Message, frozen=True):
    """The party has checked the job against its table; widths are in its secret order."""

    widths: PublicArray
    mask_key: PublicKeys


@message(flow=_DOWN, reveals="nothing: asks for a key for masks")
class MaskKeyWanted(Message, frozen=True):
    """The beginning of a prediction."""


@message(flow=_UP, reveals="nothing: a public key")
class MaskKey(Message, frozen=True):
    """The sender's key for pairwise masks."""

    key: PublicKeys


@message(
    flow=_DOWN,
    reveals="total-feature-count: number of features of all parties together, and of the inputs "
    "that each of the label holder's own makes",
    key=LABEL_HOLDER,
)
class BlindKeys(Message, frozen=True):
    """The label holder's keys for the receiver, who the helper is, and keys for masks.

    ``own_widths`` are inputs of the label holder's features, whose weights the helper shares.
    """

    keys: PublicKeys
    helper: str
    mask_keys: dict[str, PublicKeys]
    n_features: int
    own_widths: PublicArray


@message(flow=_UP, reveals="nothing: public keys, and a secret under pairwise masks")
class HelperKeys(Message, frozen=True):
    """From the helper: its keys, weights under them, and the feature holders' common secret."""

    keys: PublicKeys | None
    own: Ciphertexts | None
    secrets: dict[str, MaskedArray]


@message(flow=_DOWN, reveals="nothing: a secret of the feature holders, under a pairwise mask")
class CommonSecret(Message, frozen=True):
    """Lets feature holders make the helper's share of gradients by themselves."""

    secret: MaskedArray


@message(
    flow=_DOWN,
    reveals="nothing: rows drawn at random, and numbers under the sender's key",
    key=LABEL_HOLDER,
)
class ProductsWanted(Message, frozen=True):
    """Rows of a batch and [R] of a tile of inputs; asks for products with the columns.

    ``back`` says that the products go from rows to columns, ``uses`` for how often they are.
    """

    batch: int
    rows: PublicArray
    training: bool
    back: bool
    first: int
    uses: int
    masks: Ciphertexts


@message(flow=_UP, reveals="nothing: under masks that stay with the sender", key=LABEL_HOLDER)
class ProductsMade(Message, frozen=True):
    """[X R + r]."""

    products: Ciphertexts


@message(flow=_DOWN, reveals="nothing: asks for masks for the label holder's own columns")
class OwnMasksWanted(Message, frozen=True):
    """To the helper."""

    batch: int
    n_rows: int
    back: bool
    first: int
    uses: int


@message(flow=_UP, reveals="nothing: under the sender's key", key=FEATURE_HOLDER)
class OwnMasks(Message, frozen=True):
    """[R] of a tile of inputs."""

    masks: Ciphertexts


@message(flow=_DOWN, reveals="nothing: under masks that stay with the sender", key=FEATURE_HOLDER)
class OwnProducts(Message, frozen=True):
    """To the helper: [X R + r]."""

    batch: int
    n_rows: int
    back: bool
    first: int
    products: Ciphertexts


@message(flow=_DOWN, reveals="nothing: under a key, and masked", key=LABEL_HOLDER)
class GatesDrawn(Message, frozen=True):
    """[s], and for the helper its share of the gated weights of the label holder's own columns."""

    gates: Ciphertexts
    own: Ciphertexts | None


@message(flow=_UP, reveals="nothing: under masks that stay with the sender", key=LABEL_HOLDER)
class GatedWeights(Message, frozen=True):
    """[s W + r]."""

    weights: Ciphertexts


@message(flow=_DOWN, reveals="nothing: under masks that stay with the sender")
class RowsWanted(Message, frozen=True):
    """U - R for a batch that was prepared; asks for shares of the hidden values."""

    batch: int
    weights: MaskedArray


@message(flow=_UP, reveals="nothing: under masks that the helper knows")
class HiddenShare(Message, frozen=True):
    """A share of X U, and from the helper U' - R for the label holder's own columns."""

    hidden: MaskedArray
    own: MaskedArray | None


@message(flow=_DOWN, reveals="nothing: under the sender's key", key=LABEL_HOLDER)
class SquaresWanted(Message, frozen=True):
    """To the helper: [Z]."""

    hidden: Ciphertexts


@message(flow=_UP, reveals="nothing: under masks that stay with the sender", key=LABEL_HOLDER)
class SquareShare(Message, frozen=True):
    """[2 Z Z' + r]."""

    squares: Ciphertexts


@message(flow=_DOWN, reveals="nothing: under the sender's key", key=LABEL_HOLDER)
class SlopesWanted(Message, frozen=True):
    """To the helper: [E], the errors on their way back."""

    errors: Ciphertexts


@message(flow=_UP, reveals="nothing: under masks, or the sender's key", key=LABEL_HOLDER)
class SlopeShare(Message, frozen=True):
    """[E Z' + E' Z + r]; for the label holder's own columns dZ' - R, [W'] and what is counted."""

    slopes: Ciphertexts
    own: MaskedArray | None
    weights: tuple[Ciphertexts, ...]


@message(flow=_DOWN, reveals="nothing: under masks, or the sender's key", key=LABEL_HOLDER)
class StepWanted(Message, frozen=True):
    """dZ - R; and [u W], [u G], [u] if anything is counted."""

    slopes: MaskedArray
    before: tuple[Ciphertexts, ...]


@message(flow=_DOWN, reveals="nothing: under the sender's key, or masked", key=LABEL_HOLDER)
class Opening(Message, frozen=True):
    """Asks for the sums since the last opening.

    ``sums`` is the label holder's part of them. ``own`` are masked sums of its own columns under
    the helper's key, and ``own_rest`` what takes the masks off, under the sender's.
    """

    sums: Ciphertexts
    own: Ciphertexts | None
    own_rest: Ciphertexts | None


@message(
    flow=_UP,
    reveals="gate-sums: one number per unnamed column and opening, a sum over all training rows: "
    "by how much the loss rises with the column's gate, times a secret factor of mean 1",
    key=LABEL_HOLDER,
)
class GateSums(Message, frozen=True):
    """Under the receiver's key, with masks that cancel within a column."""

    sums: Ciphertexts
    own: Ciphertexts | None


@message(flow=_DOWN, reveals="nothing: under the sender's key", key=LABEL_HOLDER)
class LossesWanted(Message, frozen=True):
    """To the helper: [D] of all validation rows."""

    errors: Ciphertexts


@message(
    flow=_UP,
    reveals="block-losses: mean squared error over blocks of validation rows, a few per opening",
    key=LABEL_HOLDER,
)
class LossSums(Message, frozen=True):
    """Under the receiver's key, with masks that cancel within a block."""

    losses: Ciphertexts


@message(flow=_DOWN, reveals="nothing: that weights start anew")
class Restart(Message, frozen=True):
    """All parties draw new starting weights, once all features have been judged."""


@message(flow=_UP, reveals="nothing: under the sender's key", key=FEATURE_HOLDER)
class Restarted(Message, frozen=True):
    """Done; from the helper, its share of the weights of the label holder's own columns."""

    own: Ciphertexts | None


@message(flow=_DOWN, reveals="nothing: asks for the helper's share of outputs")
class OutputsWanted(Message, frozen=True):
    """Sent only when new rows are predicted."""


@message(
    flow=_UP,
    reveals="predictions: the network's outputs for every new row",
)
class BlindOutputs(Message, frozen=True):
    """The helper's share; with the receiver's own it is the prediction."""

    outputs: MaskedArray


TRAINING = (
    BlindStart,
    BlindReady,
    BlindKeys,
    HelperKeys,
    CommonSecret,
    ProductsWanted,
    ProductsMade,
    OwnMasksWanted,
    OwnMasks,
    OwnProducts,
    GatesDrawn,
    GatedWeights,
    RowsWanted,
    HiddenShare,
    SquaresWanted,
    SquareShare,
    SlopesWanted,
    SlopeShare,
    StepWanted,
    Opening,
    GateSums,
    LossesWanted,
    LossSums,
    Restart,
    Restarted,
    Chosen,
)
PREDICTION = (
    MaskKeyWanted,
    MaskKey,
    BlindKeys,
    HelperKeys,
    CommonSecret,
    ProductsWanted,
    ProductsMade,
    OwnMasksWanted,
    OwnMasks,
    OwnProducts,
    RowsWanted,
    HiddenShare,
    SquaresWanted,
    SquareShare,
    OutputsWanted,
    BlindOutputs,
)

DECLARED = Protocol(
    name="fedsdg",
    messages=(*GINI, *TRAINING, *filter_messages.SIGNALS.messages),
    roles=(),
)
"""The messages without the roles that handle them."""

_PAPER = paper_messages.DECLARED.messages
_ADDED: list[type[Message]] = [cls for cls in TRAINING if cls not in _PAPER]
_ADDED += [cls for cls in PREDICTION if cls not in TRAINING]

LISTED = Protocol(
    name="fedsdg",
    messages=(*_PAPER, *_ADDED),
    roles=(),
)
"""The messages of both protocols of the method, for listings and policies."""


def messages_used(params: BlindParams, n_feature_holders: int) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    first = GINI if params.init == "gini" and params.has_gates else ()
    used = _without_secret(TRAINING, n_feature_holders)
    if not params.has_gates:
        unused = (Opening, GateSums, Restart, Restarted)
        used = tuple(cls for cls in used if cls not in unused)
    return (*first, *used)


def messages_to_predict(n_feature_holders: int) -> tuple[type[Message], ...]:
    """The messages a prediction sends."""
    return _without_secret(PREDICTION, n_feature_holders)


def _without_secret(
    messages: tuple[type[Message], ...], n_feature_holders: int
) -> tuple[type[Message], ...]:
    alone = n_feature_holders < 2
    return tuple(cls for cls in messages if not (alone and cls is CommonSecret))
