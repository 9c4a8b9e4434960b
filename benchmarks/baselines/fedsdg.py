# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What FedSDG-FS must beat: the same network on all features, or on features chosen beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsift.data import Federation, PartyTable
from fedsift.errors import MissingPackage, ParameterError
from fedsift.methods.base import FederatedSelector, number_to_select, scores_in_order
from fedsift.methods.fedsdg.model import need_torch
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.methods.filter.ranking import rank
from fedsift.methods.filter.selector import FilterSelector
from fedsift.protocol import Policy

PAPER = {
    "protocol": "paper",
    "policy": Policy(
        may_reveal=("basic", "scores", "training", "paper-training"),
        min_security_bits=0,
        min_bin_size=1,
    ),
}
"""The network of the paper, and leave to open numbers of single rows."""

BASELINES = ("all", "original-gate", "ms-gini", "sffs", "vflfs", "less-vfl", "random")
_FILTERS = {"ms-gini": "gini", "sffs": "f"}
_PEERS = ("lassonet",)
"""Centralised: all columns in one place, with a package that has to be installed."""

_LASSONET = {
    "hidden_dims": (64,),
    "n_iters": (100, 10),
    "batch_size": 256,
    "lambda_start": 1.0,
    "path_multiplier": 1.05,
    "verbose": 0,
}
"""A path fine enough that features leave it one after the other rather than in crowds."""

_CHOICES = (*_FILTERS, "vflfs", "less-vfl", "random", *_PEERS)


def fedsdg_baseline(kind, *, n_features_to_select=0.5, **settings):
    """An estimator to compare :class:`~fedsift.FedSDGSelector` with.

    Parameters
    ----------
    kind : {"all", "original-gate", "ms-gini", "sffs", "vflfs", "less-vfl", "random", "lassonet"}
        ``all``: the network on every feature, no gates. ``original-gate``: gates on features only,
        all starting alike. ``ms-gini``: the best features by Gini impurity after a cut at their
        mean, ``sffs``: by the F statistic, each computed on encrypted labels. ``vflfs``: those with
        the largest weights in a supervised split network with a group penalty on every party's
        first layer. ``less-vfl``: those that each party needs to rebuild, alone and with the same
        penalty, what a short common training found. ``random``: drawn by chance. ``lassonet``:
        those that stay longest in a LassoNet on pooled columns, if the package is installed.
    n_features_to_select : int or float
        Number or share of features; the first two ignore it.
    **settings
        Any setting of FedSDGSelector; the protocol of the paper unless told otherwise.

    Returns
    -------
    estimator : FedSDGSelector or PreselectedNetwork

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> quick = {"security": "plain", "max_epochs": 30, "random_state": 0}
    >>> filtered = fedsdg_baseline("ms-gini", n_features_to_select=6, **quick).fit(X, y)
    >>> int(filtered.support_.sum()), filtered.score(X, y) > 0.9
    (6, True)
    """
    if kind not in (*BASELINES, *_PEERS):
        known = ", ".join((*BASELINES, *_PEERS))
        raise ParameterError(f"kind={kind!r}.", f"One of {known} is needed.", "Choose one.")
    settings = PAPER | settings
    if kind == "all":
        return FedSDGSelector(**{**settings, "gates": "none"})
    if kind == "original-gate":
        return FedSDGSelector(**{**settings, "gates": "input", "init": "constant"})
    return PreselectedNetwork(
        kind,
        n_features_to_select=n_features_to_select,
        network=FedSDGSelector(**{**settings, "gates": "none"}),
    )


