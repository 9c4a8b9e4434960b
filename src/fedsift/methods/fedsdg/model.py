# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a fitted ``FedSDGSelector`` can do besides selecting: predict, score, save and load."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsift.data import Federation, PartyTable
from fedsift.errors import MissingPackage, ParameterError, ValueProblem
from fedsift.methods.base import MethodSelector
from fedsift.methods.execution import PreparedRun, execute, policies_for
from fedsift.methods.fedsdg import model_files as files
from fedsift.methods.fedsdg.blind import messages as blind_messages
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.messages import messages_to_predict
from fedsift.methods.fedsdg.permissions import one_owner, refuse_unnamed
from fedsift.methods.fedsdg.settings import params_for
from fedsift.protocol import RemoteRole


class JointModel(MethodSelector):
    """A model in parts, one per party; every prediction is a run of the protocol."""

    def predict(self, X):
        """Predict classes or numbers by the secure protocol.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or Federation

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        results = self._predicted(X)
        if not hasattr(self, "classes_"):
            return results[:, 0]
        return self.classes_[results.argmax(axis=1)]

    @property
    def prediction_traffic_(self):
        """Traffic of the latest prediction, or None before the first."""
        check_is_fitted(self)
        return self._latest.get("traffic")

    def predict_proba(self, X):
        """Class probabilities by the secure protocol, in the order of ``classes_``."""
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            raise ParameterError(
                "The target was numeric, so there are no class probabilities.",
                "predict_proba needs a classification.",
                "Use predict.",
            )
        return self._predicted(X)

    def score(self, X, y=None):
        """Accuracy, or R2 for a numeric target; a federation brings its own labels."""
        check_is_fitted(self)
        if isinstance(X, Federation) and y is None:
            if X.target is None:
                raise ParameterError(
                    "The federation has no labels.",
                    "score compares predictions with labels.",
                    "Give the labels as y.",
                )
            target = X.target
            y = np.array(target.classes)[target.codes] if target.classes else target.values
        predicted = self.predict(X)
        if not hasattr(self, "classes_"):
            return r2_score(y, predicted)
        strangers = set(np.unique(np.asarray(y).astype(str))) - set(self.classes_.astype(str))
        if strangers:
            raise ValueProblem(
                f"The labels have {len(strangers)} classes that were not there when fitting.",
                f"The model knows {len(self.classes_)} classes.",
                "Leave those rows out, or fit again with rows of every class.",
            )
        return accuracy_score(np.asarray(y).astype(str), predicted.astype(str))

    def save(self, directory):
        """Write the model: every party's part in a file of its own, and an open header.

        Parameters
        ----------
        directory : path
            ``model.json`` has settings and party names; the others are for their owners only.
        """
        check_is_fitted(self)
        files.write_model(
            Path(directory),
            self.params_,
            self._parts,
            self._layout,
            getattr(self, "classes_", None),
        )

    @classmethod
    def load(cls, directory, *, embedding_network=None, top_network=None, policy=None):
        """Read a model that was saved, ready to predict and to transform."""
        header, parts = files.read_model(Path(directory))
        if header.protocol == "paper":
            need_torch()
        selector = cls(
            protocol=header.protocol,
            security="plain" if header.params.scheme == "plain" else "secure",
            embedding_network=embedding_network,
            top_network=top_network,
            policy=policy,
        )
        selector._latest, selector._states = {}, None
        selector.params_, selector._parts, selector._layout = header.params, parts, header.layout
        if header.classes is not None:
            selector.classes_ = header.classes
        layout = header.layout
        selector.n_features_in_ = sum(len(order) for order in layout.column_order.values())
        if layout.names is not None:
            selector.feature_names_in_ = np.array(layout.names, dtype=object)
        selector.support_ = np.zeros(selector.n_features_in_, dtype=bool)
        for party, order in layout.column_order.items():
            chosen = set(parts[party]["selected"])
            for name, position in zip(parts[party]["columns"], order, strict=True):
                selector.support_[position] = name in chosen
        return selector

    def _make_networks(self):
        """From a party's name to its factory of embedding networks."""
        given = self.embedding_network
        if given is None or callable(given):
            return lambda _: given
        return dict(given).get

    def _keep_classes(self, target, y):
        """Labels as the caller knows them, sorted, and where the model has each of them."""
        labels = np.array(target.classes)
        if y is not None:
            given = np.asarray(y)
            first = [int(np.flatnonzero(target.codes == c)[0]) for c in range(target.n_classes)]
            labels = given[first]
        order = np.argsort(labels, kind="stable")
        self.classes_ = labels[order]
        holder = self._parts[self._layout.label_holder]
        holder["class_order"] = [int(i) for i in order]

    def _predicted(self, X):
        """Probabilities or numbers for new rows, one column each."""
        check_is_fitted(self)
        if self._parts is None:
            raise ParameterError(
                "This selection was taken from a training of other features, by at().",
                "A model of exactly these features is needed to predict.",
                "Fit again with n_features_to_select, or predict with the selector it came from.",
            )
        tables = self._tables(X)
        holder = self._layout.label_holder
        protocol, used, nodes = prepare_prediction(
            tables,
            holder,
            self._parts,
            self.params_,
            make=self._make_networks(),
            make_top=self.top_network,
        )
        policies = self._allowed(self._policy_of(nodes), X, protocol, used, nodes)
        bits = 0 if self.params_.scheme == "plain" else self.params_.security_bits
        outcome = execute(
            PreparedRun(
                protocol=protocol,
                nodes=nodes,
                used=used,
                security_bits=bits,
                policies=policies,
            )
        )
        self._latest["traffic"] = outcome.transcript.traffic()
        self._latest["timings"] = outcome.timings
        self._latest["disclosures"] = outcome.ledger.rows()
        results = outcome.value
        order = self._parts[holder].get("class_order")
        return results if order is None else results[:, order]

    def _policy_of(self, nodes):
        """The policies of the parties that take part in a prediction."""
        if isinstance(self.policy, dict):
            known = {party: given for party, given in self.policy.items() if party in nodes}
            return known or (self.policy if not set(self.policy) & set(self._parts) else None)
        return self.policy

    def _allowed(self, policy, X, protocol, used, nodes):
        """Policies by party, which have to name what the paper's protocol opens of single rows.

        Parties cut out of one array allow it: their data is the caller's own.
        """
        if self.protocol == "blind":
            return policies_for(policy, tuple(nodes))
        if policy is None and not isinstance(X, Federation):
            return dict.fromkeys(nodes, one_owner(used))
        policies = policies_for(policy, tuple(nodes))
        refuse_unnamed(protocol, used, nodes, policies)
        return policies

    def _tables(self, X):
        """Every party's columns of new rows."""
        if isinstance(X, Federation):
            return X.tables
        if hasattr(X, "iloc"):
            validate_data(self, X, skip_check_array=True, reset=False)
            return {
                party: PartyTable.from_any(
                    X.iloc[:, list(order)].set_axis(self._parts[party]["columns"], axis=1),
                    name=party,
                )
                for party, order in self._layout.column_order.items()
            }
        X = validate_data(self, X, dtype="numeric", ensure_all_finite="allow-nan", reset=False)
        return {
            party: PartyTable.from_any(
                (X[:, list(order)], list(self._parts[party]["columns"])), name=party
            )
            for party, order in self._layout.column_order.items()
        }


