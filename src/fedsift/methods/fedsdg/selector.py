# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``FedSDGSelector``: features chosen by gates while a joint network trains, and that network."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedsift.engine.progress import EpochBar
from fedsift.errors import ParameterError
from fedsift.methods.base import scores_in_order
from fedsift.methods.checks import ResultNeeds, SetupNeeds, check_sizes, targets_here
from fedsift.methods.execution import (
    PreparedRun,
    build_result,
    refuse_too_much,
    rows_of,
)
from fedsift.methods.fedsdg import METHOD
from fedsift.methods.fedsdg import model_files as files
from fedsift.methods.fedsdg.frontier import State, reselected, states_here
from fedsift.methods.fedsdg.messages import messages_used
from fedsift.methods.fedsdg.model import JointModel, need_torch
from fedsift.methods.fedsdg.records import Meter, left_out, ranking_of
from fedsift.methods.fedsdg.settings import notes_on, params_for
from fedsift.protocol import RemoteRole

_OF_THE_PAPER = (
    *("model", "embedding", "label_noise", "refit", "lam_embedding", "gate_samples"),
    *("min_epochs", "patience", "learning_rate"),
)
"""Parameters that mean nothing in a blind training."""

_OF_BLIND = ("choose", "class_weight")
"""Parameters that mean nothing in the paper's training."""


