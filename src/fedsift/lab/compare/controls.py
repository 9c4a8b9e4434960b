# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What every selection is held against: random features, and what a party can do alone."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np

from fedsift.lab.compare.cases import Case, Floats, Integers
from fedsift.lab.compare.downstream import Judge
from fedsift.lab.compare.splits import Split
from fedsift.lab.peers import filled

N_DRAWS = 5
"""Random subsets of one size that are averaged."""

_INNER_FOLDS = 3
_NARROW = 200
_MANY = 100


def random_scores(
    judge: Judge, n_features: int, wanted: int, seed: int
) -> dict[str, dict[str, float]]:
    """Mean scores of random subsets of one size."""
    rng = np.random.default_rng([seed, wanted])
    n_draws = 1 if wanted >= n_features else N_DRAWS
    totals: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(n_draws):
        features = rng.choice(n_features, size=min(wanted, n_features), replace=False)
        for model, scores in judge.scores(features).items():
            for metric, value in scores.items():
                totals[model][metric].append(value)
    return {
        model: {metric: float(np.mean(values)) for metric, values in scores.items()}
        for model, scores in totals.items()
    }


class LocalModels:
    """The best a party can do with its own data: own columns or own rows, own selection.

    Every party tries all its features and the better half by the F statistic (of more than 200, the
    best 100), and keeps what is better in a cross-validation inside its training rows, for every
    model by itself.

    Parameters
    ----------
    case : Case
    split : Split
    judge : Judge
        Of the same split.
    """

    def __init__(self, case: Case, split: Split, judge: Judge) -> None:
        self._pooled, self._split, self._judge = case.pooled, split, judge
        self.n_features: list[int] = []

    def of_columns(self, party: int) -> dict[str, dict[str, float]]:
        """Scores of one party of a vertical federation, if it had the labels."""
        own = np.flatnonzero(self._pooled.feature_party == party)
        train, test = self._split.train, self._split.test
        found = {}
        for model in self._judge.models:
            predicted, shares = self._predictions(model, own, train, test)
            found[model] = self._judge.score(self._pooled.y[test], predicted, shares)
        return found

    def of_rows(self) -> dict[str, dict[str, float]]:
        """Scores over all test rows, each predicted by the party that owns it."""
        everything = np.arange(self._pooled.n_features)
        owner, y = self._pooled.row_party, self._pooled.y
        train, test = self._split.train, self._split.test
        found = {}
        for model in self._judge.models:
            predicted = np.zeros(len(test), dtype=y.dtype)
            beliefs = None
            for party in np.unique(owner[test]):
                mine = owner[test] == party
                rows = train[owner[train] == party]
                # A party whose rows are all in the test fold borrows everybody's.
                rows = rows if len(rows) else train
                predicted[mine], shares = self._predictions(model, everything, rows, test[mine])
                if shares is not None:
                    beliefs = np.zeros((len(test), shares.shape[1])) if beliefs is None else beliefs
                    beliefs[mine] = shares
            found[model] = self._judge.score(y[test], predicted, beliefs)
        return found

    def _predictions(self, model: str, own: Integers, rows: Integers, asked: Integers):
        """Predictions of the best local model."""
        X, y = self._pooled.X, self._pooled.y
        best, best_worth = own, -np.inf
        candidates = [own] if len(own) == 1 else self._candidates(own, rows)
        for features in candidates if len(candidates) > 1 else ():
            worth = self._inner_worth(model, features, rows)
            if worth > best_worth:
                best, best_worth = features, worth
        self.n_features.append(len(best))
        columns = self._pooled.columns_of(best)
        return self._judge.predict(
            model, X[np.ix_(rows, columns)], y[rows], X[np.ix_(asked, columns)]
        )

    def _candidates(self, own: Integers, rows: Integers) -> list[Integers]:
        """The best own features by the F statistic, and all of them."""
        n_own = len(own)
        if len(np.unique(self._pooled.y[rows])) < 2:
            return [own]
        size = n_own // 2 if n_own <= _NARROW else _MANY
        order = own[np.argsort(-self._strength(own, rows), kind="stable")]
        return [order[:size], own]

    def _strength(self, own: Integers, rows: Integers) -> Floats:
        from sklearn.feature_selection import f_classif, f_regression

        columns = self._pooled.columns_of(own)
        X = filled(self._pooled.X[np.ix_(rows, columns)])
        measure = f_classif if self._judge.is_classes else f_regression
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant columns get no score, and need none
            strengths = np.nan_to_num(measure(X + 0.0, self._pooled.y[rows])[0], posinf=1e300)
        by_feature = np.zeros(self._pooled.n_features)
        np.maximum.at(by_feature, self._pooled.feature_of[columns], strengths)
        return by_feature[own]

    def _inner_worth(self, model: str, features: Integers, rows: Integers) -> float:
        columns = self._pooled.columns_of(features)
        X, y = self._pooled.X[np.ix_(rows, columns)], self._pooled.y[rows]
        fold_of = np.random.default_rng(self._split.seed).permutation(len(rows)) % _INNER_FOLDS
        worths = []
        for fold in range(_INNER_FOLDS):
            fit, check = fold_of != fold, fold_of == fold
            if fit.any() and check.sum() > 1:
                predicted, _ = self._judge.predict(model, X[fit], y[fit], X[check])
                scores = self._judge.score(y[check], predicted)
                worths.append(scores["accuracy" if self._judge.is_classes else "r2"])
        return float(np.mean(worths)) if worths else 0.0