def prepare_prediction(tables, label_holder, parts, params, *, make=None, make_top=None):
    """Protocol, messages and nodes of a prediction by a model of either protocol.

    Parties whose part is not here are at other sites.
    """
    n_holders = sum(party != label_holder for party in tables)
    if label_holder in parts:
        n_holders = len(parts[label_holder]["parties"])
    if isinstance(params, BlindParams):
        from fedsift.methods.fedsdg.blind import predictor as blind

        nodes = blind.build_nodes(tables, label_holder, parts, params)
        return blind.PROTOCOL, blind_messages.messages_to_predict(n_holders), nodes
    from fedsift.methods.fedsdg import predictor as paper

    nodes = paper.build_nodes(tables, label_holder, parts, params, make=make, make_top=make_top)
    return paper.PROTOCOL, messages_to_predict(n_holders), nodes


def foresee_prediction(selector, federation):
    """Protocol, messages, nodes at other sites and strength of predictions after a training."""
    holders = [party for party in federation.tables if party != federation.label_holder]
    if selector.protocol == "blind":
        from fedsift.methods.fedsdg.blind import predictor as blind
        from fedsift.methods.fedsdg.blind.feature_holder import BlindFeatureHolder
        from fedsift.methods.fedsdg.blind.settings import blind_params_for

        params = blind_params_for(selector, federation)
        protocol = blind.PROTOCOL
        roles = RemoteRole(blind.BlindPredictor), RemoteRole(BlindFeatureHolder)
        used = blind_messages.messages_to_predict(len(holders))
    else:
        from fedsift.methods.fedsdg import predictor as paper
        from fedsift.methods.fedsdg.feature_holder import FeatureHolder

        params = params_for(selector, federation)
        protocol = paper.PROTOCOL
        roles = RemoteRole(paper.Predictor), RemoteRole(FeatureHolder)
        used = messages_to_predict(len(holders))
    nodes = {federation.label_holder: roles[:1]}
    nodes |= dict.fromkeys(holders, roles[1:])
    return protocol, used, nodes, 0 if params.scheme == "plain" else params.security_bits


@cache
def need_torch():
    """Refuse to go on without PyTorch, which is an optional package.

    PyTorch loads parts of itself when an optimiser is first made and first restored. That happens
    here and once, not in the threads of several parties at the same moment.
    """
    try:
        import torch

        optimiser = torch.optim.Adam([torch.zeros(1, requires_grad=True)])
        optimiser.load_state_dict(optimiser.state_dict())
    except ImportError as error:
        raise MissingPackage(
            "PyTorch is not installed.",
            "protocol='paper' trains networks with it; the default, 'blind', does not need it.",
            "Install it with: pip install 'fedsift[torch]', or leave protocol out.",
        ) from error
