# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What all selectors share: scikit-learn's contract on one side, a federation on the other."""

from __future__ import annotations

import inspect
import numbers
import os
import warnings
from abc import abstractmethod
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsift.config.parameters import COMMON, Parameter, check_parameters, with_parameters
from fedsift.data import Federation, split_horizontal, split_vertical
from fedsift.data.partition import check_seed
from fedsift.data.sources import pairs_in
from fedsift.engine import LOCAL_ENGINE
from fedsift.engine.observer import as_observer
from fedsift.errors import ParameterError, PartyError
from fedsift.methods.checks import (
    ResultNeeds,
    SetupNeeds,
    check_target,
    class_minimum,
    targets_here,
)
from fedsift.methods.execution import (
    PreparedRun,
    execute,
    facts_of,
    make_plan,
    policies_for,
    rows_of,
)
from fedsift.protocol.commitments import sign_here
from fedsift.protocol.resume import forget_finished
from fedsift.result import SelectionResult

DEFAULT_N_FEATURES = 10
SECURITY_BITS = 128
"""Of every encryption and mask that methods use."""
_DIFFERENT = {"vertical": "columns of the same rows", "horizontal": "rows of the same columns"}


def params_of(kind, given, **found):
    """Settings of a run: parameters that have the same names, and what else was found."""
    named = {one.name: given[one.name] for one in fields(kind) if one.name in given}
    return kind(**named | found)


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
            if not any(self.result_.selected.values()):
                warnings.warn("No features were selected.", UserWarning, stacklevel=2)
            return _select_tables(X, self.result_.selected)
        return super().transform(X)

    def to_pipeline(self, party=None):
        """Return a scikit-learn pipeline that keeps the selected columns of a table.

        It needs neither fedsift's protocols nor the other parties afterwards, and can be put in
        front of any estimator.

        Parameters
        ----------
        party : str, optional
            Whose columns; by default those of all parties, as ``fit`` saw them in one table.

        Returns
        -------
        pipeline : Pipeline
            A ``ColumnTransformer`` that passes columns through: by name if names are known,
            otherwise by position.
        """
        check_is_fitted(self)
        if party is None:
            chosen = self.get_support(indices=True)
            names = getattr(self, "feature_names_in_", None)
            columns = chosen.tolist() if names is None else names[chosen].tolist()
        elif party in self.result_.selected:
            columns = list(self.result_.selected[party])
        else:
            raise ParameterError(
                f"{party!r} owns no columns of this result.",
                f"Parties with columns: {', '.join(self.result_.selected)}.",
                "Name one of them, or none for the columns of all.",
            )
        keep = ColumnTransformer(
            [("selected", "passthrough", columns)], verbose_feature_names_out=False
        )
        return Pipeline([("select", keep)])

    def _get_support_mask(self):
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allow_nan
        tags.input_tags.sparse = False
        tags.target_tags.required = self._wanted().labels
        return tags

    def _federate(self, X, y, *, horizontal=False, needs_y=True, fewest=None, task="auto"):
        """Use a federation as it is, or split arrays into a simulated one.

        With ``fewest`` rows of a party, few rows are split among fewer parties.
        """
        if isinstance(X, Federation):
            self._adopt_federation(X)
            return X
        X, y = self._check_arrays(X, y, needs_y=needs_y)
        seed, parties = self._seed(), self.parties
        counted = isinstance(parties, numbers.Integral)
        if horizontal:
            if fewest is not None and counted:
                parties = max(2, min(int(parties), len(X) // fewest))
            if fewest is not None and seed is None:
                seed = 0  # rows are dealt out at random, as parties would hold them
            return split_horizontal(X, y, parties, random_state=seed, task=task)
        if counted:
            # More parties than columns cannot each own one; a small table still deserves an answer.
            parties = min(int(parties), X.shape[1])
        return split_vertical(X, y, parties, random_state=seed)

    def _check_arrays(self, X, y, *, needs_y, reset=True):
        """scikit-learn's checks; frames with categories keep their columns as they are.

        Survival labels have two parts, which scikit-learn does not know, and come as they are.
        """
        pairs = pairs_in(y, "label")
        if pairs is not None:
            X, _ = self._check_arrays(X, np.zeros(len(pairs)), needs_y=True, reset=reset)
            return X, pairs
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

    def _splits_rows(self):
        """An array of row owners in ``parties`` asks for a horizontal simulation."""
        parties = self.parties
        if isinstance(parties, numbers.Integral):
            return False
        return len(parties) > 0 and not hasattr(parties[0], "__len__")

    def _adopt_federation(self, federation):
        """Names and number of features, in the order of the table that was split if one was."""
        pairs = federation.feature_names
        names = [name for _, name in pairs]
        if len(set(names)) != len(names):
            names = [f"{party}.{name}" for party, name in pairs]
        self.feature_names_in_ = np.array(names, dtype=object)
        if federation.setting == "vertical":
            places = [
                place for party in federation.tables for place in federation.column_order[party]
            ]
            self.feature_names_in_[places] = names
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
            return None if self.random_state is None else check_seed(int(self.random_state))
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


def number_or_auto(wanted: Any, n_features: int) -> int | None:
    """As :func:`number_to_select`; None for ``"auto"``, where the method decides."""
    if isinstance(wanted, str) and wanted == "auto":
        return None
    return number_to_select(wanted, n_features)


def scores_in_order(federation, by_party):
    """Per-feature values of all parties in the original column order; NaN where there is none."""
    values = np.full(federation.n_features, np.nan)
    if federation.setting == "horizontal":
        first = next(iter(federation.tables.values()))
        common: Any = next(iter(by_party.values()), {})
        return np.array([common.get(name, np.nan) for name in first.feature_names])
    for party, table in federation.tables.items():
        own = by_party.get(party, {})
        for name, position in zip(table.feature_names, federation.column_order[party], strict=True):
            values[position] = own.get(name, np.nan)
    return values


def _select_tables(federation, selected):
    """The same federation with only the selected columns; parties may be left without any."""
    tables = {
        party: table.select(list(selected[party]))
        for party, table in federation.tables.items()
        if selected.get(party)
    }
    kept = {
        party: [
            place
            for name, place in zip(
                federation.tables[party].feature_names, federation.column_order[party], strict=True
            )
            if name in set(selected[party])
        ]
        for party in tables
    }
    # Places count from zero again: the selected columns are a table of their own.
    places = sorted({place for own in kept.values() for place in own})
    order = {party: tuple(places.index(place) for place in own) for party, own in kept.items()}
    return replace(federation, tables=tables, column_order=order)


def _has_categories(X):
    """Whether X is a frame with columns that are not numbers."""
    if not hasattr(X, "iloc") or not hasattr(X, "dtypes"):
        return False
    kinds = {getattr(dtype, "kind", "O") for dtype in X.dtypes}
    return not kinds <= set("biuf")


class MethodSelector(FederatedSelector):
    """A selector that runs one method.

    Subclasses say how a run is prepared (``_prepare``) and what is kept of it (``keep_result``).
    A job between organisations calls the same methods as :meth:`run`, with messages before and
    after.
    """

    result_: SelectionResult
    _method: ClassVar[Any] = None
    _declared: ClassVar[dict[str, Parameter]] = {}

    def __init_subclass__(cls, *, method=None, **options):
        """Take the declarations of a method's parameters, and write them into the docstring."""
        super().__init_subclass__(**options)
        if method is not None:
            known = COMMON | dict(method.parameters)
            cls._method = method
            taken = inspect.signature(cls).parameters
            cls._declared = {name: known[name] for name in taken if name in known}
            if cls.__doc__:
                cls.__doc__ = with_parameters(cls.__doc__, cls._declared)

    def fit(self, X, y=None):
        """Run the method.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or Federation
        y : array-like of shape (n_samples,), optional
            Classes, numbers, or survival times (a structured array of event and time), if the
            method needs a label; a federation brings its own.

        Returns
        -------
        self : object
        """
        return self.run(X, y)

    def plan(self, X, y=None):
        """Check settings and policies and list who would learn what; nothing is sent."""
        return make_plan(self.prepare(X, y, simulated=True))

    def run(self, X, y=None, *, timeout_seconds=None, observer=None, engine=LOCAL_ENGINE):
        """As :meth:`fit`, with a time limit per request and an observer of the progress.

        Parameters
        ----------
        timeout_seconds : float, optional
            Limit of every single request to a party.
        observer : Observer or callable, optional
            Follows the run; a callable is called with a :class:`~fedsift.engine.Progress` after
            every message.
        engine : Engine
            Runs all parties, which are in this process.
        """
        options = {"timeout_seconds": timeout_seconds, "observer": observer, "engine": engine}
        self._run_unsigned(X, y, **options)
        self.result_ = sign_here(self.result_)
        return self

    def _run_unsigned(self, X, y=None, *, timeout_seconds=None, observer=None, engine=LOCAL_ENGINE):
        """As :meth:`run`, for a step of a chain, which signs its ledger as a whole."""
        prepared = self.prepare(X, y, simulated=True, observer=observer)
        outcome = execute(prepared, timeout_seconds=timeout_seconds, engine=engine)
        forget_finished(prepared.nodes)
        self.keep_result(prepared, outcome, facts_of(prepared.nodes))
        return self

    def prepare(self, X, y=None, *, simulated=False, observer=None):
        """Make a run ready; every check that needs no message.

        Parameters
        ----------
        simulated : bool
            Whether all parties belong to whoever runs it; otherwise a seed drives public draws
            only (:mod:`fedsift.privacy.draws`).
        observer : Observer or callable, optional

        Returns
        -------
        prepared : PreparedRun
        """
        prepared = self._prepare(X, y, simulated=simulated)
        if prepared.epsilon is None:  # noise hides single rows, and a refusal would tell of them
            self._check_labels(prepared, class_minimum(prepared.policies, prepared.federation))
        return replace(prepared, labels=y, observer=as_observer(observer))

    @abstractmethod
    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes, parameters and policies of a run."""

    def _check_labels(self, prepared, smallest):
        """Refuse labels that are here and that few rows share, before anything is sent."""
        for target in targets_here(prepared.federation):
            check_target(target, smallest)

    # What methods use to prepare a run and to keep its result

    def _checked(self):
        """All parameters as Python's own types; refuses what no data could make right."""
        return check_parameters(self._declared, self.get_params(deep=False))

    def _check_federation(self, federation):
        """Refuse a setting that the method does not work in, and a missing label."""
        if federation.setting not in self._method.protocols:
            (setting,) = self._method.protocols
            raise ParameterError(
                f"The federation is {federation.setting}.",
                f"{type(self).__name__} needs parties with different {_DIFFERENT[setting]}.",
                f"Use Federation.{setting}, or another method.",
            )
        neutral = self._method.neutral.get(federation.setting)
        if neutral in federation.parties:
            raise PartyError(
                f"A party is called {neutral!r}.",
                "That name belongs to the neutral party of this method.",
                "Rename the party.",
            )
        if federation.setting == "horizontal" and len(federation.tables) < 2:
            raise PartyError(
                "The federation has one party.",
                "Sums are masked between parties, so there must be at least two parties.",
                "Add a party.",
            )
        labelled = federation.target is not None and federation.label_holder is not None
        if federation.setting == "vertical" and self._wanted().labels and not labelled:
            raise ParameterError(
                "The federation has no label.",
                f"{type(self).__name__} compares columns with a label.",
                "Name the party and column of the label, as label=(party, column).",
            )

    def _scheme(self):
        """Encryption of a run."""
        if self.security == "plain":
            return "plain"
        he = getattr(self, "he", "auto")
        return "bgv" if he == "auto" else str(he)

    def _encryption_note(self, params, what):
        """For the plan."""
        if params.scheme == "plain":
            return f"Encryption is OFF (security='plain'): {what} travel in the clear."
        reason = "chosen because it is the faster of the two" if self.he == "auto" else "as asked"
        return f"Encryption: {params.scheme}, {params.security_bits}-bit security ({reason})."

    def _prepared(self, federation, params, protocol, nodes, used, **more):
        """A run with what is the same for every method."""
        known: dict[str, Any] = {
            "security_bits": 0 if self.security == "plain" else SECURITY_BITS,
            "policies": policies_for(self.policy, tuple(nodes)),
            "rows": rows_of(federation),
        }
        return PreparedRun(
            protocol=protocol,
            nodes=nodes,
            used=used,
            federation=federation,
            params=params,
            **known | more,
        )

    def _settings(self, params, *, without=(), **found):
        """What a result says of the parameters: what was asked for, and what it came to."""
        shown = {}
        for name, declared in self._declared.items():
            if declared.elsewhere or name in without:
                continue
            value = getattr(params, name, None)
            value = getattr(self, name) if value is None else value
            if value is not None:
                shown[name] = declared.convert(value)
        if "he" in shown:
            shown["he"] = params.scheme
        return shown | found

    def _keep_selection(self, federation, result):
        """The result, and what of it has the order of the original columns."""
        self.result_ = result
        self.support_ = federation.original_support(
            {party: list(names) for party, names in result.selected.items()}
        )
        self.p_values_ = scores_in_order(federation, result.p_values)
        self.q_values_ = scores_in_order(federation, result.q_values)
        if result.ranking:
            self.scores_ = scores_in_order(federation, result.scores)
            self.ranking_ = scores_in_order(federation, result.ranking).astype(int)

    @abstractmethod
    def keep_result(self, prepared, outcome, facts):
        """Set the fitted attributes.

        Parameters
        ----------
        prepared : PreparedRun
        outcome : Outcome
            What the driving role found.
        facts : list of (party, dict)
            What the roles of the parties know at the end, as far as it may be known here.
        """