class FedSDGSelector(JointModel, method=METHOD):
    """Select features by stochastic gates while parties train a network together.

    Every feature has a gate that the training opens or closes; a penalty closes those that do not
    help enough, so no number of features has to be known in advance. The network is computed on
    shares and encrypted numbers, and nothing of a single row is opened to anybody. For parties with
    different columns of the same rows.

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
    scores_ : ndarray of shape (n_features,)
        1 for selected features, which is all that their owners know. With ``paper``: the
        probability that each gate is open, or what leaving the feature out cost.
    history_ : list of dict
        One entry per epoch: open gates, losses, score, bytes so far.
    classes_ : ndarray
        Class labels; only for classification.
    interrupted_ : bool
        Whether Ctrl-C ended the training early.
    result_ : SelectionResult
        Selection, cost, and who learned what.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from fedsift.methods.fedsdg.selector import FedSDGSelector
    >>> X, y = load_wine(return_X_y=True)
    >>> selector = FedSDGSelector(max_epochs=40, security="plain", random_state=0).fit(X, y)
    >>> selector.score(X, y) > 0.9
    True
    >>> selector.at(3).get_support().sum()
    np.int64(3)
    """

    def __init__(
        self,
        *,
        n_features_to_select="auto",
        protocol="blind",
        choose="best",
        class_weight=None,
        lam="auto",
        sigma=0.5,
        init="gini",
        gates="dual",
        embedding=16,
        max_epochs=80,
        batch_size=256,
        refit=False,
        model="network",
        outputs="auto",
        embedding_network=None,
        top_network=None,
        min_batches=12,
        lam_embedding=0.03,
        gate_samples=1,
        validation=0.2,
        min_epochs=30,
        patience=25,
        learning_rate=3e-3,
        gate_learning_rate=1e-2,
        layer_learning_rate=0.3,
        label_noise=0.0,
        checkpoint=None,
        verbose=False,
        parties=2,
        he="bgv",
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_features_to_select = n_features_to_select
        self.protocol = protocol
        self.choose = choose
        self.class_weight = class_weight
        self.lam = lam
        self.sigma = sigma
        self.init = init
        self.gates = gates
        self.embedding = embedding
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.refit = refit
        self.model = model
        self.outputs = outputs
        self.embedding_network = embedding_network
        self.top_network = top_network
        self.min_batches = min_batches
        self.lam_embedding = lam_embedding
        self.gate_samples = gate_samples
        self.validation = validation
        self.min_epochs = min_epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.gate_learning_rate = gate_learning_rate
        self.layer_learning_rate = layer_learning_rate
        self.label_noise = label_noise
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.parties = parties
        self.he = he
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def prepare(self, X, y=None, *, simulated=False, observer=None):
        """See :meth:`MethodSelector.prepare`; Ctrl-C ends a training with its best epoch so far."""
        prepared = super().prepare(X, y, simulated=simulated, observer=observer)
        bar = EpochBar(int(self.max_epochs)) if self.verbose else None
        meter = Meter(prepared.observer, *(() if bar is None else (bar,)))
        driver = prepared.nodes[prepared.federation.label_holder][0]
        driver.report = meter.epoch

        def stop():
            driver.stop_requested = True

        display = contextlib.nullcontext() if bar is None else bar
        return replace(prepared, observer=meter, on_interrupt=stop, display=display)

    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes and parameters; every check that needs no message."""
        self._checked()
        federation = self._federate(X, y)
        self._check_federation(federation)
        refuse_too_much(self.policy, federation, epochs=self.max_epochs)
        if federation.n_rows < 4:
            raise ParameterError(
                f"There are {federation.n_rows} rows.",
                "At least four rows are needed to train and to validate.",
                "Add rows.",
            )
        n_holders = len(set(federation.tables) - {federation.label_holder})
        prepare = self._prepare_blind if self.protocol == "blind" else self._prepare_paper
        protocol, params, nodes, used, notes = prepare(federation, n_holders, simulated=simulated)
        policies = self._allowed(self.policy, X, protocol, used, nodes)
        bits = 0 if params.scheme == "plain" else params.security_bits
        min_bin_size = params.min_bin_size if params.init == "gini" else None
        return PreparedRun(
            protocol=protocol,
            nodes=nodes,
            used=used,
            security_bits=bits,
            federation=federation,
            params=params,
            policies=policies,
            min_bin_size=min_bin_size,
            notes=notes,
            rows=rows_of(federation),
        )

    def _prepare_paper(self, federation, n_holders, *, simulated):
        params = params_for(self, federation, simulated=simulated)
        need_torch()
        from fedsift.methods.fedsdg import label_holder as fedsdg

        nodes = fedsdg.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            params,
            make=self._make_networks(),
            make_top=self.top_network,
            checkpoints=self._checkpoints(),
        )
        used, notes = messages_used(params, n_holders), notes_on(params, n_holders)
        return fedsdg.PROTOCOL, params, nodes, used, notes

    def _prepare_blind(self, federation, n_holders, *, simulated):
        from fedsift.methods.fedsdg.blind import label_holder as blind
        from fedsift.methods.fedsdg.blind import messages, settings

        settings.check_blind(self)
        params = settings.blind_params_for(self, federation, simulated=simulated)
        nodes = blind.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            params,
            checkpoints=self._checkpoints(),
        )
        used = messages.messages_used(params, n_holders)
        return blind.PROTOCOL, params, nodes, used, settings.notes_on_blind(params, n_holders)

    def _check_labels(self, prepared, smallest):
        """Every class keeps so many rows for training."""
        super()._check_labels(prepared, smallest)
        for target in targets_here(prepared.federation):
            if target.kind == "classes":
                sizes = np.bincount(target.codes)
                check_sizes(sizes - np.round(prepared.params.validation * sizes), smallest)

    def _wanted(self):
        """The number of classes may decide how wide the layer is, or how many outputs it has."""
        depends = self.model == "linear" or self.outputs == "auto" or self.protocol == "blind"
        return SetupNeeds(n_classes=depends)

    def _asked(self, setting):
        return ResultNeeds(gates=True)

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes, and every party's part of the model."""
        federation, params, y = prepared.federation, prepared.params, prepared.labels
        trained = outcome.value
        roles = {party: node[0] for party, node in prepared.nodes.items()}
        facts = {party: known for party, known in facts if party in federation.tables}
        self.params_ = params
        self._latest = {}
        self.interrupted_ = trained.interrupted
        self.history_ = [dict(entry) for entry in trained.history]
        self.n_epochs_ = len(trained.history)
        in_model = {federation.label_holder, *trained.parties}
        self._parts = {
            party: role.part_state() if party in in_model else left_out(facts[party])
            for party, role in roles.items()
            if not isinstance(role, RemoteRole)  # a party at another site keeps its part there
        }
        self._layout = files.Layout(
            federation.label_holder,
            {party: tuple(order) for party, order in federation.column_order.items()},
            tuple(map(str, self.feature_names_in_)) if hasattr(self, "feature_names_in_") else None,
            isinstance(y, type(None)),
        )
        if federation.target.kind == "classes":
            self._keep_classes(federation.target, y)
        elif hasattr(self, "classes_"):
            del self.classes_
        self.result_ = self._result(federation, prepared, params, outcome, facts)
        self.support_ = federation.original_support(
            {party: list(names) for party, names in self.result_.selected.items()}
        )
        self.scores_ = self.support_.astype(float)
        if self.result_.scores:
            self.scores_ = scores_in_order(federation, self.result_.scores)
        self.n_features_to_select_ = int(self.support_.sum())
        self._states = self._known_states(prepared, federation)
        if getattr(trained, "warning", ""):
            warnings.warn(trained.warning, UserWarning, stacklevel=3)
        if trained.interrupted:
            warnings.warn(
                f"The training was interrupted after {self.n_epochs_} epochs; the result is that "
                "of the best epoch so far.",
                UserWarning,
                stacklevel=3,
            )

    def at(self, n_features):
        """Another number of features from the same training, without a new one.

        Parameters
        ----------
        n_features : int or float
            A number, or a share.

        Returns
        -------
        selector : FedSDGSelector
            A copy with that selection, to transform with; it has no model. Of a training between
            organisations nobody knows enough for it.
        """
        check_is_fitted(self)
        return reselected(self, n_features)

    def _known_states(self, prepared, federation):
        """States of the gates to select other numbers from, if all parties are here."""
        if self.protocol == "blind":
            return states_here(prepared.nodes, federation)
        if any(isinstance(node[0], RemoteRole) for node in prepared.nodes.values()):
            return None
        return [State(int(self.support_.sum()), self.scores_)]

    def _result(self, federation, prepared, params, outcome, facts):
        """Join what the parties keep for themselves; in a simulation all are at home here."""
        scores = {}
        for party, known in facts.items() if self.protocol == "paper" else ():
            values = self._scores_of(known["gate_means"], params)
            scores[party] = dict(zip(known["names"], values.tolist(), strict=True))
        remarks = list(getattr(outcome.value, "remarks", ()))
        if outcome.value.interrupted:
            remarks.append(f"Interrupted after {len(outcome.value.history)} epochs.")
        return build_result(
            federation,
            prepared,
            outcome,
            selected={party: known["selected"] for party, known in facts.items()},
            scores=scores,
            ranking=ranking_of(scores),
            history=outcome.value.history,
            parameters=self._settings(
                params,
                without=("verbose", *(_OF_THE_PAPER if self.protocol == "blind" else _OF_BLIND)),
                chosen_epoch=outcome.value.epoch,
                validation_score=outcome.value.score,
                **self._found(params),
            ),
            crypto=params.scheme,
            seed=params.seed,
            warnings=tuple(remarks),
        )

    def _scores_of(self, means, params):
        """Probability that gates are open, or what features cost to leave out."""
        if params.eliminates:
            return means
        from fedsift.methods.fedsdg.local_part import open_probability

        return open_probability(means, params.sigma)

    def _found(self, params):
        """What follows for a blind training from the settings and the data."""
        names = ("hidden", "n_openings", "passes", "n_blocks") if self.protocol == "blind" else ()
        return {name: getattr(params, name) for name in names}
