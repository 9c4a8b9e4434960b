# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``Chain``: several selectors one after the other, each on what the one before has left."""

from __future__ import annotations

import numbers
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sklearn.base import clone

from fedsift.config.parameters import (
    COMMON,
    Parameter,
    accept_any,
    accept_share,
    check_parameters,
    with_parameters,
)
from fedsift.config.steps import PREDICT, TRAIN, step_seed
from fedsift.data import Federation
from fedsift.data.partition import check_seed
from fedsift.data.state_files import fingerprint
from fedsift.engine.observer import as_observer
from fedsift.errors import ParameterError
from fedsift.jobs.chain_files import StepFiles, forget_places, step_place
from fedsift.jobs.chain_steps import (
    PREDICTIONS,
    StepsRun,
    find_staying,
    limit_features,
    plan_prediction,
    plan_steps,
    split_rows,
    tag_result,
    write_predictions,
)
from fedsift.methods.execution import policies_for, refuse_checkpoints
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.methods.registry import method_of
from fedsift.protocol.policy import check_budget_of_steps
from fedsift.result import SelectionResult, Traffic

_MODEL = "model"
PARAMETERS = {
    "steps": Parameter("Run in this order.", accept_any("list of selectors")),
    "held_out": Parameter(
        "Share of the rows that no step sees and that the model of the last one predicts.",
        accept_share(below=True),
        optional=True,
        action="Give 0.2, for example.",
    ),
    "checkpoint": COMMON["checkpoint"].but(
        "Directory for finished steps and for the state of the current one. If it holds an "
        "interrupted run of the same chain, ``fit`` continues there.",
    ),
    "policy": COMMON["policy"].but("Of all steps."),
    "random_state": COMMON["random_state"].but(
        "Seeds the steps that have no seed of their own, and the rows that are held out.",
        accepts=accept_any("int"),
    ),
}


