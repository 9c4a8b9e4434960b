# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the interaction protocol: columns at the cloud, counts from relevances, blinding."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation, split_vertical
from fedsift.engine import run_local
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.interaction import (
    blinding as interaction_blinding,
)
from fedsift.lab.attacks.interaction import (
    columns as interaction_columns,
)
from fedsift.lab.attacks.interaction import (
    counts as interaction_counts,
)
from fedsift.lab.attacks.recording import Stage
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction.measures import standardise
from fedsift.methods.interaction.messages import MESSAGES, Params

Floats = npt.NDArray[np.float64]

_CLASS_SIZES = (31, 33, 37, 41)
_ONES = (9, 23, 17, 31)
"""Ones of a two-valued column in every class."""

_CLOUD, _OWNER = "cloud", "hospital"
_FACTOR_BITS = 20
"""A common divisor of fewer bits is chance."""


def _federation(seed: int) -> tuple[Federation, Floats]:
    """Labels at 'hospital'; at 'bank' a two-valued and a numeric column, at 'shop' two."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(_CLASS_SIZES)), _CLASS_SIZES)
    two_valued = np.concatenate(
        [np.arange(n) < k for n, k in zip(_CLASS_SIZES, _ONES, strict=True)]
    )
    order = rng.permutation(len(y))
    X = rng.normal(size=(len(y), 5))
    X[:, 2] += y
    X[:, 1] = two_valued
    owned = [[0], [1, 2], [3, 4]]
    names = [_OWNER, "bank", "shop"]
    return split_vertical(X[order], y[order], owned, names=names, random_state=0), X[order]


@lru_cache(maxsize=2)
def _run(bare: bool, seed: int) -> tuple[Stage, Floats]:
    """Without encryption and without noise, or as it is by default."""
    federation, X = _federation(seed)
    assert federation.label_holder is not None  # noqa: S101 - generated with labels
    assert federation.target is not None  # noqa: S101
    changed: dict[str, Any] = {"scheme": "plain", "noise_bits": None} if bare else {}
    params = Params(n_features_to_select=2, **changed)
    nodes = interaction.build_nodes(
        federation.tables, federation.label_holder, federation.target, federation.n_rows, params
    )
    outcome = run_local(interaction.PROTOCOL, nodes, keep_frames=True, protected=not bare)
    return Stage(interaction.PROTOCOL, nodes, outcome), X


def sealed_at(stage: Stage, *parties: str) -> list[Ciphertexts]:
    """Everything encrypted that some parties received."""
    found: list[Ciphertexts] = []
    for party in parties:
        for message in stage.received(party, *MESSAGES):
            fields = [getattr(message, name) for name in message.__struct_fields__]
            found += [value for value in fields if isinstance(value, Ciphertexts)]
    return found


def traces(sealed: list[Ciphertexts], columns: Floats, seed: int) -> tuple[float, float]:
    """Mean trace of some columns in ciphertexts, and that of columns that are pure noise."""
    rng = np.random.default_rng((seed, 3))
    noise = rng.normal(size=(columns.shape[1], len(columns)))
    found = [interaction_columns.best_likeness(sealed, column) for column in columns.T]
    chance = [interaction_columns.best_likeness(sealed, column) for column in noise]
    return float(np.mean(found)), float(np.mean(chance))


def _columns(variant: str, seed: int) -> Trial:
    stage, X = _run(variant == UNPROTECTED, seed)
    found, chance = traces(sealed_at(stage, _CLOUD, "bank"), standardise(X[:, 3:]), seed)
    return Trial(found, chance, stage.outcome.ledger.rows())


def _counts(variant: str, seed: int) -> Trial:
    """The label owner looks for the table behind the relevance of the two-valued column."""
    bare = variant == UNPROTECTED
    stage, _ = _run(bare, seed)
    opened = interaction_counts.opened_relevance
    exact = float(opened(np.array(_ONES), _CLASS_SIZES))
    released = np.asarray(stage.outcome.value.relevance)
    nearest = float(released[np.abs(released - exact).argmin()])
    noise_bits = Params().noise_bits
    assert noise_bits is not None  # noqa: S101 - the default has noise
    precision = 1e-9 if bare else 2.0**-noise_bits
    tables = interaction_counts.tables_that_explain(nearest, precision, _CLASS_SIZES, opened)
    # A table and its mirror image cannot be told apart.
    found = min(1.0, 2 / len(tables)) if list(_ONES) in tables.tolist() else 0.0
    return Trial(found, 0.0, stage.outcome.ledger.rows())


def _fractions(variant: str, seed: int) -> Trial:
    rng = np.random.default_rng(seed)
    stage, _ = _run(False, seed)
    if variant == UNPROTECTED:
        pairs = []
        for ones, size in zip(_ONES, _CLASS_SIZES, strict=True):
            factor = int(rng.integers(1 << 40, 1 << 50))
            pairs.append((factor * ones, factor * size))
    else:
        relevance = stage.outcome.value.relevance
        pairs = list(pairwise(round(float(v) * 2**50) for v in relevance if v > 1e-6))
    factors = [interaction_blinding.unblind(a, b)[0] for a, b in pairs]
    found = float(np.mean([factor >= 1 << _FACTOR_BITS for factor in factors]))
    return Trial(found, 0.0, stage.outcome.ledger.rows())


ATTACKS = (
    Attack(
        name="cloud-columns",
        method="interaction",
        attacker="cloud server",
        uses=("EncryptedColumns", "MateColumn"),
        aims_at="a column, together with a feature owner that is in league",
        measure="best correlation with the bytes received",
        unprotected="no encryption (security='plain')",
        default="columns under the label owner's key alone",
        trial=_columns,
        runs=(1, 3),
    ),
    Attack(
        name="relevance-counts",
        method="interaction",
        attacker="label owner",
        uses=("SealedRelevance",),
        aims_at="how many rows of each class have a two-valued feature",
        measure="chance of naming the right table",
        unprotected="relevances without noise in their low bits",
        default="relevances with noise of 2^-16",
        trial=_counts,
        runs=(1, 3),
        declared_as=("relevance",),
        tolerance=0.05,
    ),
    Attack(
        name="blinded-fractions",
        method="interaction",
        attacker="label owner",
        uses=("SealedRelevance",),
        aims_at="numerators and denominators under one random factor",
        measure="fractions unblinded",
        unprotected="fractions under a random factor, as a server that cannot divide might send",
        default="finished values only",
        trial=_fractions,
        runs=(1, 3),
        tolerance=0.05,
    ),
)
