# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``FedSDGSelector``: features chosen by gates while a joint network trains, and that network."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import replace

from fedsift.engine.progress import EpochBar
from fedsift.errors import ParameterError
from fedsift.methods.base import scores_in_order
from fedsift.methods.execution import PreparedRun, build_result, policies_for, rows_of
from fedsift.methods.fedsdg import model_files as files
from fedsift.methods.fedsdg.messages import messages_used
from fedsift.methods.fedsdg.model import JointModel, need_torch
from fedsift.methods.fedsdg.records import Meter, left_out, ranking_of
from fedsift.methods.fedsdg.settings import check_parameters, notes_on, params_for
from fedsift.methods.needs import ResultNeeds, SetupNeeds
from fedsift.protocol import RemoteRole


class FedSDGSelector(JointModel):
    """Select features by stochastic gates while parties train a network together.

    Every feature has a gate that the training opens or closes; a penalty closes those that do not
    help enough, so no number of features has to be known in advance. Parties keep their
    columns, gates and embedding networks; the layer in between is shared such that nobody knows its
    weights, and runs on encrypted numbers. For parties with different columns of the same rows.

    Parameters
    ----------
    n_features_to_select : "auto", int or float
        ``"auto"`` keeps the features whose gates stay open. A number or a share takes those with
        the widest open gates over all parties (without gates: those that a backward elimination
        leaves), and always refits.
    lam : "auto" or float
        Weight of the mean probability that a gate is open; more selects fewer features. ``"auto"``
        is 3, but no more than a hundredth per feature, so that few features are not overpriced; an
        exact number of more than 4 % of the features lowers it in proportion.
    sigma : float
        Noise of the gates.
    init : {"gini", "constant"}
        Gates start from each feature's Gini impurity, computed on encrypted labels, or all alike.
    gates : {"dual", "input", "none"}
        Gates on features and embedding columns, on features only, or none: all features, or an
        exact number by elimination, in which every party leaves out first what its other features
        can stand in for, which suits columns that say much the same.
    embedding : int
        Embedding columns of every party; 32 at least where ``outputs="auto"`` comes to 32.
    max_epochs : int
    batch_size : int
        Rows of a batch at most.
    refit : bool
        Train new networks on the selected features alone at the end.
    model : {"network", "linear"}
        ``linear`` is vertical logistic or linear regression, with gates or without.
    outputs : "auto" or int
        Outputs of a network's interactive layer; ``"auto"`` is 16, and 32 with more than
        16 classes, which too narrow a layer cannot keep apart.
    embedding_network : callable, or mapping of party to callable, optional
        From (number of inputs, width) to a ``torch.nn.Module``; one hidden layer by default.
    min_batches : int
        Batches of an epoch at least: where data is scarce they get smaller.
    lam_embedding : float
        Price of an open embedding gate.
    validation : float
        Share of the rows given to ``fit`` that judges epochs and does not train.
    min_epochs, patience : int
        First epoch that may be chosen; epochs without a better one before the training stops.
    learning_rate, gate_learning_rate, layer_learning_rate : float
        Of networks, gates (both Adam) and the interactive layer (plain steps).
    label_noise : float
        Noise on the gradients that feature holders get, relative to their size, which makes labels
        harder to guess from them; 0 sends them as they are.
    checkpoint : path, optional
        Directory in which every party keeps its own state after each epoch. If it holds an
        interrupted training of the same job, ``fit`` continues there.
    verbose : bool
        Show a progress bar.
    parties : int or list of column lists
        How to split arrays; ignored when ``fit`` gets a federation.
    he : {"bgv", "paillier", "auto"}
        Encryption; both give the same result to the last bit, BGV is far faster.
    security : {"secure", "plain"}
        ``plain`` runs the same protocol without encryption, for comparison only.
    policy : Policy, dict of party to Policy, or None
    random_state : int, RandomState or None

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
    scores_ : ndarray of shape (n_features,)
        Probability that each gate is open; after an elimination, what each feature cost when its
        turn came.
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
    """

    def __init__(
        self,
        *,
        n_features_to_select="auto",
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
        min_batches=12,
        lam_embedding=0.03,
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
        self.min_batches = min_batches
        self.lam_embedding = lam_embedding
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

    def fit(self, X, y=None):
        """Train and select.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or Federation
            Missing values take the mean of their column.
        y : array-like of shape (n_samples,), optional
            Classes or numbers; the federation brings its own.

        Returns
        -------
        self : FedSDGSelector
        """
        return self.run(X, y)

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
        check_parameters(self)
        federation = self._federate(X, y)
        if federation.setting != "vertical" or federation.target is None:
            raise ParameterError(
                f"The federation is {federation.setting}, "
                f"{'without' if federation.target is None else 'with'} a label.",
                "FedSDG-FS needs parties with different columns of the same rows, and a label.",
                "Use Federation.vertical with label=(party, column).",
            )
        if federation.n_rows < 4:
            raise ParameterError(
                f"There are {federation.n_rows} rows.",
                "At least four rows are needed to train and to validate.",
                "Add rows.",
            )
        params = params_for(self, federation)
        need_torch()
        from fedsift.methods.fedsdg import label_holder as fedsdg

        nodes = fedsdg.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            params,
            make=self._make_networks(),
            checkpoints=self._checkpoints(),
        )
        n_holders = len(set(federation.tables) - {federation.label_holder})
        bits = 0 if params.scheme == "plain" else params.security_bits
        min_bin_size = params.min_bin_size if params.init == "gini" else None
        return PreparedRun(
            protocol=fedsdg.PROTOCOL,
            nodes=nodes,
            used=messages_used(params, n_holders),
            security_bits=bits,
            federation=federation,
            params=params,
            policies=policies_for(self.policy, federation.parties),
            min_bin_size=min_bin_size,
            notes=notes_on(params, n_holders),
            rows=rows_of(federation),
        )

    def _wanted(self):
        """The number of classes may decide how wide the layer is."""
        return SetupNeeds(n_classes=self.model == "linear" or self.outputs == "auto")

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
        self.scores_ = scores_in_order(federation, self.result_.scores)
        self.n_features_to_select_ = int(self.support_.sum())
        if trained.interrupted:
            warnings.warn(
                f"The training was interrupted after {self.n_epochs_} epochs; the result is that "
                "of the best epoch so far.",
                UserWarning,
                stacklevel=3,
            )

    def _result(self, federation, prepared, params, outcome, facts):
        """Join what the parties keep for themselves; in a simulation all are at home here."""
        from fedsift.methods.fedsdg.local_part import open_probability

        scores = {}
        for party, known in facts.items():
            values = known["gate_means"]
            if not params.eliminates:
                values = open_probability(values, params.sigma)
            scores[party] = dict(zip(known["names"], values.tolist(), strict=True))
        remarks = []
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
            parameters={
                name: getattr(self, name)
                for name in ("sigma", "init", "gates", "model", "embedding")
            }
            | {
                "n_features_to_select": (
                    "auto" if params.n_features_to_select is None else params.n_features_to_select
                ),
                "lam": params.lam,
                "max_epochs": params.max_epochs,
                "batch_size": params.batch_size,
                "refit": params.refit,
                "label_noise": params.label_noise,
                "security": str(self.security),
                "chosen_epoch": outcome.value.epoch,
                "validation_score": outcome.value.score,
            },
            crypto=params.scheme,
            seed=params.seed,
            warnings=tuple(remarks),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
