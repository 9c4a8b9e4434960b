# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which column to take next, when to stop, and what is known of every feature at the end.

Whoever knows products of all columns goes through it: the label holder of a vertical run, the
coordinator of a horizontal one, and the selection on pooled data that both must equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.maths import multiple_testing
from fedsift.methods.stepwise.forward import ForwardSearch
from fedsift.methods.stepwise.knockoffs import (
    Moments,
    entry_differences,
    goes_on,
    kept_at,
    search_with_knockoffs,
)
from fedsift.methods.stepwise.messages import AUTO, FDR

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class Features:
    """Whose features the columns of a search belong to.

    Parameters
    ----------
    widths : mapping of party to ndarray of shape (n_features,)
        Columns of every feature; columns go by party, then by feature.
    kept : mapping of party to set of int
        Features that are in from the start.
    """

    widths: Mapping[str, Integers]
    kept: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        owners = [
            (party, feature)
            for party, own in self.widths.items()
            for feature, width in enumerate(own.tolist())
            for _ in range(width)
        ]
        object.__setattr__(self, "owners", owners)

    owners: list[tuple[str, int]] = field(init=False, default_factory=list)

    def is_kept(self, column: int) -> bool:
        """Whether a column is in from the start."""
        party, feature = self.owners[column]
        return feature in self.kept.get(party, ())

    def kept_columns(self) -> list[int]:
        """Columns that are in from the start."""
        return [column for column in range(len(self.owners)) if self.is_kept(column)]

    def place_of(self, column: int) -> tuple[str, int]:
        """The party of a column of a search, and its number there; knockoffs come last."""
        knockoff, first = divmod(column, len(self.owners))
        party, _ = self.owners[first]
        place = self.columns_of(party)
        return party, first - place.start + knockoff * (place.stop - place.start)

    def columns_of(self, party: str) -> slice:
        """Where the columns of a party are."""
        parties = list(self.widths)
        counts = [int(self.widths[p].sum()) for p in parties]
        start = sum(counts[: parties.index(party)])
        return slice(start, start + counts[parties.index(party)])


@dataclass(frozen=True)
class Found:
    """What is known at the end, features by party and number.

    Attributes
    ----------
    scores, ranks, p_values, q_values : dict of party to ndarray of shape (n_features,)
    selected : dict of party to tuple of int
    steps : list of dict
        What is known of every column that was taken, in order.
    gains : dict of party to (float, float)
        What all columns of a party add, and the standard error.
    n_shuffles : int
        Copies of the label that told what chance reaches.
    """

    scores: dict[str, Floats]
    ranks: dict[str, Integers]
    p_values: dict[str, Floats]
    q_values: dict[str, Floats]
    selected: dict[str, tuple[int, ...]]
    steps: list[dict[str, Any]]
    gains: dict[str, tuple[float, float]] = field(default_factory=dict)
    n_shuffles: int = 0


class Selection:
    """A search through columns that counts features.

    Parameters
    ----------
    search : ForwardSearch
        Columns in from the start are in.
    features : Features
    wanted : int or "auto"
        Features to add.
    level : float
        With ``"auto"``, how often chance may explain as much as what is taken.
    n_shuffles : int
    """

    def __init__(
        self,
        search: ForwardSearch,
        features: Features,
        wanted: int | str,
        level: float,
        n_shuffles: int,
    ) -> None:
        self.search, self.features = search, features
        self._wanted, self._level, self._n_shuffles = wanted, level, n_shuffles

    @property
    def taken(self) -> list[tuple[str, int]]:
        """Features that were added, in order, each once."""
        owners = self.features.owners
        return list(dict.fromkeys(owners[column] for column in self._taken_columns()))

    def next_column(self) -> int | None:
        """The column to take next; None at the end."""
        if self._wanted != AUTO:
            return self.search.best() if len(self.taken) < int(self._wanted) else None
        if self._n_shuffles:
            return self.search.best(self._level)
        # Too few rows to shuffle labels: as if all candidates were independent.
        _, p_values = self.search.statistics()
        candidates = self.search.candidates
        if not candidates.any() or p_values[candidates].min() * candidates.sum() > self._level:
            return None
        return self.search.best()

    def _taken_columns(self) -> list[int]:
        """Columns that were added, in order."""
        return self.search.selected

    def finish(self, gains: Mapping[str, tuple[float, float]] | None = None) -> Found:
        """Scores and probabilities of all features, and what every step added."""
        statistics, p_values = self.search.statistics()
        q_values = np.ones(len(p_values))
        open_ones = self.search.candidates
        q_values[open_ones] = multiple_testing.q_values(p_values[open_ones])
        for step in self.search.steps:
            statistics[step.column] = step.statistic
            p_values[step.column], q_values[step.column] = step.p_value, step.q_value
        scores, ps, qs = {}, {}, {}
        for party, widths in self.features.widths.items():
            place = self.features.columns_of(party)
            scores[party] = _of_features(np.minimum(statistics[place], _LARGEST), widths, np.max, 0)
            # The smallest p-value of several columns of a feature is paid for.
            ps[party] = _of_features(p_values[place], widths, np.min, 1)
            ps[party] = np.minimum(1.0, ps[party] * np.maximum(widths, 1))
            qs[party] = _of_features(q_values[place], widths, np.min, 1)
        ranks, selected = self._ranks(scores)
        return Found(
            scores, ranks, ps, qs, selected, self._steps(), dict(gains or {}), self._n_shuffles
        )

    def _ranks(
        self, scores: Mapping[str, Floats]
    ) -> tuple[dict[str, Integers], dict[str, tuple[int, ...]]]:
        """Added features in order, kept ones by their statistics, then all others by theirs."""
        kept = {(p, f) for p, own in self.features.kept.items() for f in own}
        place = {feature: number for number, feature in enumerate(self.taken)}
        every = [(p, f) for p, own in scores.items() for f in range(len(own))]
        order = sorted(
            every,
            key=lambda one: (
                place.get(one, len(place) + (one not in kept)),
                -scores[one[0]][one[1]],
            ),
        )
        ranks = {p: np.zeros(len(own), dtype=np.int64) for p, own in scores.items()}
        for number, (party, feature) in enumerate(order, start=1):
            ranks[party][feature] = number
        chosen = kept | set(place)
        selected = {
            p: tuple(f for f in range(len(own)) if (p, f) in chosen) for p, own in ranks.items()
        }
        return ranks, selected

    def _steps(self) -> list[dict[str, Any]]:
        """Plain values of every step; features are still numbers."""
        owners, explained = self.features.owners, 0.0
        found = []
        added = set(self._taken_columns())
        for step in self.search.steps:
            if not step.forced and step.column not in added:
                continue
            explained += step.adds
            entry = {
                "step": "keep" if step.forced else "add",
                "feature": owners[step.column],
                "score": min(step.statistic, _LARGEST),
                "p_value": step.p_value,
                "q_value": step.q_value,
                "adds": step.adds,
                "explained": explained,
                "redundancy": step.redundancy,
            }
            if not math.isnan(step.chance):
                entry["chance"] = step.chance
            if step.redundant_with is not None:
                entry["redundant_with"] = owners[step.redundant_with % len(owners)]
            found.append(entry)
        return found


