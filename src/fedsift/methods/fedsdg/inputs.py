# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From a party's columns to the inputs of its network; every party does this alone.

Numbers are standardised on the training rows and cut off at five standard deviations; columns of
counts that are mostly zero go through a logarithm first. A category becomes one input per value;
all of them share the gate of their column. Missing values take the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data.table import Column, PartyTable
from fedsift.errors import ColumnError, ValueProblem

Floats = npt.NDArray[np.float64]
Inputs = npt.NDArray[np.float32]

_CUT_OFF = 5.0
_SPARSE_SHARE = 0.5


@dataclass(frozen=True)
class _Recipe:
    """How one column becomes inputs; numbers from the training rows."""

    name: str
    kind: str
    logarithm: bool
    had_missing: bool
    categories: tuple[str, ...]
    means: Floats
    scales: Floats


class InputEncoder:
    """Fitted on training rows, applied to any rows of the same columns.

    Examples
    --------
    >>> table = PartyTable.from_any({"age": [20, 40], "job": ["cook", "smith"]}, name="shop")
    >>> encoder = InputEncoder.fit(table, np.array([0, 1]))
    >>> encoder.transform(table).tolist()
    [[-1.0, 1.0, -1.0], [1.0, -1.0, 1.0]]
    >>> encoder.feature_of_input.tolist()
    [0, 1, 1]
    """

    def __init__(self, recipes: tuple[_Recipe, ...]) -> None:
        self._recipes = recipes
        widths = [len(recipe.means) for recipe in recipes]
        self.feature_of_input: npt.NDArray[np.int64] = np.repeat(np.arange(len(recipes)), widths)

    @classmethod
    def fit(cls, table: PartyTable, training: npt.NDArray[np.int64]) -> InputEncoder:
        """Learn means and scales from the training rows alone.

        Whether values may be missing is a matter of the column, wherever its gaps happen to lie.
        """
        return cls(
            tuple(
                _recipe(column.take(training), had_missing=bool(column.missing.any()))
                for column in table.columns
            )
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Columns it was fitted on."""
        return tuple(recipe.name for recipe in self._recipes)

    def only(self, features: npt.NDArray[np.int64]) -> InputEncoder:
        """The encoder of some of the columns, in this order."""
        return InputEncoder(tuple(self._recipes[i] for i in features))

    def transform(self, table: PartyTable) -> Inputs:
        """Inputs of all rows, shape (n_rows, n_inputs); columns are found by name."""
        missing = [name for name in self.names if name not in table.feature_names]
        if missing:
            raise ColumnError(
                f"Party {table.name!r} has {table.n_columns} columns and lacks "
                f"{len(missing)} of those it was fitted on, such as {missing[0]!r}.",
                f"The {len(self.names)} columns of the fit are needed, whatever their order.",
                "Give the same columns as when fitting.",
            )
        blocks = [
            _inputs(recipe, table.column(recipe.name), table.name) for recipe in self._recipes
        ]
        if not blocks:
            return np.empty((table.n_rows, 0), dtype=np.float32)
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def to_plain(self) -> list[dict[str, Any]]:
        """Plain values, to be written to the party's own file."""
        return [
            {
                "name": r.name,
                "kind": r.kind,
                "logarithm": r.logarithm,
                "had_missing": r.had_missing,
                "categories": list(r.categories),
                "means": r.means.tolist(),
                "scales": r.scales.tolist(),
            }
            for r in self._recipes
        ]

    @classmethod
    def from_plain(cls, values: list[Mapping[str, Any]]) -> InputEncoder:
        """Read back what :meth:`to_plain` wrote."""
        return cls(
            tuple(
                _Recipe(
                    str(v["name"]),
                    str(v["kind"]),
                    bool(v["logarithm"]),
                    bool(v["had_missing"]),
                    tuple(v["categories"]),
                    np.array(v["means"], dtype=np.float64),
                    np.array(v["scales"], dtype=np.float64),
                )
                for v in values
            )
        )


def _recipe(column: Column, *, had_missing: bool) -> _Recipe:
    logarithm = column.kind == "numeric" and _is_sparse_count(column.as_floats())
    values = _raw_inputs(column, column.categories, logarithm=logarithm)
    present = values[~column.missing]
    if not len(present):
        present = np.zeros((1, values.shape[1]))
    scales = present.std(axis=0)
    # A constant column becomes zeros: it has nothing to tell, and no scale to be divided by.
    scales[scales < 1e-12 * np.maximum(1.0, np.abs(present).max(axis=0))] = np.inf
    return _Recipe(
        column.name,
        column.kind,
        logarithm,
        had_missing,
        column.categories,
        present.mean(axis=0),
        scales,
    )


def _is_sparse_count(values: Floats) -> bool:
    known = values[~np.isnan(values)]
    return bool(
        len(known)
        and (known >= 0).all()
        and (known == np.rint(known)).all()
        and (known == 0).mean() > _SPARSE_SHARE
        and known.max() > 1
    )


def _raw_inputs(column: Column, categories: tuple[str, ...], *, logarithm: bool) -> Floats:
    if column.kind == "numeric":
        values = column.as_floats()[:, None]
        return np.log1p(np.maximum(values, 0.0)) if logarithm else values
    position = {text: i for i, text in enumerate(categories)}
    known = np.array([*(position.get(text, -1) for text in column.categories), -1], dtype=np.int64)
    codes = known[column.values.astype(np.int64)]
    indicators: Floats = (codes[:, None] == np.arange(len(categories))).astype(np.float64)
    return indicators


def _inputs(recipe: _Recipe, column: Column, party: str) -> Floats:
    if column.kind != recipe.kind:
        raise ColumnError(
            f"Column {recipe.name!r} of party {party!r} is {column.kind} now.",
            f"It was {recipe.kind} when fitting.",
            "Give the column in the same form.",
        )
    missing = column.missing
    if missing.any() and not recipe.had_missing:
        raise ValueProblem(
            f"Column {recipe.name!r} of party {party!r} has missing values in "
            f"{int(missing.sum())} of {len(missing)} rows.",
            "It had none when the model was fitted, so the model knows no way to deal with them.",
            "Fill them in, or fit again with rows that show what missing values mean.",
        )
    values = _raw_inputs(column, recipe.categories, logarithm=recipe.logarithm)
    standard = (np.where(missing[:, None], recipe.means, values) - recipe.means) / recipe.scales
    clipped: Floats = np.clip(standard, -_CUT_OFF, _CUT_OFF)
    return clipped
