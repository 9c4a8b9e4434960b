# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``FPSOSelector``: parties with different rows search a common subset with particle swarms."""

from __future__ import annotations

import numpy as np
from sklearn.base import is_classifier

from fedsift.errors import ParameterError
from fedsift.methods.base import MethodSelector, number_or_auto, params_of
from fedsift.methods.checks import ResultNeeds
from fedsift.methods.execution import build_result, refuse_too_much
from fedsift.methods.fpso import METHOD
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso.local_search import Params, fewest_rows
from fedsift.methods.fpso.noise import check_votes, vote_notes, vote_warnings, with_votes
from fedsift.methods.fpso.votes import FEWEST_BLOCKS, FEWEST_ROWS
from fedsift.privacy.draws import noise_seed, private_seed

_ROUNDS_ONLY = {"n_particles", "n_iterations", "n_rounds", "integration", "aggregation", "mode"}


class FPSOSelector(MethodSelector, method=METHOD):
    """Select the subset of features that classifies best at all parties.

    Attributes
    ----------
    support_ : ndarray of bool
        The common subset.
    party_support_ : dict of party to ndarray of bool
        What each party should use: its own subset where that is better on its own training rows.
    accuracy_ : float
        Mean inner cross-validation accuracy of the common subset; optimistic, as it was maximised.
        None with an epsilon: nobody learns it.
    votes_ : ndarray of int
        Only with an epsilon: noisy votes of all parties' blocks for every feature.
    history_ : list of dict
        Convergence: accuracy of the best subset so far, by party and step, and of the common
        subset (party ``*``) by exchange. What each party saw of itself, put together here.
    result_ : SelectionResult
    """

    _allow_nan = False

    def __init__(
        self,
        *,
        n_features_to_select="auto",
        n_particles=20,
        n_iterations=25,
        n_rounds=4,
        integration="mean",
        aggregation="masked",
        mode="rounds",
        k=3,
        classifier=None,
        decoding="threshold",
        epsilon=None,
        delta=0.0,
        n_blocks=None,
        n_votes=None,
        checkpoint=None,
        parties=3,
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_features_to_select = n_features_to_select
        self.n_particles = n_particles
        self.n_iterations = n_iterations
        self.n_rounds = n_rounds
        self.integration = integration
        self.aggregation = aggregation
        self.mode = mode
        self.k = k
        self.classifier = classifier
        self.decoding = decoding
        self.epsilon = epsilon
        self.delta = delta
        self.n_blocks = n_blocks
        self.n_votes = n_votes
        self.checkpoint = checkpoint
        self.parties = parties
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes: the common subset, and what parties at home found for themselves."""
        federation, params = prepared.federation, prepared.params
        # What a party found out about its own rows is here only if the party is.
        facts = {party: known for party, known in facts if "kept" in known}
        names = next(iter(federation.tables.values())).feature_names
        chosen = [name for name, use in zip(names, outcome.value.mask, strict=True) if use]
        self.party_support_ = {party: fact["kept"].copy() for party, fact in facts.items()}
        self.accuracy_ = outcome.value.accuracy
        if params.noisy:
            self._take_votes(federation, prepared, params, outcome, chosen)
            return
        own = [entry for fact in facts.values() for entry in fact["history"]]
        self.history_ = sorted(own + outcome.value.history, key=lambda e: (e["step"], e["party"]))
        keeping = [party for party, fact in facts.items() if fact["keeps_own"]]
        notes = [f"{party}: its own subset is better on its own rows." for party in keeping]
        result = build_result(
            federation,
            prepared,
            outcome,
            selected=dict.fromkeys(federation.tables, chosen),
            participants={party: fact["accuracy"] for party, fact in facts.items()},
            parameters=self._shown(params),
            crypto="masked sums" if self.aggregation == "masked" else "none",
            seed=params.seed,
            history=[*self.history_, _found(outcome.value, names)],
            warnings=notes,
        )
        self._keep_selection(federation, result)

    def _take_votes(self, federation, prepared, params, outcome, chosen):
        """The result of noisy votes: nothing that a party knows about its own rows is in it."""
        elected, parties = outcome.value, tuple(federation.tables)
        names = federation.tables[parties[0]].feature_names
        order = np.argsort(-elected.votes, kind="stable")
        ranks = {names[place]: rank for rank, place in enumerate(order, start=1)}
        votes = dict(zip(names, elected.votes.astype(float).tolist(), strict=True))
        result = build_result(
            federation,
            prepared,
            outcome,
            selected=dict.fromkeys(parties, chosen),
            scores=dict.fromkeys(parties, votes),
            ranking=dict.fromkeys(parties, ranks),
            parameters=self._shown(params),
            crypto="masked sums",
            seed=params.seed,
            warnings=vote_warnings(elected, params, len(parties)),
        )
        self._keep_selection(federation, with_votes(result, federation, params))
        self.votes_ = self.scores_.astype(int)
        self.history_ = []

    def _prepare(self, X, y=None, *, simulated=False):
        given = self._checked()
        self._check_classifier()
        check_votes(given)
        federation = self._federate(
            X, y, horizontal=True, fewest=self._fewest_rows(given), task="classification"
        )
        self._check_federation(federation)
        refuse_too_much(
            self.policy,
            federation,
            groups=self.n_particles,
            epochs=self.n_iterations * self.n_rounds,
        )
        params = params_of(
            Params,
            given,
            max_features=number_or_auto(given["n_features_to_select"], federation.n_features),
            protected=self.security == "secure",
            seed=private_seed(self._seed(), simulated=simulated),
            noise_seed=noise_seed(self._seed()),
        )
        nodes = fpso.build_nodes(
            federation.tables, federation.targets, params, checkpoints=self._checkpoints()
        )
        more = {} if self.aggregation == "masked" else {"security_bits": 0}
        return self._prepared(
            federation,
            params,
            fpso.PROTOCOL,
            nodes,
            fpso.messages_used(params),
            notes=vote_notes(federation, params),
            epsilon=params.epsilon,
            release_epsilon=params.epsilon,  # noisy votes cover labels, and so the selection
            **more,
        )

    def _asked(self, setting):
        return ResultNeeds(remarks=self.epsilon is None)

    def _fewest_rows(self, given):
        """Rows that a party of a simulation needs."""
        fewest = fewest_rows(Params.n_folds, given["k"])
        if given["epsilon"] is None:
            return fewest
        return (given["n_blocks"] or FEWEST_BLOCKS) * max(FEWEST_ROWS, fewest)

    def _check_classifier(self):
        if self.classifier is not None and not is_classifier(self.classifier):
            raise ParameterError(
                f"classifier is a {type(self.classifier).__name__}.",
                "A scikit-learn classifier is needed to judge subsets.",
                "Pass an estimator such as GaussianNB(), or None for nearest neighbours.",
            )

    def _shown(self, params):
        """Settings of the result; what the other way of searching needs says nothing about it."""
        left_out = _ROUNDS_ONLY if params.noisy else {"n_blocks", "n_votes"}
        judge = self.classifier
        return self._settings(
            params,
            without=left_out | {"epsilon", "delta"},
            max_features=params.max_features,
            n_folds=params.n_folds,
            classifier="k nearest neighbours" if judge is None else type(judge).__name__,
        )


def _found(winner, names):
    """In how many subsets every feature was: the third party has seen them all."""
    found = dict(zip(names, winner.found_in, strict=True))
    return {"found_in": found, "n_subsets": winner.n_subsets}