class Chain(StepsRun):
    """Run selectors one after the other; one plan, one ledger and one result for all of them.

    A step sees the features that the step before it selected, and the parties that own any. The
    label holder always stays. A ``FedSDGSelector`` with ``gates="none"`` and no number of features
    as the last step trains a model on what is left.

    Attributes
    ----------
    selectors_ : list of selectors
        Fitted; those of an earlier run that was continued are left out.
    federation_ : Federation
        What is left.
    predictions_ : ndarray
        Of the rows held out, in the order of ``predicted_rows_``.
    predicted_rows_ : ndarray of int
    model_ : FedSDGSelector
        What a training at the end left.
    result_ : SelectionResult
        Of the last selection, with the cost and the ledger of all steps and ``steps``.

    Examples
    --------
    >>> import fedsift as fs
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> first = fs.FilterSelector("gini", n_features_to_select=6, security="plain")
    >>> then = fs.InteractionSelector(n_features_to_select=3, security="plain")
    >>> federation = fs.split_vertical(X, y, parties=2, random_state=0)
    >>> chain = fs.Chain([first, then], random_state=0).fit(federation)
    >>> chain.result_.n_selected, [step.n_selected for step in chain.result_.steps]
    (3, [6, 3])
    """

    result_: Any
    _place: Any

    def __init__(self, steps, *, held_out=None, checkpoint=None, policy=None, random_state=None):
        self.steps = steps
        self.held_out = held_out
        self.checkpoint = checkpoint
        self.policy = policy
        self.random_state = random_state

    if __doc__:
        __doc__ = with_parameters(__doc__, PARAMETERS)

    def __repr__(self):
        return f"Chain({', '.join(type(step).__name__ for step in self.steps)})"

    def fit(self, federation):
        """Run all steps on a :class:`~fedsift.Federation`."""
        return self.run(federation)

    def plan(self, federation):
        """Check settings and policies of all steps and list who would learn what.

        Nothing is sent. Steps are planned as if everybody stayed, and as if a single party did
        besides the label holder; a policy that forbids the latter is only remarked on. Each step is
        checked again when it begins.
        """
        self._check(federation)
        learning, _ = self._rows(federation)

        def plan(number, left):
            selector = self._selector(min(number, len(self.steps)), left)
            if number <= len(self.steps):
                return selector.plan(left)
            policies = policies_for(selector.policy, left.parties)
            return plan_prediction(selector, left, policies, left.parties)

        def alone(number):
            if learning.setting == "horizontal":
                return {}
            names = {party: table.feature_names for party, table in learning.tables.items()}
            pairs = {party: {party, learning.label_holder} & set(names) for party in names}
            return {
                party: partial(plan, number, keep_selected(learning, {p: names[p] for p in pair}))
                for party, pair in pairs.items()
            }

        return plan_steps(
            self._names(), learning.label_holder, lambda number: [plan(number, learning)], alone
        )

    def run(self, federation, *, timeout_seconds=None, observer=None):
        """As :meth:`fit`, with a time limit per request and an observer of the progress."""
        with warnings.catch_warnings():
            # The run itself warns too.
            warnings.simplefilter("ignore", UserWarning)
            self.plan(federation)
        self._observer = as_observer(observer)
        self._options = {"timeout_seconds": timeout_seconds, "observer": self._observer}
        self.selectors_ = []
        self.federation_, self._apart = self._rows(federation)
        self._place = None if self.checkpoint is None else Path(self.checkpoint)
        self._files = self._step_files(federation)
        self._start = SelectionResult(
            "start",
            federation.setting,
            {},
            disclosures=federation.disclosures,
            traffic=Traffic(lines=federation.messages),
        )
        parties = [party for party in federation.parties if party in federation.tables]
        result = self._run_steps(self._names(), parties, self.random_state)
        self.result_ = result
        del self._apart, self._observer, self._options  # a chain keeps what is left, and no more
        return self

    def transform(self, federation):
        """Keep the selected features of every table of a federation."""
        return keep_selected(federation, self.result_.selected)

    def predict(self, federation):
        """Predict with the model of the last step, by the secure protocol."""
        return self.selectors_[-1].predict(keep_selected(federation, self.result_.selected))

    def files(self):
        """What the label holder keeps for itself: name and text of its predictions."""
        if not hasattr(self, "predictions_"):
            return {}
        sure = self.probabilities_
        text = write_predictions(
            self.predicted_rows_.tolist(),
            self.predictions_.tolist(),
            None if sure is None else sure.tolist(),
            by_id=False,
        )
        return {PREDICTIONS: text}

    # One step

    def _begin(self):
        done = max(self._files.found().steps, default=0)
        if done:
            kept = self._files.load(done)
            with self._files.reading(done):
                for text in kept["results"]:
                    self._results.append(msgspec.json.decode(text, type=SelectionResult))
                    self._keep_survivors(self._results[-1])
        return done

    def _step(self, number):
        selector = self._selector(number, self.federation_)
        if self._place is not None:
            selector.set_params(checkpoint=step_place(self._place, number))
        result = selector._run_unsigned(self.federation_, **self._options).result_
        self.selectors_.append(selector)
        self._results.append(tag_result(result, number, self._names()[number - 1]))
        self.interrupted_ = getattr(selector, "interrupted_", False)
        self._keep_survivors(self._results[-1])
        if self._results[-1].method == TRAIN:
            self.model_ = selector

    def _keep_survivors(self, result):
        """Take away what a selection has not selected."""
        if result.method == TRAIN:
            return
        self.federation_ = keep_selected(self.federation_, result.selected)
        if self._apart is not None:
            self._apart = keep_selected(self._apart, result.selected)

    def _selector(self, number, left):
        """A step's own selector, with seed, policies and number of features as they must be."""
        selector = clone(self.steps[number - 1])
        known = selector.get_params(deep=False)
        changes = {} if number == 1 else limit_features(known, left.n_features)
        if known["random_state"] is None:
            changes["random_state"] = step_seed(self.random_state, number)
        if self.policy is not None:
            policy = self.policy
            if isinstance(policy, dict) and set(policy) <= self._everybody:
                policy = {party: own for party, own in policy.items() if party in left.parties}
            changes["policy"] = policy or None
        return selector.set_params(**changes)

    @staticmethod
    def _name(selector):
        """As in job files; without gates and without a number nothing is selected."""
        training = isinstance(selector, FedSDGSelector) and selector.gates == "none"
        if training and selector.n_features_to_select == "auto":
            return TRAIN
        method = method_of(selector)
        return type(selector).__name__ if method is None else method.name

    def _names(self):
        """Of all steps."""
        return [*map(self._name, self.steps), *([] if self.held_out is None else [PREDICT])]

    # Rows held out

    def _rows(self, federation):
        """The federation that all steps see, and the rows that they do not."""
        bare = replace(federation, disclosures=(), messages=())
        if self.held_out is None:
            return bare, None
        learning, apart = split_rows(federation.n_rows, self.held_out, self.random_state)
        self.predicted_rows_ = apart
        return _taken(bare, learning), _taken(bare, apart)

    def _predict(self, number):
        if not self.selectors_:
            self.selectors_.append(FedSDGSelector.load(self._place / _MODEL, policy=self.policy))
        model, apart = self.selectors_[-1], self._apart
        values = model._predicted(apart)
        labels = getattr(model, "classes_", None)
        chosen = values[:, 0] if labels is None else labels[values.argmax(axis=1)]
        self.predictions_ = np.asarray(chosen)
        self.probabilities_ = None if labels is None else values.max(axis=1)
        predicted = chosen.tolist() if labels is None else [str(one) for one in chosen]
        asked = {"rows": "held-out", "share": float(self.held_out)}
        self._add_prediction(number, asked, predicted, apart.target, **model._latest)

    # Finished steps

    def _step_files(self, federation):
        names = [self._name(step) for step in self.steps]
        settings = [sorted((k, repr(v)) for k, v in s.get_params().items()) for s in self.steps]
        job = repr((names, settings, self.held_out, self.random_state))
        held = [federation.target, *federation.targets.values()]
        data = fingerprint(*federation.tables.values(), *held)
        return StepFiles(self._place, federation.parties[0], job, data)

    def _save(self, number):
        if self._place is not None and self._results[-1].method == TRAIN:
            self.selectors_[-1].save(self._place / _MODEL)
        self._files.save("chain", number, {"results": [one.to_json() for one in self._results]})

    def _forget(self):
        self._files.clear()
        if self._place is not None:
            shutil.rmtree(self._place / _MODEL, ignore_errors=True)
            forget_places(self._place, len(self.steps))

    def _check(self, federation):
        if not isinstance(federation, Federation):
            raise ParameterError(
                f"A chain was given a {type(federation).__name__}.",
                "A Federation is needed.",
                "Use Federation.vertical, Federation.horizontal or split_vertical.",
            )
        check_parameters(PARAMETERS, vars(self))
        if not self.steps:
            raise ParameterError("The chain has no steps.", "One at least is needed.", "Add one.")
        if isinstance(self.random_state, numbers.Integral):
            check_seed(int(self.random_state))
        settings = [one.get_params(deep=False) for one in self.steps]
        refuse_checkpoints(settings, self.checkpoint)
        check_budget_of_steps(policies_for(self.policy, federation.parties), settings)
        self._everybody = {*federation.parties}
        last = self._name(self.steps[-1])
        if any(self._name(step) == TRAIN for step in self.steps[:-1]):
            raise ParameterError(
                "A training is not the last step.",
                "It selects nothing, so nothing can follow it but a prediction.",
                "Move it to the end.",
            )
        if self.held_out is not None and last != TRAIN:
            raise ParameterError(
                "Rows are held out, and no model is trained that could predict them.",
                "The last step must be a FedSDGSelector with gates='none'.",
                "Add one, or leave held_out away.",
            )


def _taken(federation, rows):
    """The same federation with some of its rows."""
    target = federation.target
    return replace(
        federation,
        tables={party: table.take(rows) for party, table in federation.tables.items()},
        target=None if target is None else target.take(rows),
        row_order={party: own[rows] for party, own in federation.row_order.items()},
    )


def keep_selected(federation: Federation, selected: Mapping[str, Sequence[str]]) -> Federation:
    """What is left of a federation: selected features, and parties that own any."""
    tables = {
        party: table.select(list(selected[party]))
        for party, table in federation.tables.items()
        if selected.get(party)
    }
    coordinator = federation.label_holder or ""
    return replace(
        federation,
        tables=tables,
        parties=find_staying(federation.setting, coordinator, federation.parties, selected),
        row_order={p: own for p, own in federation.row_order.items() if p in tables},
        column_order={},
    )
