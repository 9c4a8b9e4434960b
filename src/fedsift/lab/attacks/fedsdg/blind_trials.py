# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Trials on blind trainings. They run plain: encryption changes no number that a party sees."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fedsift.data import split_vertical
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.fedsdg import blind, techniques
from fedsift.lab.attacks.fedsdg.blind_views import BlindRecording, record_blind
from fedsift.methods.fedsdg.blind.params import BlindParams

_VICTIM = "party-1"
_ROWS, _COLUMNS = 90, 3
_OWN = 20


@lru_cache(maxsize=2)
def _short(seed: int) -> tuple[BlindRecording, blind.Floats, blind.Integers]:
    """A training with a strong and a weak column, and one feature holder, which is the helper."""
    rng = np.random.default_rng(seed)
    y = rng.permutation((np.arange(200) < 80).astype(np.int64))
    X = rng.normal(size=(200, 6))
    X[:, 0] += 0.5 * y
    federation = split_vertical(X, y, 1, label_holder=None, random_state=0)
    params = BlindParams(
        scheme="plain",
        seed=seed,
        init="constant",
        hidden=8,
        n_openings=10,
        n_blocks=1,
        n_settling=0,
        batch_size=64,
        rate_bits=7,
    )
    return record_blind(federation, params), X, y


def shared_labels(seed: int) -> Trial:
    """Labels from all that a feature holder, here the helper, has of each row."""
    run, X, y = _short(seed)
    found = blind.areas_of_labels(run, _VICTIM, X, y, seed)
    return Trial(found["found"], found["alone"], *run.stage.told)


def shared_units(seed: int) -> Trial:
    """Directions in which the helper's shares of gradients are zero."""
    run, _, _ = _short(seed)
    shares = run.features[_VICTIM][0].numbers[:, -run.params.hidden :] - 0.5
    units = techniques.isolate_units(
        np.rint(shares * 2**20).astype(np.int64), np.random.default_rng(seed), 4000
    )
    return Trial(float(units.shape[1] > 0), 0.0, *run.stage.told)


@lru_cache(maxsize=2)
def opened_sums(seed: int, *, exact: bool = False) -> Trial:
    """Cells from sums of a job that is written to be solved."""
    training, _, run = blind.attack_openings(_ROWS, _COLUMNS, seed, exact=exact, n_starts=1)
    # Validation rows have one block here: of them the labels alone tell as much.
    found = float(training.mean())
    return Trial(found, 1.0 / len(run.training), *run.stage.told)


def _openings(variant: str, seed: int) -> Trial:
    return opened_sums(seed, exact=variant == UNPROTECTED)


def _own_columns(variant: str, seed: int) -> Trial:
    if variant == UNPROTECTED:
        found, run = blind.attack_own_columns(100, 5, seed, exact=True)
        return Trial(float(found.mean()), 0.0, *run.stage.told)
    # A column per row would leave a single opening within the limits.
    found, run = blind.attack_own_columns(100, _OWN, seed, exact=False, n_own=_OWN)
    return Trial(float(found.mean()), 1.0 / _OWN**2, *run.stage.told)


ATTACKS = (
    Attack(
        name="opening-equations",
        method="fedsdg",
        attacker="label holder",
        uses=("GateSums", "LossSums"),
        aims_at="cells of every column, by a job whose openings weigh rows in many ways",
        measure="squared correlation, mean column",
        unprotected="exact sums of new batches, half as many numbers as there are cells",
        default="fixed batches, secret factors, a tenth as many numbers as others have cells",
        trial=_openings,
        runs=(1, 3),
        tolerance=0.1,
    ),
    Attack(
        name="own-column-equations",
        method="fedsdg",
        attacker="label holder",
        uses=("GateSums",),
        aims_at="cells of marked rows, by sums about a column of its own for every one of them",
        measure="squared correlation, mean column or all cells",
        unprotected="exact sums; own columns count as cells",
        default=f"secret factors; {_OWN} own columns leave 3 openings (protocol='blind')",
        trial=_own_columns,
        runs=(1, 5),
        tolerance=0.05,
    ),
)
