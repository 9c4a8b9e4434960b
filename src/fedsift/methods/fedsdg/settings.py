# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From the constructor's parameters of ``FedSDGSelector`` to those that all parties work with."""

from __future__ import annotations

from fedsift.errors import ParameterError
from fedsift.methods.base import number_or_auto
from fedsift.methods.checks import class_minimum
from fedsift.methods.execution import policies_for
from fedsift.methods.fedsdg.messages import SMALLEST_BATCH, Params
from fedsift.privacy.draws import private_seed

_FULL_PRICE_SHARE = 0.04
"""Exact numbers above this share of the features lower the price of an open gate in proportion."""
_FEW, _MANY = 16, 32
"""Outputs of the layer for few classes, and for more than these."""


def params_for(selector, federation, *, simulated=False):
    """What all parties of a federation are told; the defaults depend on its shape."""
    if selector.top_network is not None and selector.model == "linear":
        raise ParameterError(
            "top_network together with model='linear'.",
            "A linear model has no network behind its layer.",
            "Leave one of them out.",
        )
    target = federation.target
    embedding, outputs = _widths(selector, target.n_classes)
    n_training = int(federation.n_rows * (1 - selector.validation))
    largest = max(SMALLEST_BATCH, n_training // int(selector.min_batches))
    exactly = number_or_auto(selector.n_features_to_select, federation.n_features)
    price = _price(federation.n_features, exactly)
    return Params(
        n_features_to_select=exactly,
        lam=float(price if selector.lam == "auto" else selector.lam),
        lam_embedding=float(selector.lam_embedding),
        sigma=float(selector.sigma),
        gate_samples=int(selector.gate_samples),
        init=selector.init,
        gates=selector.gates,
        model=selector.model,
        embedding=embedding,
        outputs=outputs,
        max_epochs=int(selector.max_epochs),
        min_epochs=int(selector.min_epochs),
        patience=int(selector.patience),
        batch_size=min(int(selector.batch_size), largest),
        validation=float(selector.validation),
        learning_rate=float(selector.learning_rate),
        gate_learning_rate=float(selector.gate_learning_rate),
        layer_learning_rate=float(selector.layer_learning_rate),
        refit=bool(selector.refit) or exactly is not None,
        label_noise=float(selector.label_noise),
        min_class_size=class_minimum(policies_for(selector.policy, federation.parties), federation),
        scheme=selector._scheme(),
        seed=private_seed(selector._seed(), simulated=simulated),
    )


def notes_on(params, n_holders):
    """What a user should know before such a run."""
    if params.scheme == "plain":
        return (
            "Encryption is OFF (security='plain'): embeddings and gradients travel in the clear.",
        )
    notes = [f"Encryption: {params.scheme}, {params.security_bits}-bit security."]
    if n_holders == 1:
        notes.append(
            "There is one feature holder: the label holder sees that party's outputs of the "
            "interactive layer, not a sum over several."
        )
    if not params.label_noise:
        notes.append(
            "Feature holders get gradients of their embedding, from which labels can be "
            "guessed; label_noise makes that harder."
        )
    if params.seed is not None:
        notes.append(
            "The seed repeats every party's private draws, in one process only: between "
            "organisations they come from the operating system."
        )
    return tuple(notes)


def _widths(selector, n_classes):
    """Inputs of the interactive layer from every party, and its outputs."""
    embedding, outputs = int(selector.embedding), selector.outputs
    if outputs == "auto":
        outputs = _FEW
        if n_classes > _FEW:
            outputs, embedding = _MANY, max(_MANY, embedding)
    if selector.model == "linear":
        outputs = max(1, n_classes)
    return embedding, int(outputs)


def _price(n_features, exactly):
    """What open gates cost by default: less where many are wanted, or they all close too soon."""
    price = min(3.0, 0.01 * n_features)
    if exactly is None:
        return price
    return price * min(1.0, _FULL_PRICE_SHARE * n_features / exactly)
