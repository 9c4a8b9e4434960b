# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Settings and messages of FedSDG-FS, and which of them a run with given settings sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.methods.fedsdg.layer_numbers import LayerNumbers
from fedsift.methods.filter import messages as filter_messages
from fedsift.methods.filter import ranking as filter_scores
from fedsift.protocol import MaskedArray, Message, Protocol, PublicArray, message

LABEL_HOLDER, FEATURE_HOLDER = "label holder", "feature holder"
_DOWN = f"{LABEL_HOLDER} -> {FEATURE_HOLDER}"
_UP = f"{FEATURE_HOLDER} -> {LABEL_HOLDER}"

SMALLEST_BATCH = 16
"""Batches below this are not worth a step of their own."""


def gini_settings(params: Any) -> filter_scores.Params:
    """Settings of the Gini filter, from those of either protocol."""
    return filter_scores.Params(
        score="gini",
        bins=params.bins,
        min_bin_size=params.min_bin_size,
        min_class_size=params.min_class_size,
        disclose="scores",
        scheme=params.scheme,
        security_bits=params.security_bits,
        seed=params.seed,
    )


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party; the paper's symbols in brackets.

    Parameters
    ----------
    n_features_to_select : int or None
        None lets the gates decide.
    lam, lam_embedding : float
        Weight of the mean open probability of feature and embedding gates (lambda).
    sigma : float
        Noise of the gates.
    gate_samples : int
        Draws of the gates in a batch, over which their gradient is averaged (C).
    init : {"gini", "constant"}
        Where feature gates start.
    gates : {"dual", "input", "none"}
        Gates on features and embedding, on features only, or none. Without gates, an exact number
        is what a backward elimination leaves.
    model : {"network", "linear"}
    embedding, outputs : int
        Embedding width of every party, and outputs of the interactive layer.
    max_epochs, min_epochs, patience : int
        Epochs at most; before the first one that may be chosen; without a better one before
        training stops.
    batch_size : int
        Rows of a batch at most.
    validation : float
        Share of the training rows that only judge.
    learning_rate, gate_learning_rate, layer_learning_rate : float
        Adam for networks and gates; plain steps for the interactive layer, whose sharing between
        two parties is linear in the gradient.
    refit : bool
        Train new networks on the selected features at the end.
    label_noise : float
        Noise on the gradients that feature holders work with, relative to their size.
    """

    n_features_to_select: int | None = None
    lam: float = 3.0
    lam_embedding: float = 0.03
    sigma: float = 0.5
    gate_samples: int = 1
    init: str = "gini"
    gates: str = "dual"
    model: str = "network"
    embedding: int = 16
    outputs: int = 16
    max_epochs: int = 80
    min_epochs: int = 30
    patience: int = 25
    batch_size: int = 256
    validation: float = 0.2
    learning_rate: float = 3e-3
    gate_learning_rate: float = 1e-2
    layer_learning_rate: float = 0.3
    refit: bool = False
    label_noise: float = 0.0
    bins: int = 10
    min_bin_size: int = 5
    min_class_size: int = 1
    scheme: str = "bgv"
    security_bits: int = 128
    seed: int | None = None

    @property
    def eliminates(self) -> bool:
        """Whether an exact number is chosen without gates, by what features cost to leave out."""
        return self.gates == "none" and self.n_features_to_select is not None

    @property
    def numbers(self) -> LayerNumbers:
        """Fixed-point scales of the interactive layer."""
        return LayerNumbers.for_batches(self.batch_size, self.layer_learning_rate, self.label_noise)

    @property
    def filter_params(self) -> filter_scores.Params:
        """Settings of Algorithm 1, which is the Gini filter."""
        return gini_settings(self)


@message(
    flow=_DOWN,
    reveals="training-rows: number of rows, and which of them train and which validate",
)
class TrainingStart(Message, frozen=True):
    """The job in short. Row numbers are drawn at random within classes, in random order.

    ``resume_from`` is the number of the checkpoint that all have taken over, or -1.
    """

    n_rows: int
    training: PublicArray
    validation: PublicArray
    resume_from: int


@message(flow=_UP, reveals="feature-count: number of features")
class Ready(Message, frozen=True):
    """The party has checked the job against its table."""

    n_features: int


@message(flow=_DOWN, reveals="total-feature-count: number of features of all parties together")
class TotalFeatures(Message, frozen=True):
    """Gates are penalised by their mean over all parties."""

    n_features: int


@message(
    flow=_DOWN,
    reveals="gate-start: rough merit (64 steps) of the receiver's own features, a range for a "
    "function of the label counts in its bins",
    optional=True,
)
class GateStart(Message, frozen=True):
    """Where the receiver's gates start, in its own secret order."""

    means: PublicArray


