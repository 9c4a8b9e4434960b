# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a selection is worth: models that are trained on it, their scores, and controls.

All models fill in missing values and scale the columns by the training rows alone. Controls are
random features, and what a party can do alone.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import f_classif, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedsift.config.toml import did_you_mean
from fedsift.data import Target
from fedsift.data.survival import concordance_index
from fedsift.errors import ParameterError
from fedsift.lab.compare.cases import Case, Floats, Integers, PooledData, Split

CLASS_METRICS = ("accuracy", "balanced_accuracy", "auc")


NUMBER_METRICS = ("r2", "concordance")


LABELS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "r2": "R2",
    "concordance": "C-index",
}


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


N_DRAWS = 5
"""Random subsets of one size that are averaged."""


_INNER_FOLDS = 3


_NARROW = 200


_MANY = 100


# How good predictions are, and how good a selection is where the truth is known


def class_scores(codes: Integers, predicted: Integers, shares: Floats | None) -> dict[str, float]:
    """Accuracy, mean recall of the classes, and area under the curve.

    Parameters
    ----------
    codes, predicted : ndarray of int of shape (n_rows,)
    shares : ndarray of shape (n_rows, n_classes) or None
        How much a model believes in every class; AUC is the mean over classes, each against the
        others.

    Examples
    --------
    >>> class_scores(np.array([0, 0, 1]), np.array([0, 1, 1]), None)["balanced_accuracy"]
    0.75
    """
    present = np.unique(codes)
    recalls = [float((predicted[codes == code] == code).mean()) for code in present]
    found = {
        "accuracy": float((predicted == codes).mean()),
        "balanced_accuracy": float(np.mean(recalls)),
    }
    if shares is not None and len(present) > 1:
        areas = [roc_auc_score(codes == code, shares[:, code]) for code in present]
        found["auc"] = float(np.mean(areas))
    return found


def number_scores(values: Floats, predicted: Floats) -> dict[str, float]:
    """Share of the variance that is explained."""
    return {"r2": float(r2_score(values, predicted))} if len(values) > 1 else {}


def variance_of_guessing(codes: Integers, predicted: Integers) -> float:
    """Variance of balanced accuracy if the predictions had nothing to do with the labels.

    Recalls of the classes are then shares of rows drawn with the frequency of each prediction.
    """
    present, sizes = np.unique(codes, return_counts=True)
    rates = np.array([float((predicted == code).mean()) for code in present])
    return float((rates * (1 - rates) / sizes).sum()) / len(present) ** 2


def precision_and_recall(
    selected: Collection[int], truth: Collection[int]
) -> tuple[float | None, float]:
    """Share of the selected features that matter, and of those that matter which were selected.

    Examples
    --------
    >>> precision_and_recall([1, 2, 3, 4], [3, 4, 5])
    (0.5, 0.6666666666666666)
    """
    hits = len(set(selected) & set(truth))
    return (hits / len(selected) if selected else None), hits / len(truth)


def guessing(target: Target) -> dict[str, float]:
    """What a model reaches that knows nothing: the most frequent class, or the mean."""
    if target.kind != "classes":
        return {"concordance": 0.5} if target.has_times else {"r2": 0.0}
    _, sizes = np.unique(target.codes, return_counts=True)
    return {
        "accuracy": float(sizes.max() / sizes.sum()),
        "balanced_accuracy": 1 / len(sizes),
        "auc": 0.5,
    }


# Models


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


def filled(X: Floats) -> Floats:
    """Columns with mean 0 and spread 1; missing values are the mean."""
    known = np.isfinite(X)
    counts = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, X - np.where(known, X, 0.0).sum(axis=0) / counts, 0.0)
    spread = centred.std(axis=0)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


class Judge:
    """Trains models on selections of one split and scores them on its test rows.

    Of survival times they learn the martingale residuals of the training rows, and how they order
    the test rows is compared with the times (Harrell's concordance index).

    Parameters
    ----------
    pooled : PooledData
        All rows; a joint model is trained in the clear, for evaluation only.
    train, test : ndarray of int
        Rows.
    labels : ndarray of shape (n_train,)
        Labels to train with, which may be shuffled; test rows keep their true ones.
    models : list of str
    seed : int
    """

    def __init__(
        self, pooled: PooledData, train, test, labels, models: list[str], seed: int
    ) -> None:
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
        X, found = self._pooled.X[:, columns], {}
        for name in self.models:
            predicted, shares = self.predict(name, X[self._train], self._labels, X[self._test])
            found[name] = self.of_test(predicted, shares)
        return found

    def of_test(self, predicted, shares=None) -> dict[str, float]:
        """Scores of predictions for all test rows."""
        target = self._pooled.target
        found = self.score(self._pooled.y[self._test], predicted, shares)
        assert target is not None  # noqa: S101 - nothing is judged without labels
        if target.has_times:
            rows = self._test
            value = concordance_index(target.event[rows], target.time[rows], predicted)
            if not np.isnan(value):
                found["concordance"] = value
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


# Controls


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
            found[model] = self._judge.of_test(predicted, shares)
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
            found[model] = self._judge.of_test(predicted, beliefs)
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
