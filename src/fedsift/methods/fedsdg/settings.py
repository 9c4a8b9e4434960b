# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From the constructor's parameters of ``FedSDGSelector`` to those that all parties work with."""

from __future__ import annotations

import numbers

from fedsift.errors import ParameterError
from fedsift.methods.base import number_to_select
from fedsift.methods.checks import check_choices, check_number, check_whole
from fedsift.methods.fedsdg.messages import SMALLEST_BATCH, Params

_SCHEMES = {"auto": "bgv", "bgv": "bgv", "paillier": "paillier"}
_FULL_PRICE_SHARE = 0.04
"""Exact numbers above this share of the features lower the price of an open gate in proportion."""
_WIDEST = 256
_FEW, _MANY = 16, 32
"""Outputs of the layer for few classes, and for more than these."""
_MOST_NOISE = 1000


def check_parameters(selector):
    """Refuse what no data could make right."""
    choices = {
        "init": (selector.init, ("gini", "constant")),
        "gates": (selector.gates, ("dual", "input", "none")),
        "model": (selector.model, ("network", "linear")),
        "he": (selector.he, tuple(_SCHEMES)),
        "security": (selector.security, ("secure", "plain")),
    }
    check_choices(choices)
    if check_number("label_noise", selector.label_noise, 0.0, strict=False) > _MOST_NOISE:
        raise ParameterError(
            f"label_noise={selector.label_noise!r}.",
            f"At most {_MOST_NOISE} times the gradient's own size fits the fixed-point range.",
            "Forbid embedding-gradients by policy where labels must not leak at all.",
        )
    for name in ("lam", "lam_embedding"):
        if (name, getattr(selector, name)) != ("lam", "auto"):
            check_number(name, getattr(selector, name), 0.0, strict=False)
    for name in ("sigma", "learning_rate", "gate_learning_rate", "layer_learning_rate"):
        check_number(name, getattr(selector, name), 0.0, strict=True)
    for name, smallest, largest in (
        ("embedding", 1, _WIDEST),
        ("max_epochs", 1, 100_000),
        ("min_epochs", 0, 100_000),
        ("patience", 1, 100_000),
        ("batch_size", SMALLEST_BATCH, 4096),
        ("min_batches", 1, 100_000),
    ):
        check_whole(name, getattr(selector, name), smallest, largest)
    if selector.outputs != "auto":
        check_whole("outputs", selector.outputs, 1, _WIDEST)
    if not (isinstance(selector.validation, numbers.Real) and 0 < float(selector.validation) < 1):
        raise ParameterError(
            f"validation={selector.validation!r}.",
            "A share between 0 and 1 is needed.",
            "Give 0.2, for example.",
        )


def params_for(selector, federation):
    """What all parties of a federation are told; the defaults depend on its shape."""
    wanted = selector.n_features_to_select
    auto = isinstance(wanted, str) and wanted == "auto"
    if isinstance(wanted, str) and not auto:
        raise ParameterError(
            f"n_features_to_select={wanted!r}.",
            "A positive whole number, a share in (0, 1] or 'auto' is needed.",
            "Choose one.",
        )
    target = federation.target
    embedding, outputs = _widths(selector, target.n_classes)
    n_training = int(federation.n_rows * (1 - selector.validation))
    largest = max(SMALLEST_BATCH, n_training // int(selector.min_batches))
    exactly = None if auto else number_to_select(wanted, federation.n_features)
    price = _price(federation.n_features, exactly)
    return Params(
        n_features_to_select=exactly,
        lam=float(price if selector.lam == "auto" else selector.lam),
        lam_embedding=float(selector.lam_embedding),
        sigma=float(selector.sigma),
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
        refit=bool(selector.refit) or not auto,
        label_noise=float(selector.label_noise),
        scheme="plain" if selector.security == "plain" else _SCHEMES[selector.he],
        seed=selector._seed(),
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
            "Whoever knows the seed can repeat every party's private draws; leave it out where "
            "the parties are real."
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