@message(
    flow=_DOWN,
    reveals="layer-shape: rows of a batch and outputs of the interactive layer, which may be wider "
    "for many classes",
)
class LayerWanted(Message, frozen=True):
    """Asks for keys of an interactive layer."""

    batch_size: int
    n_outputs: int


@message(
    flow=_UP,
    reveals="embedding-width: number of embedding columns in use, and public keys",
    key=FEATURE_HOLDER,
)
class LayerKeys(Message, frozen=True):
    """Public keys of the layer and for pairwise masks; which embedding columns are in use."""

    keys: PublicKeys
    mask_key: PublicKeys
    used: PublicArray


@message(flow=_DOWN, reveals="nothing: public keys of the other feature holders")
class MaskKeys(Message, frozen=True):
    """Public keys that feature holders agree on pairwise masks with."""

    keys: dict[str, PublicKeys]


@message(flow=_DOWN, reveals="nothing: asks for a share of new weights")
class ShareWanted(Message, frozen=True):
    """Asks for the label holder's share of the receiver's part of the interactive layer."""


@message(flow=_UP, reveals="nothing: random weights under a mask that stays with the sender")
class WeightShare(Message, frozen=True):
    """V = C + E: small random weights C hidden by the sender's own share E."""

    share: MaskedArray


@message(flow=_DOWN, reveals="nothing: row numbers drawn at random")
class BatchWanted(Message, frozen=True):
    """Asks for the encrypted embedding of some rows."""

    rows: PublicArray
    training: bool


@message(flow=_UP, reveals="nothing: under the sender's key", key=FEATURE_HOLDER)
class EncryptedBatch(Message, frozen=True):
    """[g], and with it the sender's share [E] if gradients will follow."""

    embedding: Ciphertexts
    share: Ciphertexts | None


@message(flow=_DOWN, reveals="nothing: under masks that stay with the sender", key=FEATURE_HOLDER)
class MaskedOutputs(Message, frozen=True):
    """[g V + r] with uniform r."""

    outputs: Ciphertexts


@message(
    flow=_UP,
    reveals="layer-outputs: outputs of the interactive layer, summed over all feature holders, for "
    "weights the receiver does not know",
    optional=True,
)
class OutputShare(Message, frozen=True):
    """g W + r, and pairwise masks that cancel in the sum over feature holders."""

    outputs: MaskedArray


@message(
    flow=_UP,
    reveals="single-layer-outputs: outputs of this one feature holder's part of the interactive "
    "layer, for weights the receiver does not know",
    optional=True,
)
class SingleOutputs(Message, frozen=True):
    """g W + r of one feature holder: there is no other to add up with, or the job says so."""

    outputs: MaskedArray


@message(
    flow=_DOWN,
    reveals="embedding-gradients: gradient of the loss for every row of the receiver's embedding, "
    "which carries information about the label",
    key=FEATURE_HOLDER,
    optional=True,
)
class Gradients(Message, frozen=True):
    """[g^T delta + r'] and [delta W^T]; asks for the next batch if there is one."""

    weights: Ciphertexts
    embedding: Ciphertexts
    next_rows: PublicArray


