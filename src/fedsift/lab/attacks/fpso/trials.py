# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on FPSO-FS: class mixes from accuracies, useful columns from subsets."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import split_horizontal
from fedsift.lab.attacks.attack import OPTION, UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.fpso import accuracy_profile, mask_inference
from fedsift.lab.attacks.recording import Stage, recorded_fit
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso.selector import FPSOSelector

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_PARTIES, _ROWS, _SHADOWS = 4, 80, 150
_LEAST, _MOST = 0.05, 0.5
_SEARCH: dict[str, Any] = {"n_iterations": 5, "n_particles": 20, "n_rounds": 4}


def _settings(variant: str) -> dict[str, Any]:
    """The paper, our default, and the mode that shows no party's subset."""
    if variant == UNPROTECTED:
        return {"aggregation": "third-party", "security": "plain"}
    return {"mode": "federated-fitness"} if variant == OPTION else {}


def curious(stage: Stage) -> accuracy_profile.CuriousThirdParty:
    """The third party of a recorded run."""
    (role,) = stage.nodes[fpso.THIRD_PARTY]
    assert isinstance(role, accuracy_profile.CuriousThirdParty)  # noqa: S101 - recorded as one
    return role


def _class_mixes(variant: str, seed: int) -> Trial:
    """Every party has its own share of the rarer class; the attacker owns rows of the same kind."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(len(y), 12))
    X[:, :3] += np.array([1.0, 0.8, -0.6]) * y[:, None]
    own = rng.random(len(y)) < 0.5
    shares = rng.uniform(_LEAST, _MOST, _PARTIES)
    rows = [
        np.flatnonzero(~own)[
            accuracy_profile.rows_with_mix(y[~own], np.array([1 - s, s]), _ROWS, rng)
        ]
        for s in shares
    ]
    joined, owners = np.concatenate(rows), np.repeat(np.arange(_PARTIES), _ROWS)
    federation = split_horizontal(X[joined], y[joined], owners, task="classification")
    stage = recorded_fit(
        FPSOSelector(random_state=seed, **_SEARCH, **_settings(variant)), federation
    )
    view = curious(stage).seen()
    drawn = rng.uniform(_LEAST, _MOST, _SHADOWS)
    mixes = np.column_stack([1 - drawn, drawn])
    shadows = accuracy_profile.make_shadows(X[own], y[own], view, mixes, _ROWS, rng)
    guess = accuracy_profile.guess_from_accuracies(shadows, view.accuracies)[:, 1:]
    true = np.array([[y[part].mean()] for part in rows])
    right, cases = accuracy_profile.order_found(true, guess)
    return Trial(right / cases, 0.5, stage.outcome.ledger.rows())


@lru_cache(maxsize=2)
def _useful_columns(seed: int) -> tuple[Floats, Integers, Integers, Integers]:
    """Rows and owners; three columns matter at each party, and at no other."""
    rng = np.random.default_rng((seed, 7))
    n_rows, n_columns = 60 * _PARTIES, 3 * _PARTIES
    owners = np.repeat(np.arange(_PARTIES), 60)
    useful = np.repeat(np.arange(_PARTIES), 3)
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X += 1.5 * (useful == owners[:, None]) * y[:, None]
    return X, y, owners, useful


def _useful_masks(variant: str, seed: int) -> Trial:
    X, y, owners, useful = _useful_columns(seed)
    federation = split_horizontal(X, y, owners, task="classification")
    stage = recorded_fit(
        FPSOSelector(random_state=seed, **_SEARCH, **_settings(variant)), federation
    )
    third = curious(stage)
    if third.own_subsets():
        importance = mask_inference.from_own_subsets(third.own_subsets())
    else:
        view = third.seen()
        importance = mask_inference.from_common_subsets(
            view.masks, view.accuracies.mean(axis=0), _PARTIES
        )
    found = mask_inference.told_apart(importance, useful)
    return Trial(found, 0.5, stage.outcome.ledger.rows())


ATTACKS = (
    Attack(
        name="accuracy-inference",
        method="fpso",
        attacker="third party",
        uses=("Accuracies", "MaskedAccuracies"),
        aims_at="which of two parties has more rows of a class",
        measure="pairs in the right order",
        unprotected="aggregation='third-party' (the paper): every party's accuracies",
        default="aggregation='masked': mean accuracies",
        trial=_class_mixes,
        runs=(3, 10),
        declared_as=("accuracies",),
    ),
    Attack(
        name="mask-inference",
        method="fpso",
        attacker="third party",
        uses=("LocalSubset", "Accuracies", "MaskedAccuracies"),
        aims_at="which columns matter at which party",
        measure="columns put down to the right party",
        unprotected="aggregation='third-party' (the paper), subsets by party",
        default="aggregation='masked'; subsets come by party all the same",
        option="mode='federated-fitness': one common swarm",
        trial=_useful_masks,
        runs=(2, 5),
        declared_as=("local-subset",),
    ),
)
