# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What all selectors share: scikit-learn's contract on one side, a federation on the other."""

from __future__ import annotations

import numbers
import os
import warnings
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsift.data import Federation, split_horizontal, split_vertical
from fedsift.errors import ParameterError
from fedsift.methods.needs import ResultNeeds, SetupNeeds

DEFAULT_N_FEATURES = 10


class FederatedSelector(SelectorMixin, BaseEstimator):
    """Base class: builds a federation from arrays, or takes one, and keeps the outcome."""

    _allow_nan = True
    """Whether missing values are a matter of course for the method."""

    def _wanted(self):
        """What sites must know of each other before they can agree on the settings of a run."""
        return SetupNeeds()

    def _asked(self, setting):
        """What the result of a run needs of the parties."""
        return ResultNeeds()

    @abstractmethod
    def fit(self, X, y=None):
        """Run the method."""

    def transform(self, X):
        """Keep the selected features of an array, a frame, or every table of a federation."""
        if isinstance(X, Federation):
            check_is_fitted(self)
            return _select_tables(X, self.result_.selected)
        return super().transform(X)

    def _get_support_mask(self):
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allow_nan
        tags.input_tags.sparse = False
        return tags

    def _federate(self, X, y, *, horizontal=False, needs_y=True):
        """Use a federation as it is, or split arrays into a simulated one."""
        if isinstance(X, Federation):
            self._adopt_federation(X)
            return X
        X, y = self._check_arrays(X, y, needs_y=needs_y)
        seed = self._seed()
        if horizontal:
            return split_horizontal(X, y, self.parties, random_state=seed)
        parties = self.parties
        if isinstance(parties, numbers.Integral):
            # More parties than columns cannot each own one; a small table still deserves an answer.
            parties = min(int(parties), X.shape[1])
        return split_vertical(X, y, parties, random_state=seed)

    def _check_arrays(self, X, y, *, needs_y, reset=True):
        """scikit-learn's checks; frames with categories keep their columns as they are."""
        if _has_categories(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            if y is None and needs_y:
                validate_data(self, np.zeros((1, X.shape[1])), y=None, reset=False)
            return X, y
        arguments = {
            "dtype": "numeric",
            "ensure_all_finite": "allow-nan" if self._allow_nan else True,
            "ensure_min_samples": 2,
            "reset": reset,
        }
        frame = X if hasattr(X, "iloc") else None
        if y is None and not needs_y:
            X = validate_data(self, X, **arguments)
        else:
            X, y = validate_data(self, X, y, **arguments)
        return (X if frame is None else frame), y

    def _adopt_federation(self, federation):
        """Names and number of features as if the federation's columns stood side by side."""
        pairs = federation.feature_names
        names = [name for _, name in pairs]
        if len(set(names)) != len(names):
            names = [f"{party}.{name}" for party, name in pairs]
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)

    def _checkpoints(self):
        """Directory for checkpoints, or None."""
        if self.checkpoint is None or isinstance(self.checkpoint, (str, os.PathLike)):
            return None if self.checkpoint is None else Path(self.checkpoint)
        raise ParameterError(
            f"checkpoint is a {type(self.checkpoint).__name__}.",
            "The path of a directory is needed, or None to keep no checkpoints.",
            "Pass a path such as 'kept', or leave checkpoint out.",
        )

    def _seed(self):
        """An integer seed from scikit-learn's ``random_state``, or None."""
        if self.random_state is None or isinstance(self.random_state, numbers.Integral):
            return None if self.random_state is None else int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def number_to_select(wanted: Any, n_features: int) -> int:
    """Turn an int or a share into a number of features; never zero, never too many.

    The default of 10 means *at most 10*: fewer features are all kept, with a warning. Any other
    number larger than the number of features is an error.
    """
    if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
        if wanted == DEFAULT_N_FEATURES and n_features < wanted:
            warnings.warn(
                f"Only {n_features} features are there; all of them are selected.",
                UserWarning,
                stacklevel=3,
            )
            return n_features
        if 1 <= wanted <= n_features:
            return int(wanted)
        raise ParameterError(
            f"n_features_to_select={wanted}, and the federation has {n_features} features.",
            f"A number from 1 to {n_features} is needed.",
            "Ask for fewer features.",
        )
    if isinstance(wanted, (float, np.floating)) and 0 < wanted <= 1:
        return max(1, round(float(wanted) * n_features))
    raise ParameterError(
        f"n_features_to_select={wanted!r}.",
        "A positive whole number or a share in (0, 1] is needed.",
        "Give the number of features to keep; this method cannot decide it by itself.",
    )


def scores_in_order(federation, by_party):
    """Per-feature values of all parties in the original column order."""
    values = np.empty(federation.n_features)
    if federation.setting == "horizontal":
        first = next(iter(federation.tables.values()))
        common = next(iter(by_party.values()))
        return np.array([common[name] for name in first.feature_names])
    for party, table in federation.tables.items():
        for name, position in zip(table.feature_names, federation.column_order[party], strict=True):
            values[position] = by_party[party][name]
    return values


def _select_tables(federation, selected):
    """The same federation with only the selected columns; parties may be left without any."""
    from dataclasses import replace

    tables = {
        party: table.select(list(selected[party]))
        for party, table in federation.tables.items()
        if selected.get(party)
    }
    order = {
        party: tuple(
            position
            for name, position in zip(
                federation.tables[party].feature_names, federation.column_order[party], strict=True
            )
            if name in set(selected[party])
        )
        for party in tables
    }
    return replace(federation, tables=tables, column_order=order)


def _has_categories(X):
    """Whether X is a frame with columns that are not numbers."""
    if not hasattr(X, "iloc") or not hasattr(X, "dtypes"):
        return False
    kinds = {getattr(dtype, "kind", "O") for dtype in X.dtypes}
    return not kinds <= set("biuf")
