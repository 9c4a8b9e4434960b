# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From the constructor's parameters of ``FedSDGSelector`` to the settings of the blind protocol."""

from __future__ import annotations

import math
from dataclasses import replace

from fedsift.errors import ParameterError
from fedsift.methods.base import number_or_auto
from fedsift.methods.checks import class_minimum
from fedsift.methods.execution import policies_for
from fedsift.methods.fedsdg.blind.params import (
    BlindParams,
    check_opened,
    fewest_to_validate,
    most_blocks,
    most_openings,
    most_trials,
)
from fedsift.methods.fedsdg.messages import SMALLEST_BATCH
from fedsift.privacy.draws import private_seed

_FEW, _MANY = 32, 64
_MANY_CLASSES = 16
_MOST_BLOCKS = 20
_FASTEST = 40.0 / 3.0
"""The default layer_learning_rate of 0.3 steps at a quarter of what diverged in measurements."""

_PRICE = 2.5
"""Of an open gate, for two classes."""

_NARROW = 16
"""Fewer units than this step no faster: with plain steps they diverge."""

_LONGEST_STEP = 8
"""How many times longer gates step where sums are opened less often."""

_MOST_TRIALS = 64
_FEWEST_TRIALS = 4
_FEWEST_JUDGING = 100
"""Validation rows: fewer say too little about single features, and trials did harm there."""

_SHORTEST_SETTLING = 5
"""Passes: a network that trained for less says nothing about single features."""

_STEPS_PER_TRIAL = 2
"""Batches that train for each that judges a trial, which takes less than half of the time."""

_NUMERIC_RATE = 0.5
"""Errors of a number may be large, and squares make them larger: steps are half as long."""

NOT_HERE = {
    "model": ("network",),
    "gates": ("dual", "input", "none"),
    "embedding_network": (None,),
    "top_network": (None,),
    "refit": (False,),
    "label_noise": (0.0,),
    "gate_samples": (1,),
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
    hidden = selector.outputs
    if hidden == "auto":
        hidden = _MANY if n_classes > _MANY_CLASSES else _FEW
    outputs = n_classes if n_classes > 2 or (n_classes and selector.class_weight) else 1
    rate = float(selector.layer_learning_rate) * _rate_of_one(int(hidden), outputs)
    rate *= 1.0 if n_classes else _NUMERIC_RATE
    price = price_of(n_features, n_classes, n_training)
    params = BlindParams(
        n_features_to_select=number_or_auto(selector.n_features_to_select, n_features),
        lam=float(price if selector.lam == "auto" else selector.lam),
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
        n_blocks=_MOST_BLOCKS,
        batch_size=batch_size,
        validation=float(selector.validation),
        rate_bits=max(1, round(math.log2(batch_size / rate))),
        gate_learning_rate=5.0 * float(selector.gate_learning_rate) * min(passes, _LONGEST_STEP),
        min_class_size=class_minimum(policies_for(selector.policy, federation.parties), federation),
        scheme=selector._scheme(),
        seed=private_seed(selector._seed(), simulated=simulated),
    )
    params = _with_trials(params, sure_training, sure_validation, n_hidden, n_features)
    check_opened(params, n_training, n_validation, n_hidden, n_features)
    return params


def _with_trials(params, n_training, n_validation, n_hidden, n_features):
    """As many block means and trials as may be opened, and as are worth their time."""

    def blocks_for(some):
        if not n_hidden:
            return _MOST_BLOCKS
        return min(_MOST_BLOCKS, most_blocks(n_validation, n_hidden, some.n_judgements))

    blocks = blocks_for(params)
    plain = replace(params, n_blocks=blocks)
    short = params.n_settling < _SHORTEST_SETTLING
    if not params.has_gates or short or n_validation < _FEWEST_JUDGING:
        return plain
    # Trials may take half of the blocks, whose scatter says how sure a loss is.
    some = replace(params, trials=1, n_blocks=(blocks + 1) // 2)
    n_judging = max(1, math.ceil(n_validation / params.batch_size))
    n_steps = some.n_passes * math.ceil(n_training / params.batch_size)
    trials = min(
        _MOST_TRIALS,
        n_features + 1,
        most_trials(some, n_validation, n_hidden) if n_hidden else _MOST_TRIALS,
        n_steps // (_STEPS_PER_TRIAL * len(some.trial_passes) * n_judging),
    )
    if trials < _FEWEST_TRIALS:
        return plain
    some = replace(params, trials=trials)
    return replace(some, n_blocks=blocks_for(some))


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


def price_of(n_features, n_classes, n_training):
    """What open gates cost by default, relative to the loss of predicting the mean.

    Few features are not overpriced. Several classes share the features, so that each explains
    less of the whole: the price falls with their number. It also falls where features are more
    than rows: no few of them are sure to be the right ones there.
    """
    several = max(1, n_classes if n_classes > 2 else 1)
    wide = max(1.0, n_features / n_training)
    return min(_PRICE / (several * wide) ** 0.22, 0.008 * n_features)


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