class PreselectedNetwork(FederatedSelector):
    """Choose a given number of features first, then train the network of FedSDG-FS on them.

    Parameters
    ----------
    kind : {"ms-gini", "sffs", "vflfs", "less-vfl", "random", "lassonet"}
        How features are chosen; see :func:`fedsdg_baseline`.
    n_features_to_select : int or float
    network : FedSDGSelector, optional
        Settings of the network, of the encryption and of the split into parties.

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
    scores_ : ndarray of shape (n_features,)
        Worth of each feature, higher is better.
    network_ : FedSDGSelector
        The network, fitted on the selected features without gates.
    filter_ : FilterSelector
        The protocol that chose, with its own ledger and traffic; ``ms-gini`` and ``sffs`` only.
    selection_bytes_ : int or None
        What parties exchanged to choose; None where all columns are in one place.
    result_ : SelectionResult
        Of the network's training.
    """

    def __init__(self, kind="ms-gini", *, n_features_to_select=0.5, network=None):
        self.kind = kind
        self.n_features_to_select = n_features_to_select
        self.network = network

    @property
    def random_state(self):
        """Of the network: one seed for everything."""
        return None if self.network is None else self.network.random_state

    @property
    def parties(self):
        """Of the network."""
        return 2 if self.network is None else self.network.parties

    def fit(self, X, y=None):
        """Choose features, then train on them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or Federation
        y : array-like of shape (n_samples,), optional
            Classes or numbers; the federation brings its own.

        Returns
        -------
        self : PreselectedNetwork
        """
        if self.kind not in _CHOICES:
            raise ParameterError(
                f"kind={self.kind!r}.", f"One of {', '.join(_CHOICES)} is needed.", "Choose one."
            )
        settings = FedSDGSelector(**PAPER) if self.network is None else self.network
        federation = self._federate(X, y)
        n_wanted = number_to_select(self.n_features_to_select, federation.n_features)
        scores = self._scores(federation, n_wanted, settings)
        ranking = rank(scores, "baseline", n_wanted)
        names = {party: table.feature_names for party, table in federation.tables.items()}
        self._selected = {
            party: [names[party][i] for i in sorted(chosen)]
            for party, chosen in ranking.selected.items()
            if len(chosen)
        }
        self._columns = {party: tuple(names[party]) for party in names}
        self._order = {party: tuple(federation.column_order[party]) for party in names}
        self._label_holder = federation.label_holder
        self.support_ = federation.original_support(self._selected)
        self.scores_ = scores_in_order(
            federation,
            {party: dict(zip(names[party], scores[party], strict=True)) for party in names},
        )
        self.n_features_to_select_ = n_wanted
        self.network_ = clone(settings).set_params(gates="none", n_features_to_select="auto")
        self.network_.fit(self._reduced(federation.tables, federation.target))
        self.result_ = self.network_.result_
        self._keep_classes(federation.target, y)
        return self

    def _scores(self, federation, n_wanted, settings):
        """Worth of the features by party, higher is better."""
        if self.kind in _FILTERS:
            return self._filter_scores(federation, n_wanted, settings)
        tables = federation.tables
        self.selection_bytes_ = None if self.kind in _PEERS else 0
        if self.kind in _PEERS:
            return _lassonet_scores(federation, self._seed() or 0)
        if self.kind == "random":
            rng = np.random.default_rng(self._seed())
            return {party: rng.random(table.n_columns) for party, table in tables.items()}
        found = _split_network(self.kind, federation, self._seed())
        self.selection_bytes_ = found.n_bytes
        return dict(zip(tables, found.norms, strict=True))

    def _filter_scores(self, federation, n_wanted, settings):
        self.filter_ = FilterSelector(
            _FILTERS[self.kind],
            n_features_to_select=n_wanted,
            he=settings.he,
            security=settings.security,
            policy=settings.policy,
            random_state=settings.random_state,
        ).fit(_cut_at_means(federation) if self.kind == "ms-gini" else federation)
        self.selection_bytes_ = self.filter_.result_.traffic.n_bytes
        sign = -1.0 if self.kind == "ms-gini" else 1.0  # an impurity: lower is better
        found = self.filter_.result_.scores
        return {
            party: np.array([sign * found[party][name] for name in table.feature_names])
            for party, table in federation.tables.items()
        }

    def predict(self, X):
        """Predict classes or numbers by the secure protocol."""
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            return self.network_.predict(self._new_rows(X))
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X):
        """Class probabilities by the secure protocol, in the order of ``classes_``."""
        check_is_fitted(self)
        chances = self.network_.predict_proba(self._new_rows(X))
        return chances[:, self._class_order]

    def score(self, X, y=None):
        """Accuracy, or R2 for a numeric target; a federation brings its own labels."""
        check_is_fitted(self)
        if isinstance(X, Federation) and y is None:
            return self.network_.score(self._reduced(X.tables, X.target))
        predicted = self.predict(X)
        if hasattr(self, "classes_"):
            return accuracy_score(np.asarray(y).astype(str), predicted.astype(str))
        return r2_score(y, predicted)

    def _reduced(self, tables, target):
        """The federation of the selected columns; parties without any are not in it."""
        kept = {party: tables[party].select(names) for party, names in self._selected.items()}
        return Federation(
            setting="vertical",
            tables=kept,
            parties=tuple(dict.fromkeys((*kept, self._label_holder))),
            label_holder=self._label_holder,
            target=target,
        )

    def _new_rows(self, X):
        if isinstance(X, Federation):
            return self._reduced(X.tables, None)
        if hasattr(X, "iloc"):
            validate_data(self, X, skip_check_array=True, reset=False)
            tables = {
                party: PartyTable.from_any(
                    X.iloc[:, list(order)].set_axis(self._columns[party], axis=1), name=party
                )
                for party, order in self._order.items()
            }
        else:
            X = validate_data(self, X, dtype="numeric", ensure_all_finite="allow-nan", reset=False)
            tables = {
                party: PartyTable.from_any(
                    (X[:, list(order)], list(self._columns[party])), name=party
                )
                for party, order in self._order.items()
            }
        return self._reduced(tables, None)

    def _keep_classes(self, target, y):
        """Labels as the caller knows them, and the network's column of each."""
        self.__dict__.pop("classes_", None)
        if target.kind != "classes":
            return
        known = np.array(target.classes)
        if y is not None:
            first = [int(np.flatnonzero(target.codes == c)[0]) for c in range(target.n_classes)]
            known = np.asarray(y)[first]
        by_name = dict(zip(target.classes, known, strict=True))
        labels = np.array([by_name[str(name)] for name in self.network_.classes_])
        self._class_order = np.argsort(labels, kind="stable")
        self.classes_ = labels[self._class_order]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _cut_at_means(federation):
    """Every party cuts its own numbers at their mean; missing ones and categories stay."""
    tables = {}
    for party, table in federation.tables.items():
        columns = tuple(_cut(column) for column in table.columns)
        tables[party] = replace(table, columns=columns)
    return replace(federation, tables=tables)


