# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From the constructor's parameters of ``FedSDGSelector`` to the settings of the blind protocol."""

from __future__ import annotations

import math

from fedsift.errors import ParameterError
from fedsift.methods.base import number_or_auto
from fedsift.methods.fedsdg.blind.messages import (
    BlindParams,
    check_opened,
    fewest_to_validate,
    most_blocks,
    most_openings,
)
from fedsift.methods.fedsdg.messages import SMALLEST_BATCH
from fedsift.privacy.draws import private_seed

_FEW, _MANY = 32, 64
_MANY_CLASSES = 16
_MOST_BLOCKS = 20
_FASTEST = 40.0 / 3.0
"""The default layer_learning_rate of 0.3 steps at a quarter of what diverged in measurements."""

_NARROW = 16
"""Fewer units than this step no faster: with plain steps they diverge."""

_LONGEST_STEP = 8
"""How many times longer gates step where sums are opened less often."""

NOT_HERE = {
    "model": ("network",),
    "gates": ("dual", "input", "none"),
    "embedding_network": (None,),
    "top_network": (None,),
    "refit": (False,),
    "label_noise": (0.0,),
}
"""Parameters of the paper's protocol, and what they may be here."""


def check_blind(selector):
    """Refuse what belongs to the paper's protocol."""
    for name, allowed in NOT_HERE.items():
        value = getattr(selector, name)
        if not any(value is one or value == one for one in allowed):
            raise ParameterError(
                f"{name}={value!r} together with protocol='blind'.",
                "It belongs to the protocol of the paper, which opens numbers of single rows.",
                f"Leave {name} out, or choose protocol='paper', which policies have to allow.",
            )
    if selector.gates == "none" and selector.n_features_to_select != "auto":
        raise ParameterError(
            f"gates='none' and n_features_to_select={selector.n_features_to_select!r}.",
            "Without gates, the protocol in which no row is opened trains on all features; an "
            "elimination needs networks that single parties own.",
            "Leave gates out, or choose protocol='paper', which policies have to allow.",
        )


def blind_params_for(selector, federation, *, simulated=False):
    """What all parties of a federation are told; the defaults depend on its shape."""
    n_rows, n_features = federation.n_rows, federation.n_features
    n_classes = federation.target.n_classes
    own = federation.tables.get(federation.label_holder)
    n_hidden = n_features - (0 if own is None else own.n_columns)
    fewest = fewest_to_validate(n_rows, hidden=n_hidden > 0)
    n_validation = max(fewest, int(n_rows * selector.validation))
    n_training = n_rows - n_validation
    # Classes round for themselves which of their rows validate.
    sure_training, sure_validation = n_training - n_classes, n_validation - n_classes
    largest = max(SMALLEST_BATCH, n_training // max(1, int(selector.min_batches) // 2))
    batch_size = min(int(selector.batch_size), largest)
    most = int(selector.max_epochs)
    if n_hidden and selector.gates != "none":
        most = min(most, most_openings(sure_training, n_hidden, n_features))
    settling = max(1, int(selector.max_epochs) // 8)
    # Fewer openings where data is scarce, with more passes and longer steps in between.
    passes = math.ceil(int(selector.max_epochs) / most)
    openings = int(selector.max_epochs) // passes
    blocks = _MOST_BLOCKS
    if n_hidden:
        judgements = openings + (1 if selector.gates == "none" else 2)
        blocks = min(blocks, most_blocks(sure_validation, n_hidden, judgements))
    hidden = selector.outputs
    if hidden == "auto":
        hidden = _MANY if n_classes > _MANY_CLASSES else _FEW
    outputs = n_classes if n_classes > 2 else 1
    rate = float(selector.layer_learning_rate) * _rate_of_one(int(hidden), outputs)
    params = BlindParams(
        n_features_to_select=number_or_auto(selector.n_features_to_select, n_features),
        lam=float(price_of(n_features, n_classes) if selector.lam == "auto" else selector.lam),
        sigma=float(selector.sigma),
        init=selector.init,
        gates="none" if selector.gates == "none" else "input",
        choose=selector.choose,
        class_weight=_class_weight(selector.class_weight, federation.target),
        hidden=int(hidden),
        n_outputs=outputs,
        n_openings=openings,
        passes=passes,
        n_settling=settling,
        n_blocks=blocks,
        batch_size=batch_size,
        validation=float(selector.validation),
        rate_bits=max(1, round(math.log2(batch_size / rate))),
        gate_learning_rate=5.0 * float(selector.gate_learning_rate) * min(passes, _LONGEST_STEP),
        scheme=selector._scheme(),
        seed=private_seed(selector._seed(), simulated=simulated),
    )
    check_opened(params, n_training, n_validation, n_hidden, n_features)
    return params


def _class_weight(wanted, target):
    """Weights by the name of the class, or how to find them."""
    if wanted is None or (isinstance(wanted, str) and wanted == "balanced"):
        return wanted
    good = isinstance(wanted, dict) and all(
        isinstance(w, (int, float)) and 0 < w < float("inf") for w in wanted.values()
    )
    named = {str(name): float(weight) for name, weight in wanted.items()} if good else {}
    if not good or not set(named) <= set(target.classes):
        raise ParameterError(
            f"class_weight={type(wanted).__name__!s} with unknown classes or weights."
            if isinstance(wanted, dict)
            else f"class_weight={wanted!r}.",
            "None, 'balanced', or a positive number for classes of the label is needed.",
            "Name classes as the label has them; those left out weigh 1.",
        )
    return named


def _rate_of_one(hidden, outputs):
    """Size of a step, per mean gradient, at ``layer_learning_rate=1``.

    The steepest direction of the loss grows with the squared norm of the signs, which is
    ``(sqrt(hidden) + sqrt(outputs))**2`` for random ones.
    """
    several = math.sqrt(outputs) if outputs > 1 else 0.0
    return _FASTEST / (math.sqrt(max(hidden, _NARROW)) + several) ** 2


def price_of(n_features, n_classes):
    """What open gates cost by default, relative to the loss of predicting the mean.

    Few features are not overpriced. Several classes share the features, so that each explains
    less of the whole: the price falls with their number.
    """
    if n_classes:
        return min(2.5 / max(1, n_classes if n_classes > 2 else 1) ** 0.22, 0.008 * n_features)
    return min(2.0, 0.008 * n_features)


def notes_on_blind(params, n_holders):
    """What a user should know before such a run."""
    if params.scheme == "plain":
        return ("Encryption is OFF (security='plain'): shares travel in the clear.",)
    notes = [
        f"Encryption: {params.scheme}, {params.security_bits}-bit security.",
        "Nothing of a single row is opened. The label holder together with any feature holder "
        "could open gradients of rows.",
    ]
    if n_holders > 1:
        notes.append("One feature holder, drawn by lot for every run, helps with shares.")
    if params.seed is not None:
        notes.append(
            "The seed repeats which rows train and where weights start, in one process only: "
            "between organisations they come from the operating system, as masks always do."
        )
    return tuple(notes)