@message(flow=_DOWN, reveals="nothing: the end of an epoch")
class EpochEnd(Message, frozen=True):
    """Asks how many gates are open."""

    epoch: int


@message(flow=_UP, reveals="open-gates: number of open feature gates and embedding gates")
class OpenGates(Message, frozen=True):
    """Numbers only, no names."""

    n_features: int
    n_embeddings: int


@message(
    flow=_DOWN,
    reveals="training-course: which epochs are among the best so far",
)
class KeepEpochs(Message, frozen=True):
    """Epochs whose networks must be kept; the others may be forgotten."""

    epochs: tuple[int, ...]


@message(flow=_DOWN, reveals="training-course: which epoch was the best")
class ReturnTo(Message, frozen=True):
    """Go back to the gates and networks of an epoch."""

    epoch: int


@message(
    flow=_UP,
    reveals="feature-scores: mean of the gate of each unnamed feature, or what leaving it out "
    "costs, in secret order",
)
class GateMeans(Message, frozen=True):
    """Scores of one party's features, to choose an exact number over all parties."""

    means: PublicArray


@message(flow=_DOWN, reveals="nothing: asks for a score of every feature")
class GateMeansWanted(Message, frozen=True):
    """Sent only when an exact number of features is wanted."""


@message(
    flow=_DOWN,
    reveals="selection: which of the receiver's own features were selected",
)
class Chosen(Message, frozen=True):
    """Numbers of the selected features, in the receiver's own secret order."""

    features: tuple[int, ...]


@message(flow=_DOWN, reveals="nothing: asks for new networks on the selected features")
class Refit(Message, frozen=True):
    """Forget the networks and start again, without gates, on the selected features."""


TRAINING = (
    TrainingStart,
    Ready,
    TotalFeatures,
    LayerWanted,
    LayerKeys,
    MaskKeys,
    ShareWanted,
    WeightShare,
    BatchWanted,
    EncryptedBatch,
    MaskedOutputs,
    OutputShare,
    SingleOutputs,
    Gradients,
    EpochEnd,
    OpenGates,
    KeepEpochs,
    ReturnTo,
    GateMeansWanted,
    GateMeans,
    Chosen,
    Refit,
)
GINI = (
    filter_messages.Introduction,
    filter_messages.Offer,
    filter_messages.EncryptedLabels,
    filter_messages.SealedScores,
)
PREDICTION = (
    LayerWanted,
    LayerKeys,
    MaskKeys,
    BatchWanted,
    EncryptedBatch,
    MaskedOutputs,
    OutputShare,
    SingleOutputs,
)


DECLARED = Protocol(
    name="fedsdg",
    messages=(*GINI, GateStart, *TRAINING, *filter_messages.SIGNALS.messages),
    roles=(),
)
"""The messages without the roles that handle them, for listings that need no PyTorch."""


def messages_used(params: Params, n_feature_holders: int) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    unused: set[type[Message]] = set()
    unused.update(_outputs_unused(n_feature_holders, may_shrink=params.refit))
    if params.n_features_to_select is None:
        unused.update((GateMeansWanted, GateMeans, Chosen))
    if not params.refit:
        unused.add(Refit)
    first = (*GINI, GateStart) if params.init == "gini" and params.gates != "none" else ()
    return (*first, *(cls for cls in TRAINING if cls not in unused))


def messages_to_predict(n_feature_holders: int) -> tuple[type[Message], ...]:
    """The messages a prediction sends."""
    unused = _outputs_unused(n_feature_holders, may_shrink=False)
    return tuple(cls for cls in PREDICTION if cls not in unused)


def sums_are_masked(n_feature_holders: int) -> bool:
    """Whether outputs reach the label holder only as a sum over feature holders."""
    return n_feature_holders > 1


def _outputs_unused(n_feature_holders: int, *, may_shrink: bool) -> set[type[Message]]:
    if sums_are_masked(n_feature_holders):
        # A refit leaves out parties without selected features; one may remain.
        return set() if may_shrink else {SingleOutputs}
    return {OutputShare, MaskKeys}
