# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a curious leader works out, by design: the measured side of the privacy claims."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.suites.vfps.measures import run_method
from fedsift.data import Federation, split_vertical
from fedsift.lab.attacks.vfps.techniques import (
    CuriousLeader,
    likeness,
    solve_parts,
    subtract_geometries,
)
from fedsift.methods.vfps.distances import Params, standardised

DESIGNS: dict[str, dict[str, Any]] = {
    "group-testing, separate": {},
    "group-testing, separate, all rows": {"fagin": False},
    "group-testing, shared": {"design": "shared"},
    "greedy": {"strategy": "greedy", "n_participants": 2},
}
_ROWS = 200


def measure() -> dict[str, dict[str, float]]:
    """Per design: parts of distances solved for, and r2 of distances by subtracted geometries."""
    federation = _one_column_each()
    found = {}
    for name, settings in DESIGNS.items():
        params = Params(n_queries=_ROWS, seed=0, query_seed=0, scheme="plain", **settings)
        assert federation.target is not None
        leader = CuriousLeader(federation.target, None, params)
        run_method(federation, params, leader)
        found[name] = {"solved": _solved(leader), "geometry_r2": _by_geometry(federation, leader)}
    return found


def _one_column_each() -> Federation:
    """Four participants with one column: the easiest prey."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, _ROWS)
    X = rng.normal(size=(_ROWS, 4)) + np.array([1.5, 1.0, 0.5, 0.0]) * y[:, None]
    return split_vertical(X, y, 4, label_holder=None, task="classification")


def _solved(leader: CuriousLeader) -> float:
    solved = [
        guess.solved
        for query in {view.query for view in leader.views}
        for guess in solve_parts([v for v in leader.views if v.query == query], {}).values()
    ]
    return float(np.mean(solved))


def _by_geometry(federation: Federation, leader: CuriousLeader) -> float:
    first, second, third = list(federation.tables)[:3]
    pairs = np.random.default_rng(1).integers(0, _ROWS, size=(1000, 2))
    wanted = {(first, second), (first, third), (second, third)}
    if not wanted <= {view.group for view in leader.views}:
        return float("nan")
    guess = subtract_geometries(leader.views, (first, second, third), pairs, _ROWS)
    column = standardised(federation.tables[first])[0][:, 0]
    return likeness(guess, (column[pairs[:, 0]] - column[pairs[:, 1]]) ** 2)
