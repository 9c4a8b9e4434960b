# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The encrypted protocol against the pooled table: same groups, same scores, same choice.

The tables of the suite search with the plaintext estimator, which is what makes several splits of
eight data sets affordable. This part shows that nothing depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.suites.vfps.measures import run_method
from fedsift.data import Federation, catalog, split_vertical
from fedsift.methods.vfps import search
from fedsift.methods.vfps.distances import Params, part_of_distance, standardised
from fedsift.methods.vfps.knn_mi import Alike, estimate, exact_terms, term_of_row
from fedsift.methods.vfps.parameters import PARAMETERS

Echo = Callable[[str], None]
DATA = {"synthesis": 5, "g2_4": 4, "g2_128": 4, "bank": 4, "unbalance": 2}
"""Data sets of moderate size and their number of participants."""

_QUERIES = 60
_GROUPS = 10


def rows(profile: str, echo: Echo) -> list[dict[str, Any]]:
    """One row per data set and strategy."""
    names = ("g2_4",) if profile == "smoke" else tuple(DATA)
    done = []
    for name in names:
        if not catalog.is_available(name):
            echo(f"secure {name}: not here (set FEDSIFT_DATA)")
            continue
        federation = federation_of(name)
        for strategy in PARAMETERS["strategy"].words:
            for design in ("separate", "shared") if strategy == "group-testing" else ("shared",):
                if design == "separate" and DATA[name] == 2:
                    continue  # two participants need groups of one
                row = {"data": name, **compare(federation, strategy, design)}
                done.append(row)
                echo(
                    f"secure {name} {strategy} {design}: same selection {row['same_selection']}, "
                    f"largest difference {row['largest_difference']:.1e} in fixed point, "
                    f"{row['largest_error']:.1e} from floating point"
                )
    return done


def federation_of(name: str) -> Federation:
    """Columns dealt out in order, all rows."""
    data = catalog.load(name)
    X, y = np.asarray(data.X, dtype=np.float64), np.unique(data.y, return_inverse=True)[1]
    return split_vertical(X, y, DATA[name], label_holder=None, task="classification")


def compare(
    federation: Federation, strategy: str, design: str = "shared", *, n_queries: int = _QUERIES
) -> dict[str, Any]:
    """Run a strategy under encryption and on the pooled columns; compare choice and scores."""
    params = Params(
        n_participants=max(1, len(federation.tables) // 2),
        strategy=strategy,
        design=design,
        n_groups=_GROUPS,
        n_queries=n_queries,
        singles=design == "shared",
        seed=0,
        query_seed=0,
    )
    outcome, nodes = run_method(federation, params)
    found = outcome.value.found
    leader = nodes[str(federation.label_holder)][0]
    pool = Pool(federation)
    plain = pool.find(params, leader.served)
    secure = {tuple(row["group"]): row["mutual_information"] for row in found.history}
    expected = {tuple(row["group"]): row["mutual_information"] for row in plain.history}
    exact = {
        group: pool.exact(group, leader.served.get(group) or leader._queries.tolist())
        for group in secure
    }
    return {
        "strategy": strategy,
        "design": design,
        "n_groups": len(secure),
        "selected": list(found.selected),
        "same_selection": found.selected == plain.selected and set(secure) == set(expected),
        "largest_difference": max(abs(secure[g] - expected.get(g, np.inf)) for g in secure),
        "largest_error": max(abs(secure[g] - exact[g]) for g in secure),
    }


class Pool:
    """All columns in one place: what no party of a real run has."""

    def __init__(self, federation: Federation) -> None:
        target = federation.target
        if target is None:
            raise TypeError("a federation with a label is needed")
        self._labels = Alike(target.codes)
        self._matrices = {name: standardised(t)[0] for name, t in federation.tables.items()}

    def find(
        self, params: Params, served: dict[search.Group, list[int]] | None = None
    ) -> search.Found:
        """A strategy on fixed-point distances, with the random choices of the leader."""
        players = search.Players(tuple(self._matrices), None, params.singles)
        rng = np.random.default_rng(params.seed)
        usable = np.flatnonzero(self._labels.usable)
        queries = rng.permutation(usable)[: params.n_queries].tolist()
        if params.split_queries and served is not None:
            terms = {group: self._terms(group, some, params.k) for group, some in served.items()}
            return search.from_separate(players, params.n_participants, terms)

        async def evaluate(groups: Sequence[search.Group]) -> dict[search.Group, Any]:
            return {group: self._terms(group, queries, params.k) for group in groups}

        return asyncio.run(
            search.search(
                params.strategy, players, params.n_participants, params.n_groups, rng, evaluate
            )
        )

    def exact(self, group: search.Group, queries: Sequence[int], k: int = 3) -> float:
        """Score of a group in floating point."""
        parts = [self._matrices[name] for name in group]
        return estimate(exact_terms(parts, self._labels, queries, k)).value

    def _terms(self, group: search.Group, queries: Sequence[int], k: int) -> Any:
        m = len(self._matrices)
        return np.array(
            [
                term_of_row(
                    sum(part_of_distance(self._matrices[p], q, m) for p in group),
                    self._labels,
                    q,
                    k,
                )
                for q in queries
            ]
        )


def judge(done: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The claim over all rows."""
    if not done:
        return {}
    return {
        "secure_runs": len(done),
        "secure_equals_plaintext": all(
            row["same_selection"] and row["largest_difference"] < 1e-12 for row in done
        ),
        "largest_fixed_point_error": max(row["largest_error"] for row in done),
    }
