# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Models, chosen by name, that are trained on a selection to see what it is worth.

All of them fill in missing values and scale the columns by the training rows alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedsift.config.toml import did_you_mean
from fedsift.errors import ParameterError
from fedsift.lab.compare.cases import Floats, Pooled
from fedsift.lab.compare.metrics import class_scores, number_scores, variance_of_guessing

_N_TREES = 100
_CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "knn": lambda _: KNeighborsClassifier(5),
    "logistic": lambda _: LogisticRegression(max_iter=300),
    "forest": lambda seed: RandomForestClassifier(_N_TREES, random_state=seed),
    "svm": lambda seed: SVC(random_state=seed),
    "tree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "bayes": lambda _: GaussianNB(),
}
_REGRESSORS: dict[str, Callable[[int], Any]] = {
    "knn": lambda _: KNeighborsRegressor(5),
    "ridge": lambda _: Ridge(),
    "forest": lambda seed: RandomForestRegressor(_N_TREES, random_state=seed),
    "svm": lambda _: SVR(),
    "tree": lambda seed: DecisionTreeRegressor(random_state=seed),
}
MODELS = tuple(dict.fromkeys((*_CLASSIFIERS, *_REGRESSORS)))
"""Names of models; ``logistic`` and ``bayes`` are for classes, ``ridge`` is for numbers."""

_STANDS_IN = {"logistic": "ridge", "ridge": "logistic", "bayes": "ridge"}
"""The counterpart for the other kind of label, so that one list serves data of both kinds."""


def check_models(names: list[str]) -> None:
    """Refuse a model that does not exist."""
    for name in names:
        if name not in MODELS:
            raise ParameterError(
                f"There is no model {name!r}.",
                f"Known models: {', '.join(MODELS)}.",
                did_you_mean(name, MODELS, "Choose one."),
            )
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            "No models are named, or one is named twice.",
            "At least one model is needed to see what a selection is worth.",
            "Leave the default, or name each model once.",
        )


def models_for(names: list[str], is_classes: bool) -> list[str]:
    """The models that fit the kind of label, in their order."""
    known = _CLASSIFIERS if is_classes else _REGRESSORS
    fitting = [name if name in known else _STANDS_IN[name] for name in names]
    return list(dict.fromkeys(fitting))


def make_model(name: str, is_classes: bool, seed: int) -> Any:
    """An unfitted model with its preparation of columns."""
    last = (_CLASSIFIERS if is_classes else _REGRESSORS)[name](seed)
    # A column without any value in the training rows stays, as zeros.
    return make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(), last)


def fit_quietly(model: Any, X: Floats, y: npt.NDArray[Any]) -> Any:
    """Fit; a model that has not quite converged is still what it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


class Judge:
    """Trains models on selections of one split and scores them on its test rows.

    Parameters
    ----------
    pooled : Pooled
        All rows; a joint model is trained in the clear, for evaluation only.
    train, test : ndarray of int
        Rows.
    labels : ndarray of shape (n_train,)
        Labels to train with, which may be shuffled; test rows keep their true ones.
    models : list of str
    seed : int
    """

    def __init__(self, pooled: Pooled, train, test, labels, models: list[str], seed: int) -> None:
        assert pooled.target is not None  # noqa: S101 - nothing is judged without labels
        self._pooled = pooled
        self._train, self._test = train, test
        self._labels = labels
        self._seed = seed
        self.is_classes = pooled.target.kind == "classes"
        self._n_classes = pooled.target.n_classes
        self.models = models_for(models, self.is_classes)

    def scores(self, features) -> dict[str, dict[str, float]]:
        """Scores of every model on these features."""
        columns = self._pooled.columns_of(features)
        X, y = self._pooled.X[:, columns], self._pooled.y
        found = {}
        for name in self.models:
            predicted, shares = self.predict(name, X[self._train], self._labels, X[self._test])
            found[name] = self.score(y[self._test], predicted, shares)
        return found

    def score(self, truth, predicted, shares=None) -> dict[str, float]:
        """Scores of predictions for test rows."""
        if not self.is_classes:
            return number_scores(truth, predicted)
        scores = class_scores(truth, predicted, shares)
        scores["variance_of_guessing"] = variance_of_guessing(truth, predicted)
        scores["chance"] = 1 / len(np.unique(truth))
        return scores

    def predict(self, name: str, X, y, X_test):
        """Predictions and, for classes, how much the model believes in each."""
        if len(np.unique(y)) == 1:
            return self._constant(y, len(X_test))
        if X.shape[1] == 0:
            X, X_test = np.zeros((len(X), 1)), np.zeros((len(X_test), 1))
        if name == "knn" and len(X) < 5:
            name = "tree"
        model = fit_quietly(make_model(name, self.is_classes, self._seed), X, y)
        if not self.is_classes:
            return model.predict(X_test), None
        given = (
            model.predict_proba(X_test)
            if hasattr(model, "predict_proba")
            else model.decision_function(X_test)
        )
        if given.ndim == 1:
            given = np.column_stack([-given, given])
        shares = np.full((len(X_test), self._n_classes), given.min() - 1.0)
        shares[:, model.classes_] = given
        return model.predict(X_test), shares

    def _constant(self, y, n_rows):
        """A party that has seen one class only can name no other."""
        if not self.is_classes:
            return np.full(n_rows, float(y[0])), None
        shares = np.zeros((n_rows, self._n_classes))
        shares[:, y[0]] = 1.0
        return np.full(n_rows, y[0]), shares
