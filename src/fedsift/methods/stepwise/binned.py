# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A search by counts of rows, from products of bins: what the label holder does with ``"mrmr"``.

Every bin of a feature but one is a column of length 1. A product of two such columns and the sizes
of both bins say how many rows are in both; the rest of a feature's rows are in its last bin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from fedsift.errors import BadFrame
from fedsift.maths import multiple_testing
from fedsift.maths.information import mutual_information
from fedsift.methods.stepwise.mrmr import MrmrSearch
from fedsift.methods.stepwise.selection import Features, Found, Selection

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_ROUNDING = 0.1
"""How far a count may be from a whole number."""


class BinnedSearch:
    """A search over features whose bins are columns.

    Parameters
    ----------
    features : Features
    sizes : ndarray of shape (n_columns,)
        Rows of each bin.
    label_products : ndarray of shape (n_columns, n_contrasts)
    labels : ndarray of shape (n_rows, n_contrasts)
        Orthonormal contrasts of the classes.
    codes : ndarray of shape (n_rows,)
        Classes.
    """

    def __init__(
        self,
        features: Features,
        sizes: Integers,
        label_products: Floats,
        labels: Floats,
        codes: Integers,
    ) -> None:
        self._n_rows, self._sizes = len(codes), sizes.astype(np.float64)
        self._lengths = np.sqrt(self._sizes * (1.0 - self._sizes / self._n_rows))
        self._widths = np.concatenate([np.asarray(own) for own in features.widths.values()])
        self._of_column = np.repeat(np.arange(len(self._widths)), self._widths)
        _, first, class_sizes = np.unique(codes, return_index=True, return_counts=True)
        within = label_products @ labels[first].T * self._lengths[:, None]
        expected = self._sizes[:, None] / self._n_rows
        tables = self._tables(_whole(class_sizes * (expected + within)), class_sizes)
        self.mrmr = MrmrSearch(mutual_information(tables))
        self.mrmr.exclude(np.flatnonzero(self._widths == 0).tolist())
        degrees = np.maximum(self._widths * (len(first) - 1), 1)
        chances = chdtrc(degrees, 2 * self._n_rows * self.mrmr.relevance)
        self.p_values = np.where(self._widths > 0, chances, 1.0)
        self._rows: list[Floats] = []
        self.redundancies: dict[int, tuple[float, int | None]] = {}
        self.forced: list[int] = []

    @property
    def selected(self) -> list[int]:
        """Selected features, as numbers of their first columns."""
        return [self.first_column(feature) for feature in self.mrmr.selected]

    def first_column(self, feature: int) -> int:
        """Where the columns of a feature begin."""
        return int(self._widths[:feature].sum())

    def next_column(self) -> int | None:
        """The column that is missing of a feature just chosen; None if there is none."""
        return self._next if self._rows else None

    def add(self, column: int, products: npt.ArrayLike, *, forced: bool = False) -> float | None:
        """Take one bin in, with its products with all columns; with the last one the feature.

        Returns
        -------
        float or None
            The criterion of the feature, if it is in.
        """
        around = np.asarray(products, dtype=np.float64) * self._lengths[column] * self._lengths
        self._rows.append(_whole(self._sizes[column] * self._sizes / self._n_rows + around))
        self._next, feature = column + 1, int(self._of_column[column])
        if len(self._rows) < self._widths[feature]:
            return None
        counts, self._rows = np.stack(self._rows, axis=1), []
        own = self._sizes[self._of_column == feature]
        counts = np.column_stack([counts, self._sizes - counts.sum(axis=1)])
        tables = self._tables(counts, np.append(own, self._n_rows - own.sum()))
        criterion = float(self.mrmr.criterion()[feature])
        self.redundancies[feature] = self.mrmr.redundancy(feature)
        self.mrmr.add(feature, mutual_information(tables), forced=forced)
        if forced:
            self.forced.append(feature)
        return criterion

    def _tables(self, counts: Floats, totals: npt.ArrayLike) -> Floats:
        """Counts of every feature, with the bin that has no column."""
        most = int(self._widths.max(initial=0)) + 1
        tables = np.zeros((len(self._widths), most, counts.shape[1]))
        starts = np.cumsum(self._widths) - self._widths
        places = np.arange(len(counts)) - starts[self._of_column]
        tables[self._of_column, places] = counts
        rest = np.asarray(totals) - tables.sum(axis=1)
        tables[np.arange(len(self._widths)), self._widths] = rest
        if (rest < 0).any():
            raise _no_counts()
        return tables


class BinnedSelection(Selection):
    """Features by relevance less redundancy, until there are enough.

    Parameters
    ----------
    search : BinnedSearch
    features : Features
    wanted : int
    """

    def __init__(self, search: BinnedSearch, features: Features, wanted: int) -> None:
        self.search: Any = search
        self.features, self._found, self._number = features, search, wanted

    def next_column(self) -> int | None:
        """The rest of a feature, then the first bin of the next one."""
        search = self._found
        column = search.next_column()
        if column is not None or len(search.mrmr.selected) >= self._number:
            return column
        best = search.mrmr.best()
        return None if best is None else search.first_column(best)

    def _taken_columns(self) -> list[int]:
        return self._found.selected

    def finish(self, gains: Mapping[str, tuple[float, float]] | None = None) -> Found:
        """Criterion, and the p-value of the G test with the label, of every feature."""
        search = self._found
        scores = search.mrmr.criterion()
        scores[search.mrmr.selected] = search.mrmr.entered
        q_values = multiple_testing.q_values(search.p_values)
        ends = np.cumsum([len(own) for own in self.features.widths.values()])[:-1]
        by_party = [
            dict(zip(self.features.widths, np.split(values, ends), strict=True))
            for values in (scores, search.p_values, q_values)
        ]
        ranks, selected = self._ranks(by_party[0])
        return Found(
            by_party[0],
            ranks,
            by_party[1],
            by_party[2],
            selected,
            self._entries(scores, q_values),
            dict(gains or {}),
        )

    def _entries(self, scores: Floats, q_values: Floats) -> list[dict[str, Any]]:
        search = self._found
        names = [(p, f) for p, own in self.features.widths.items() for f in range(len(own))]
        entries = []
        for feature in search.forced + search.mrmr.selected:
            shared, other = search.redundancies[feature]
            entry = {
                "step": "keep" if feature in search.forced else "add",
                "feature": names[feature],
                "score": float(scores[feature]),
                "p_value": float(search.p_values[feature]),
                "q_value": float(q_values[feature]),
                "relevance": float(search.mrmr.relevance[feature]),
                "redundancy": shared,
            }
            if other is not None:
                entry["redundant_with"] = names[other]
            entries.append(entry)
        return entries


def _whole(counts: Floats) -> Floats:
    found = np.rint(counts)
    if (np.abs(counts - found) > _ROUNDING).any() or (found < 0).any():
        raise _no_counts()
    return np.asarray(found)


def _no_counts() -> BadFrame:
    return BadFrame(
        "Products of bins and their sizes do not belong together.",
        "Both together are counts of rows.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
