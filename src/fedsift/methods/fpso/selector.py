# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``FPSOSelector``: parties with different rows search a common subset with particle swarms."""

from __future__ import annotations

import numbers

import numpy as np
from sklearn.base import is_classifier

from fedsift.data import Federation, split_horizontal
from fedsift.errors import ParameterError
from fedsift.methods.base import number_to_select, scores_in_order
from fedsift.methods.checks import check_choices
from fedsift.methods.execution import PreparedRun, build_result, policies_for, rows_of
from fedsift.methods.fpso import swarm
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso.local_search import Params, fewest_rows
from fedsift.methods.fpso.noise import check_votes, vote_notes, vote_warnings, with_votes
from fedsift.methods.fpso.votes import FEWEST_BLOCKS, FEWEST_ROWS
from fedsift.methods.needs import ResultNeeds
from fedsift.methods.running import MethodSelector

_ROUNDS_ONLY = {"n_particles", "n_iterations", "n_rounds", "integration", "aggregation", "mode"}


class FPSOSelector(MethodSelector):
    """Select the subset of features that classifies best at all parties.

    Parameters
    ----------
    n_features_to_select : "auto", int or float
        ``auto`` lets the search decide; a number or share is the largest size allowed.
    n_particles, n_iterations, n_rounds : int
        Swarm size, steps per round, and rounds of exchange.
    integration : {"mean", "max-min"}
        Take the subset with the best mean accuracy, or with the best worst one.
    aggregation : {"masked", "third-party"}
        ``third-party`` shows the third party every accuracy, as the paper does.
    mode : {"rounds", "federated-fitness"}
        ``rounds`` exchanges the best subsets after every round (the paper); ``federated-fitness``
        runs one swarm at the third party, judged by masked means.
    k : int
        Neighbours of the classifier that judges a subset.
    classifier : scikit-learn classifier, optional
        Judges subsets instead of nearest neighbours, much more slowly.
    decoding : {"threshold", "random"}
        A position above one half chooses a feature, or one above a random number (the paper).
    epsilon : float, optional
        Differential privacy: every party's rows vote in disjoint blocks, noise is added before the
        votes leave, and no accuracy and no subset does. ``mode``, ``integration`` and
        ``aggregation`` mean nothing then. All that a party reveals about one row, its label
        included, stays within this budget.
    delta : float
        0 for pure differential privacy; a tiny one allows for less noise where blocks cast many
        votes.
    n_blocks : int, optional
        Blocks of every party. By default they have 20 rows, or 10 for every class if that is more.
    n_votes : int, optional
        Features that a block votes for at most; by default about the square root of
        ``n_features_to_select``, or of a quarter of all features if that is ``auto``. With
        ``auto``, features with more than an equal share of all votes are selected.
    checkpoint : path, optional
        Directory in which every party keeps its own state while the run goes on. If it holds an
        interrupted run of the same job, ``fit`` continues there.
    parties : int or array of row owners
        How to split arrays; ignored when ``fit`` gets a federation.
    security : {"secure", "plain"}
    policy : Policy, dict of party to Policy, or None
    random_state : int, RandomState or None
        Seeds the simulated split, searches, and the noise of a simulation. Between organisations
        noise never follows a seed.

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

    def fit(self, X, y=None):
        """Run FPSO-FS.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or horizontal Federation
        y : array-like of shape (n_samples,)
            Classes; the federation brings its own.

        Returns
        -------
        self : FPSOSelector
        """
        return self.run(X, y)

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes: the common subset, and what parties at home found for themselves."""
        federation, params = prepared.federation, prepared.params
        # What a party found out about its own rows is here only if the party is.
        facts = {party: known for party, known in facts if "kept" in known}
        names = next(iter(federation.tables.values())).feature_names
        chosen = [name for name, use in zip(names, outcome.value.mask, strict=True) if use]
        self.support_ = federation.original_support(dict.fromkeys(federation.tables, chosen))
        self.party_support_ = {party: fact["kept"].copy() for party, fact in facts.items()}
        self.accuracy_ = outcome.value.accuracy
        if params.noisy:
            self._take_votes(federation, prepared, params, outcome, chosen)
            return
        own = [entry for fact in facts.values() for entry in fact["history"]]
        self.history_ = sorted(own + outcome.value.history, key=lambda e: (e["step"], e["party"]))
        keeping = [party for party, fact in facts.items() if fact["keeps_own"]]
        notes = [f"{party}: its own subset is better on its own rows." for party in keeping]
        self.result_ = build_result(
            federation,
            prepared,
            outcome,
            selected=dict.fromkeys(federation.tables, chosen),
            participants={party: fact["accuracy"] for party, fact in facts.items()},
            parameters=_shown(params),
            crypto="masked sums" if self.aggregation == "masked" else "none",
            seed=params.seed,
            history=[*self.history_, _found(outcome.value, names)],
            warnings=notes,
        )

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
            parameters=_shown(params),
            crypto="masked sums",
            seed=params.seed,
            warnings=vote_warnings(elected, params, len(parties)),
        )
        self.result_ = with_votes(result, federation, params)
        self.votes_ = scores_in_order(federation, self.result_.scores).astype(int)
        self.history_ = []

    def _prepare(self, X, y=None, *, simulated=False):
        self._check_choices()
        check_votes(self.get_params(deep=False))
        federation = self._rows_federation(X, y)
        if federation.setting != "horizontal":
            raise ParameterError(
                "The federation is vertical.",
                "FPSO-FS needs parties with different rows of the same columns.",
                "Use Federation.horizontal, or another method.",
            )
        auto = isinstance(self.n_features_to_select, str) and self.n_features_to_select == "auto"
        params = Params(
            max_features=(
                None if auto else number_to_select(self.n_features_to_select, federation.n_features)
            ),
            n_particles=int(self.n_particles),
            n_iterations=int(self.n_iterations),
            n_rounds=int(self.n_rounds),
            integration=self.integration,
            aggregation=self.aggregation,
            mode=self.mode,
            k=int(self.k),
            classifier=self.classifier,
            decoding=self.decoding,
            protected=self.security == "secure",
            seed=self._seed(),
            epsilon=None if self.epsilon is None else float(self.epsilon),
            delta=float(self.delta),
            n_blocks=None if self.n_blocks is None else int(self.n_blocks),
            n_votes=None if self.n_votes is None else int(self.n_votes),
            noise_seed=self._seed() if simulated else None,
        )
        nodes = fpso.build_nodes(
            federation.tables, federation.targets, params, checkpoints=self._checkpoints()
        )
        bits = 128 if params.protected and self.aggregation == "masked" else 0
        return PreparedRun(
            protocol=fpso.PROTOCOL,
            nodes=nodes,
            used=fpso.messages_used(params),
            security_bits=bits,
            federation=federation,
            params=params,
            policies=policies_for(self.policy, tuple(nodes)),
            notes=vote_notes(federation, params),
            rows=rows_of(federation),
            epsilon=params.epsilon,
            release_epsilon=params.epsilon,  # noisy votes cover labels, and so the selection
        )

    def _asked(self, setting):
        return ResultNeeds(remarks=self.epsilon is None)

    def _rows_federation(self, X, y):
        if isinstance(X, Federation):
            self._adopt_federation(X)
            return X
        X, y = self._check_arrays(X, y, needs_y=True)
        parties = self.parties
        if isinstance(parties, numbers.Integral):
            fewest = fewest_rows(Params.n_folds, int(self.k))
            if self.epsilon is not None:
                fewest = (self.n_blocks or FEWEST_BLOCKS) * max(FEWEST_ROWS, fewest)
            parties = max(2, min(int(parties), len(X) // fewest))
        return split_horizontal(
            X, y, parties, random_state=self._seed() or 0, task="classification"
        )

    def _check_choices(self):
        choices = {
            "integration": ("mean", "max-min"),
            "aggregation": ("masked", "third-party"),
            "mode": ("rounds", "federated-fitness"),
            "decoding": swarm.DECODINGS,
            "security": ("secure", "plain"),
        }
        check_choices({name: (getattr(self, name), choices[name]) for name in choices})
        if self.classifier is not None and not is_classifier(self.classifier):
            raise ParameterError(
                f"classifier is a {type(self.classifier).__name__}.",
                "A scikit-learn classifier is needed to judge subsets.",
                "Pass an estimator such as GaussianNB(), or None for nearest neighbours.",
            )
        for name in ("n_particles", "n_iterations", "n_rounds", "k"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ParameterError(
                    f"{name}={value!r}.",
                    "A positive whole number is needed.",
                    f"Pass {name}=1 or more.",
                )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _found(winner, names):
    """In how many subsets every feature was: the third party has seen them all."""
    found = dict(zip(names, winner.found_in, strict=True))
    return {"found_in": found, "n_subsets": winner.n_subsets}


def _shown(params):
    """Settings as JSON."""
    left_out = {"seed", "protected", "classifier", "noise_seed", "epsilon", "delta"}
    # What the other way of searching needs says nothing about this one.
    left_out |= _ROUNDS_ONLY if params.noisy else {"n_blocks", "n_votes"}
    shown = {k: v for k, v in vars(params).items() if k not in left_out}
    judge = (
        "k nearest neighbours" if params.classifier is None else type(params.classifier).__name__
    )
    return {**shown, "classifier": judge}
