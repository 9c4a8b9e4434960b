# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How well a curious third party of FPSO-FS tells the parties' class mixes, by setting.

Two classes; every party has its own share of the rarer one, between 5 and 50 percent, which is
what the third party is after. It owns other rows of the same population, and is compared with a
guesser who was told the mean share of all parties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.suites.fpso.runs import load
from fedsift.data import split_horizontal
from fedsift.engine import run_local
from fedsift.lab.attacks import fpso as attack
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso.local_search import Params

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SETTINGS = (
    ("third-party", "rounds"),
    ("masked", "rounds"),
    ("third-party", "federated-fitness"),
    ("masked", "federated-fitness"),
)
N_PARTIES, N_ROWS, N_SHADOWS = 4, 80, 300
_LEAST, _MOST = 0.05, 0.5
_NEAREST = 0.1
"""Share of made-up parties that count as like the real one."""


def population(name: str, seed: int) -> tuple[Floats, Integers]:
    """Rows with two classes; of a data set with more, one class against the others."""
    if name != "generated":
        X, y = load(name)
        return X, (y == 0).astype(np.int64)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(len(y), 12))
    X[:, :3] += np.array([1.0, 0.8, -0.6]) * y[:, None]
    return X, y


def one_attack(
    name: str,
    aggregation: str,
    mode: str,
    seed: int,
    *,
    n_shadows: int = N_SHADOWS,
    n_iterations: int = 10,
) -> dict[str, Any]:
    """A federation, a run with a curious third party, and what it makes of the shares."""
    rng = np.random.default_rng(seed)
    X, y = population(name, seed)
    own = rng.random(len(y)) < 0.5  # the attacker's rows; the parties have others
    shares = rng.uniform(_LEAST, _MOST, N_PARTIES)
    rows = [
        np.flatnonzero(~own)[attack.rows_with_mix(y[~own], np.array([1 - s, s]), N_ROWS, rng)]
        for s in shares
    ]
    owners = np.repeat(np.arange(N_PARTIES), N_ROWS)
    joined = np.concatenate(rows)
    federation = split_horizontal(X[joined], y[joined], owners, task="classification")
    params = Params(aggregation=aggregation, mode=mode, n_iterations=n_iterations, seed=seed)
    curious = attack.CuriousThirdParty(params)
    nodes = fpso.build_nodes(federation.tables, federation.targets, params)
    run_local(
        fpso.PROTOCOL,
        {**nodes, fpso.THIRD_PARTY: (curious,)},
        policies=dict.fromkeys(nodes, attack.ALLOWING),
    )
    view = curious.seen()
    drawn = rng.uniform(_LEAST, _MOST, n_shadows)
    mixes = np.column_stack([1 - drawn, drawn])
    shadows = attack.make_shadows(X[own], y[own], view, mixes, N_ROWS, rng)
    true = np.array([y[part].mean() for part in rows])
    guesses = {"accuracies": attack.guess_from_accuracies(shadows, view.accuracies)[:, 1]}
    if mode == "rounds" and curious.names_known:
        liked = curious.proposed(view.masks)
        guesses["subsets"] = guess_from_preferences(shadows, liked)[:, 1]
    told = np.full(N_PARTIES, true.mean())
    return {
        "told": float(np.abs(told - true).mean()),
        "error": {name: float(np.abs(g - true).mean()) for name, g in guesses.items()},
        "order": {
            name: attack.order_found(true[:, None], g[:, None]) for name, g in guesses.items()
        },
    }


def guess_from_preferences(shadows: attack.Shadows, own: npt.NDArray[np.bool_]) -> Floats:
    """Class mix of every party by made-up parties that like the same subsets best.

    Parameters
    ----------
    own : ndarray of bool of shape (n_parties, n_subsets)
        Which of the subsets each party proposed.
    """
    guesses = []
    for mine in own:
        if mine.all() or not mine.any():
            guesses.append(shadows.mixes.mean(axis=0))
            continue
        margin = shadows.accuracies[:, mine].mean(axis=1) - shadows.accuracies[:, ~mine].mean(
            axis=1
        )
        alike = np.argsort(-margin)[: max(1, round(_NEAREST * len(margin)))]
        guesses.append(shadows.mixes[alike].mean(axis=0))
    return np.array(guesses)


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """One setting on one population: errors in points, pairs in the right order in percent."""
    runs = [
        one_attack(job["data"], job["aggregation"], job["mode"], seed)
        for seed in range(job["runs"])
    ]
    row: dict[str, Any] = {
        **job,
        "told_the_mean": 100 * float(np.mean([run["told"] for run in runs])),
    }
    for source in runs[0]["error"]:
        errors = 100 * np.array([run["error"][source] for run in runs])
        right = sum(run["order"][source][0] for run in runs)
        pairs = sum(run["order"][source][1] for run in runs)
        row[source] = {
            "error": float(errors.mean()),
            "standard_error": float(errors.std(ddof=1) / np.sqrt(len(runs))),
            "right_order": 100 * right / pairs,
            "pairs": pairs,
        }
    return row
