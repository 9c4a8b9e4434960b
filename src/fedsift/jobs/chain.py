# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``Chain``: several selectors one after the other, each on what the one before has left."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from sklearn.base import clone

from fedsift.config.steps import PREDICT, TRAIN, step_seed
from fedsift.data import Federation
from fedsift.data.fingerprint import fingerprint
from fedsift.engine.observer import as_observer
from fedsift.errors import FedsiftError, ParameterError, PolicyViolation
from fedsift.jobs.chain_files import StepFiles, forget_places, step_place
from fedsift.jobs.chain_results import (
    PREDICTIONS,
    at_most,
    predictions_text,
    rows_apart,
    score_of,
    staying,
    summed,
    tagged,
)
from fedsift.methods.base import FederatedSelector
from fedsift.methods.execution import Plan, policies_for
from fedsift.methods.fedsdg.messages import messages_to_predict
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.methods.fedsdg.settings import params_for
from fedsift.methods.registry import method_of
from fedsift.methods.release import refuse_checkpoints
from fedsift.protocol.policy import PlannedDisclosure, check_before
from fedsift.protocol.protocol import placement_of
from fedsift.result import SelectionResult

_MODEL = "model"


class Chain:
    """Run selectors one after the other; one plan, one ledger and one result for all of them.

    A step sees the features that the step before it selected, and the parties that own any. The
    label holder always stays. A ``FedSDGSelector`` with ``gates="none"`` and no number of features
    as the last step trains a model on what is left.

    Parameters
    ----------
    steps : list of selectors
    held_out : float, optional
        Share of the rows that no step sees and that the model of the last one predicts.
    checkpoint : path, optional
        Directory for finished steps and for the state of the current one. If it holds an
        interrupted run of the same chain, ``fit`` continues there.
    policy : Policy, dict of party to Policy, or None
        Of all steps.
    random_state : int or None
        Seeds the steps that have no seed of their own, and the rows that are held out.

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

    def __init__(self, steps, *, held_out=None, checkpoint=None, policy=None, random_state=None):
        self.steps = steps
        self.held_out = held_out
        self.checkpoint = checkpoint
        self.policy = policy
        self.random_state = random_state

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
        rows: list[PlannedDisclosure] = []
        notes: list[str] = []
        bits: list[int] = []
        for number in range(1, len(self.steps) + 1):
            planning = self._selector(number, learning)
            name = self._name(planning)
            plan = planning.plan(learning)
            rows += (replace(row, step=number) for row in plan.disclosures)
            notes += (f"Step {number} ({name}): {note}" for note in plan.notes)
            bits.append(plan.security_bits)
            if number > 1:
                more, remarks = self._with_few(number, learning)
                rows += (replace(row, step=number) for row in more)
                notes += (f"Step {number} ({name}): {remark}" for remark in remarks)
        names = [self._name(step) for step in self.steps]
        if self.held_out is not None:
            rows += (replace(row, step=len(names) + 1) for row in self._planned(learning))
            names.append(PREDICT)
        together = tuple(dict.fromkeys(rows))
        return Plan(" > ".join(names), together, tuple(dict.fromkeys(notes)), min(bits))

    def _with_few(self, number, federation):
        """What a step discloses if a single party is left besides the label holder."""
        rows, remarks, holder = [], [], federation.label_holder
        for party in federation.tables if federation.setting == "vertical" else ():
            kept = {p: federation.tables[p].feature_names for p in (holder, party)
                    if p in federation.tables}  # fmt: skip
            few = survivors(federation, kept)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    rows += self._selector(number, few).plan(few).disclosures
            except PolicyViolation as error:
                remarks.append(f"If {party!r} alone is left besides {holder!r}: {error.found}")
            except FedsiftError:
                continue  # the method needs more parties, and will say so
        return rows, remarks

    def run(self, federation, *, timeout_seconds=None, observer=None):
        """As :meth:`fit`, with a time limit per request and an observer of the progress."""
        with warnings.catch_warnings():
            # The run itself warns too.
            warnings.simplefilter("ignore", UserWarning)
            self.plan(federation)
        self.interrupted_ = False
        self.selectors_: list[FederatedSelector] = []
        self._results: list[SelectionResult] = []
        files, place = self._files(federation)
        left, apart = self._rows(federation)
        done = max(files.found().steps, default=0)
        if done:
            left, apart = self._take_over(files.load(done), left, apart)
        for number in range(done + 1, len(self.steps) + 1):
            options = {"timeout_seconds": timeout_seconds, "observer": as_observer(observer)}
            try:
                left, apart = self._step(number, left, apart, place, options)
            except KeyboardInterrupt:
                if not self._results:
                    raise
                self.interrupted_ = True
            if self.interrupted_:
                break
            self._save(files, number, place)
        if self.held_out is not None and not self.interrupted_:
            self._predict(apart, place)
        self._finish(federation, left, files, place)
        return self

    def transform(self, federation):
        """Keep the selected features of every table of a federation."""
        return survivors(federation, self.result_.selected)

    def predict(self, federation):
        """Predict with the model of the last step, by the secure protocol."""
        return self.selectors_[-1].predict(survivors(federation, self.result_.selected))

    def files(self):
        """What the label holder keeps for itself: name and text of its predictions."""
        if not hasattr(self, "predictions_"):
            return {}
        sure = self.probabilities_
        text = predictions_text(
            self.predicted_rows_.tolist(),
            self.predictions_.tolist(),
            None if sure is None else sure.tolist(),
            by_id=False,
        )
        return {PREDICTIONS: text}

    # One step

    def _step(self, number, left, apart, place, options):
        selector = self._selector(number, left)
        if place is not None:
            selector.set_params(checkpoint=step_place(place, number))
        n_steps = len(self.steps) + (self.held_out is not None)
        options["observer"].begin(number, n_steps, self._name(selector))
        result = selector.run(left, **options).result_
        self.selectors_.append(selector)
        self._results.append(tagged(result, number, self._name(selector)))
        self.interrupted_ = getattr(selector, "interrupted_", False)
        if self._results[-1].method == TRAIN:
            self.model_ = selector
            return left, apart
        kept = None if apart is None else survivors(apart, result.selected)
        return survivors(left, result.selected), kept

    def _selector(self, number, left):
        """A step's own selector, with seed, policies and number of features as they must be."""
        selector = clone(self.steps[number - 1])
        known = selector.get_params(deep=False)
        changes = {} if number == 1 else at_most(known, left.n_features)
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

    # Rows held out

    def _rows(self, federation):
        """The federation that all steps see, and the rows that they do not."""
        bare = replace(federation, disclosures=())
        if self.held_out is None:
            return bare, None
        learning, apart = rows_apart(federation.n_rows, self.held_out, self.random_state)
        self.predicted_rows_ = apart
        return _taken(bare, learning), _taken(bare, apart)

    def _planned(self, federation):
        """Who learns what when rows are predicted."""
        from fedsift.methods.fedsdg import predictor as fedsdg_predict
        from fedsift.methods.fedsdg.feature_holder import FeatureHolder
        from fedsift.protocol import RemoteRole

        selector = self._selector(len(self.steps), federation)
        params = params_for(selector, federation)
        holders = [party for party in federation.tables if party != federation.label_holder]
        nodes = {federation.label_holder: (RemoteRole(fedsdg_predict.Predictor),)}
        nodes |= {party: (RemoteRole(FeatureHolder),) for party in holders}
        placement, used = placement_of(nodes), messages_to_predict(len(holders))
        protocol = fedsdg_predict.PROTOCOL
        bits = 0 if params.scheme == "plain" else params.security_bits
        policies = policies_for(selector.policy, federation.parties)
        sends = protocol.sends(used, placement)
        check_before(protocol.name, policies, sends, security_bits=bits)
        return protocol.planned(used, placement)

    def _predict(self, apart, place):
        if self.selectors_:
            model = self.selectors_[-1]
        else:
            model = FedSDGSelector.load(place / _MODEL, policy=self.policy)
            self.selectors_.append(model)
        before = self._results[-1]
        values = model._predicted(apart)
        labels = getattr(model, "classes_", None)
        chosen = values[:, 0] if labels is None else labels[values.argmax(axis=1)]
        self.predictions_ = np.asarray(chosen)
        self.probabilities_ = None if labels is None else values.max(axis=1)
        predicted = chosen.tolist() if labels is None else [str(one) for one in chosen]
        score = score_of(predicted, apart.target)
        asked = {"rows": "held-out", "share": float(self.held_out), "n_rows": apart.n_rows}
        result = msgspec.structs.replace(
            before,
            scores={},
            ranking={},
            history=(),
            parameters=asked if score is None else asked | {"score": score},
            **model._latest,
            warnings=(),
        )
        self._results.append(tagged(result, len(self.steps) + 1, PREDICT))

    # Finished steps

    def _files(self, federation):
        place = None if self.checkpoint is None else Path(self.checkpoint)
        names = [self._name(step) for step in self.steps]
        settings = [sorted((k, repr(v)) for k, v in s.get_params().items()) for s in self.steps]
        job = repr((names, settings, self.held_out, self.random_state))
        held = [federation.target, *federation.targets.values()]
        data = fingerprint(*federation.tables.values(), *held)
        return StepFiles(place, federation.parties[0], job, data), place

    def _save(self, files, number, place):
        if place is not None and self._results[-1].method == TRAIN:
            self.selectors_[-1].save(place / _MODEL)
        files.save("chain", number, {"results": [one.to_json() for one in self._results]})

    def _take_over(self, state, left, apart):
        texts = state["results"]
        self._results = [msgspec.json.decode(text, type=SelectionResult) for text in texts]
        for step in self._results:
            if step.method != TRAIN:
                left = survivors(left, step.selected)
                apart = None if apart is None else survivors(apart, step.selected)
        return left, apart

    def _finish(self, federation, left, files, place):
        if not self.interrupted_:
            files.clear()
            if place is not None:
                shutil.rmtree(place / _MODEL, ignore_errors=True)
                forget_places(place, len(self.steps))
        n_steps = len(self.steps) + (self.held_out is not None)
        remarks = []
        if self.interrupted_:
            remarks.append(f"Interrupted: {len(self._results)} of {n_steps} steps are finished.")
        start = SelectionResult("start", federation.setting, {}, disclosures=federation.disclosures)
        parties = [p for p in federation.parties if p in federation.tables]
        self.federation_ = left
        self.result_ = summed(
            start, self._results, parties=parties, seed=self.random_state, remarks=remarks
        )

    def _check(self, federation):
        if not isinstance(federation, Federation):
            raise ParameterError(
                f"A chain was given a {type(federation).__name__}.",
                "A Federation is needed.",
                "Use Federation.vertical, Federation.horizontal or split_vertical.",
            )
        if not self.steps:
            raise ParameterError("The chain has no steps.", "One at least is needed.", "Add one.")
        refuse_checkpoints((one.get_params(deep=False) for one in self.steps), self.checkpoint)
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


def survivors(federation: Federation, selected: Mapping[str, Sequence[str]]) -> Federation:
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
        parties=staying(federation.setting, coordinator, federation.parties, selected),
        row_order={p: own for p, own in federation.row_order.items() if p in tables},
        column_order={},
    )