class KnockoffSelection(Selection):
    """A search that keeps a rate of false discoveries.

    Columns of the search are those of all features, then their knockoffs in the same order.

    Parameters
    ----------
    search : ForwardSearch
    features : Features
    rate : float
    """

    def __init__(self, search: ForwardSearch, features: Features, rate: float) -> None:
        super().__init__(search, features, FDR, rate, 0)
        self._rate = rate

    def next_column(self) -> int | None:
        """As long as what is kept could change."""
        return self.search.best() if goes_on(self.search, self._rate) else None

    def _taken_columns(self) -> list[int]:
        kept = kept_at(entry_differences(self.search), self._rate)
        chosen = self.search.selected
        return [c for c in chosen if c < len(kept) and kept[c]]


def select_true(
    moments: Moments, features: Features, n_means: int, rate: float, rng: np.random.Generator
) -> tuple[KnockoffSelection, Floats]:
    """A selection with knockoffs that are made of moments, and products of all with all."""
    forced = np.isin(np.arange(len(moments.gram)), features.kept_columns())
    search, pairs = search_with_knockoffs(moments, forced, n_means, rng)
    return KnockoffSelection(search, features, rate), pairs


def _of_features(values: Floats, widths: Integers, best: Any, nothing: float) -> Floats:
    """The best value of the columns of every feature."""
    ends = np.cumsum(widths)
    parts = [values[end - width : end] for end, width in zip(ends, widths, strict=True)]
    return np.array([float(best(part)) if len(part) else float(nothing) for part in parts])


def gain_of(
    label_products: Floats, own_products: Floats, own_gram: Floats, own_labels: Floats, n_rows: int
) -> tuple[float, float]:
    """What orthonormal directions of a party add to own columns, and its standard error.

    Added share of the label columns, less what as many columns of noise would add. For given
    columns the share is that of a noncentral chi-squared variable, whose variance is known.

    Parameters
    ----------
    label_products : ndarray of shape (n_directions, n_contrasts)
    own_products : ndarray of shape (n_directions, n_own)
    own_gram : ndarray of shape (n_own, n_own)
    own_labels : ndarray of shape (n_own, n_contrasts)
    n_rows : int
    """
    n_new, n_contrasts = label_products.shape
    before = _explained(own_gram, own_labels)
    gram = np.block([[own_gram, own_products.T], [own_products, np.eye(n_new)]])
    after = _explained(gram, np.concatenate([own_labels, label_products]))
    free = n_rows - 1 - len(own_gram)
    left, rest = max(1.0 - after, 0.0), max(free - n_new, 1)
    adds = (after - before) - left * n_new / rest
    noise = left / rest
    variance = (2 * n_new * noise**2 + 4 * max(adds, 0.0) * noise) / n_contrasts
    return float(adds), float(np.sqrt(variance))


def _explained(gram: Floats, products: Floats) -> float:
    """Mean share of orthonormal label columns that columns explain."""
    if not len(gram):
        return 0.0
    share = np.einsum("ik,ij,jk->", products, np.linalg.pinv(gram, 1e-9, hermitian=True), products)
    return float(min(share / products.shape[1], 1.0))