def _cut(column):
    if column.kind != "numeric":
        return column
    above = (column.values > np.nanmean(column.values)).astype(np.float64)
    above[column.missing] = np.nan
    return replace(column, values=above)


def _encoded(table):
    """Inputs of a party's network, and the column of each."""
    from fedsift.methods.fedsdg.inputs import InputEncoder

    encoder = InputEncoder.fit(table, np.arange(table.n_rows))
    return encoder.transform(table), encoder.feature_of_input


def _wanted(target):
    return target.codes if target.kind == "classes" else np.asarray(target.values, np.float64)


def _split_network(kind, federation, seed):
    """Norms of features in a split network that all parties train, openly, in one process."""
    need_torch()
    from benchmarks.baselines.split_lasso import Part, less_vfl, vflfs
    from fedsift.methods.fedsdg.local_part import private_seeds

    parts = [
        Part(*_encoded(table), travels=party != federation.label_holder)
        for party, table in federation.tables.items()
    ]
    search = {"vflfs": vflfs, "less-vfl": less_vfl}[kind]
    return search(parts, _wanted(federation.target), seed=private_seeds(seed, kind, 1)[0])


def _lassonet_scores(federation, seed):
    """When features leave the path of a LassoNet that has all columns in one place."""
    try:
        import lassonet
    except ImportError as error:
        raise MissingPackage(
            "The package lassonet is not installed.",
            "kind='lassonet' trains with it.",
            "Install it with: pip install lassonet",
        ) from error

    target = federation.target
    kind = lassonet.LassoNetClassifier if target.kind == "classes" else lassonet.LassoNetRegressor
    model = kind(**_LASSONET, random_state=seed, torch_seed=seed)
    made = {party: _encoded(table) for party, table in federation.tables.items()}
    known = _wanted(target)
    if target.kind != "classes":
        known = known.astype(np.float32)
    model.path(np.concatenate([inputs for inputs, _ in made.values()], axis=1), known)
    left = np.asarray(model.feature_importances_.numpy(), dtype=np.float64)
    scores, first = {}, 0
    for party, (inputs, feature_of_input) in made.items():
        own = left[first : first + inputs.shape[1]]
        first += inputs.shape[1]
        # A category stays as long as the last of its inputs.
        scores[party] = np.full(int(feature_of_input.max()) + 1, -np.inf)
        np.maximum.at(scores[party], feature_of_input, own)
    return scores
