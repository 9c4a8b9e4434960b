# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a blind training fits: integers from labels, weighted by class or not."""

from __future__ import annotations

import numpy as np

from fedsift.crypto.products.between_two import Small
from fedsift.data.target import Target
from fedsift.methods.fedsdg.blind.numbers import Floats
from fedsift.methods.fedsdg.blind.params import BlindParams


def weights_of_classes(
    target: Target, training: Small, wanted: str | dict[str, float] | None
) -> Floats:
    """How much each class counts, one on average over the training rows.

    Examples
    --------
    >>> target = Target.from_values(["a", "a", "a", "b"])
    >>> weights_of_classes(target, np.arange(4), "balanced").round(2).tolist()
    [0.67, 2.0]
    """
    sizes = np.bincount(target.codes[training], minlength=max(2, target.n_classes))
    weights = np.ones(len(sizes))
    if wanted == "balanced":
        weights = 1.0 / np.maximum(1, sizes)
    elif isinstance(wanted, dict):
        named = [wanted.get(name, 1.0) for name in target.classes]
        weights[: len(named)] = named
    found: Floats = weights * sizes.sum() / max(1e-12, float(weights @ sizes))
    return found


def prepare_targets(
    target: Target, training: Small, params: BlindParams
) -> tuple[Small, list[float], list[float]]:
    """Integers (n_outputs, n_rows) to fit, the means that were taken off, and the spreads.

    Weights of classes scale the indicators: the squared error of a class counts that much more,
    without any change to what travels. Two classes that are weighted have an output each; without
    weights a single one stands for both alike.
    """
    if target.kind == "classes":
        indicators = (target.codes[:, None] == np.arange(max(2, target.n_classes))).astype(float)
        wanted = indicators[:, 1:2] if params.n_outputs == 1 else indicators
        spread = np.ones(wanted.shape[1])
        if params.n_outputs > 1:
            spread = weights_of_classes(target, training, params.class_weight) ** -0.5
    else:
        wanted = np.asarray(target.values, dtype=np.float64)[:, None]
        spread = np.array([float(wanted[training].std()) or 1.0])
    means = wanted[training].mean(axis=0)
    reals = (wanted - means) / spread
    integers = np.rint(reals * 2.0**params.scales.outputs).astype(np.int64)
    return integers.T, means.tolist(), spread.tolist()
