# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``FilterSelector``: rank features by one score, without showing labels or values."""

from __future__ import annotations

import numbers
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedsift.data import PartyTable, Target
from fedsift.data.remote_table import local_only
from fedsift.errors import ParameterError
from fedsift.methods.base import number_to_select, scores_in_order
from fedsift.methods.checks import check_choices
from fedsift.methods.execution import PreparedRun, build_result, policies_for, rows_of
from fedsift.methods.filter import coordinator as filters_horizontal
from fedsift.methods.filter import features as filter_features
from fedsift.methods.filter import horizontal_messages as filter_horizontal_messages
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as filter_messages
from fedsift.methods.filter.noise import (
    check_filter,
    noise_notes,
    refuse_numbers,
    with_selection_spent,
    with_spent,
)
from fedsift.methods.filter.ranking import Params, plain_scores
from fedsift.methods.filter.result_errors import with_errors
from fedsift.methods.filter.score_name import ScoreParameter
from fedsift.methods.filter.scores import LOWER_IS_BETTER
from fedsift.methods.naming import named
from fedsift.methods.needs import ResultNeeds, SetupNeeds
from fedsift.methods.release import check_release, release_notes
from fedsift.methods.running import MethodSelector
from fedsift.privacy.mechanisms import check_budget
from fedsift.protocol.policy import OPEN

_DISCLOSURES = {"gini": ("scores", "counts"), "f": ("scores", "counts")}
_SCHEMES = {"auto": "bgv", "bgv": "bgv", "paillier": "paillier"}


class FilterSelector(MethodSelector):
    """Select the features with the best score, computed on encrypted labels.

    Works for parties with different columns of the same rows (vertical) and for parties with
    different rows of the same columns (horizontal; give ``fit`` a horizontal
    :class:`~fedsift.Federation`).

    Parameters
    ----------
    score : {"gini", "f", "mi", "chi2", "iv", "variance"}
        ``gini`` is the impurity that remains after cutting by the feature (lower is better), all
        others are better when higher. ``chi2`` reads non-negative complete columns as frequencies
        (scikit-learn's definition) if all columns of all parties are such, otherwise it is
        Pearson's statistic of the binned columns.
    n_features_to_select : int or float
        A number, or a share of all features. The default 10 keeps all if there are fewer.
    bins : int, list of float, or dict
        Quantile bins, inner edges, or either one by column name.
    min_bin_size : int
        Bins with fewer rows are merged.
    disclose : {"auto", "scores", "counts"}
        What the label holder may learn of others' features. ``scores`` exists for gini and f.
    epsilon : float, optional
        Differential privacy: every party adds noise to the counts of its own rows before anyone
        sees them, so that all it reveals about the values of one row stays within this budget.
        Needs a score of counts (gini, mi, chi2, iv) and bins given as edges: quantiles depend on
        the rows.
    delta : float
        0 for pure differential privacy; a tiny one allows for less noise with many features.
    release_epsilon : float, optional
        Differential privacy of the selection: the party that knows the scores draws the features
        by them, so that what others learn of one row over all parties, its values and its
        label, stays within this budget. Scores are withheld from the result. Needs gini or mi, and
        bins given as edges.
    release_delta : float
        As ``delta``, for the release.
    checkpoint : path, optional
        Directory in which every party keeps its own state while the run goes on. If it holds an
        interrupted run of the same job, ``fit`` continues there.
    parties : int, list of column lists, or array of row owners
        How to split arrays; ignored when ``fit`` gets a federation.
    he : {"auto", "bgv", "paillier"}
        Encryption; ``auto`` takes BGV, the faster one.
    security : {"secure", "plain"}
        ``plain`` runs the same protocol without encryption, for comparison only.
    policy : Policy, dict of party to Policy, or None
    random_state : int, RandomState or None
        Seeds the simulated split, the secret orders of features and bins, and the noise of a
        simulation. Between organisations noise never follows a seed.

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
    scores_ : ndarray of shape (n_features,)
        NaN with a ``release_epsilon``.
    ranking_ : ndarray of int of shape (n_features,)
        1 is the best. With a ``release_epsilon`` the order of the draws; all features that were
        not drawn share the next place.
    result_ : SelectionResult
        Selection, cost, and who learned what.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> import fedsift as fs
    >>> X, y = load_wine(return_X_y=True)
    >>> selector = fs.FilterSelector("gini", n_features_to_select=2, random_state=0).fit(X, y)
    >>> selector.get_support(indices=True)
    array([6, 9])
    """

    score = ScoreParameter()

    def __init__(
        self,
        score="gini",
        *,
        n_features_to_select=10,
        bins=10,
        min_bin_size=5,
        disclose="auto",
        epsilon=None,
        delta=0.0,
        release_epsilon=None,
        release_delta=0.0,
        checkpoint=None,
        parties=2,
        he="auto",
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.score = score
        self.n_features_to_select = n_features_to_select
        self.bins = bins
        self.min_bin_size = min_bin_size
        self.disclose = disclose
        self.epsilon = epsilon
        self.delta = delta
        self.release_epsilon = release_epsilon
        self.release_delta = release_delta
        self.checkpoint = checkpoint
        self.parties = parties
        self.he = he
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def fit(self, X, y=None):
        """Run the filter protocol.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or Federation
        y : array-like of shape (n_samples,), optional
            Classes or numbers; the federation brings its own.

        Returns
        -------
        self : FilterSelector
        """
        return self.run(X, y)

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes in the order of the original columns."""
        federation, params = prepared.federation, prepared.params
        self.result_ = self._result(federation, prepared, params, outcome, facts)
        self.support_ = federation.original_support(
            {party: list(names) for party, names in self.result_.selected.items()}
        )
        self.scores_ = np.full(federation.n_features, np.nan)
        if self.result_.scores:
            self.scores_ = scores_in_order(federation, self.result_.scores)
        self.ranking_ = scores_in_order(federation, self.result_.ranking).astype(int)
        self.n_features_to_select_ = params.n_features_to_select

    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes and parameters; every check that needs no message."""
        self._check_choices()
        self._check_noise()
        needs_y = self.score != "variance"
        federation = self._federate(X, y, horizontal=self._splits_rows(), needs_y=needs_y)
        for table in local_only(federation.tables).values():
            filter_features.check_table(table, str(self.score), self.bins)
            if self.epsilon is not None or self.release_epsilon is not None:
                filter_features.check_edges(table, self.bins)
        if len(federation.feature_names) == federation.n_features:
            filter_features.check_bin_names(self.bins, federation.tables.values())
        policies = policies_for(self.policy, (*federation.parties, "coordinator"))
        params = Params(
            score=str(self.score),
            n_features_to_select=number_to_select(self.n_features_to_select, federation.n_features),
            bins=self.bins,
            min_bin_size=int(self.min_bin_size),
            disclose=self._disclosure(policies, federation),
            scheme="plain" if self.security == "plain" else _SCHEMES[self.he],
            share_scores=self.release_epsilon is None
            and policies.get(federation.label_holder, OPEN).allows(
                filter_messages.OwnScores.declaration
            ),
            seed=self._seed(),
            epsilon=None if self.epsilon is None else float(self.epsilon),
            delta=float(self.delta),
            noise_seed=self._seed() if simulated else None,
            release_epsilon=None if self.release_epsilon is None else float(self.release_epsilon),
            release_delta=float(self.release_delta),
        )
        if params.fixed_edges:
            refuse_numbers(federation)
        if params.releases:
            check_filter(params, federation.setting)
        if federation.setting == "vertical":
            prepared = self._prepare_vertical(federation, params)
        else:
            prepared = self._prepare_horizontal(federation, params)
        return replace(
            prepared,
            federation=federation,
            params=params,
            policies=policies_for(self.policy, tuple(prepared.nodes)),
            rows=rows_of(federation),
        )

    def _prepare_vertical(self, federation, params):
        if self.score != "variance" and federation.target is None:
            raise ParameterError(
                "The federation has no label.",
                f"The score {self.score!r} compares features with a label.",
                "Name the party and column of the label, or use score='variance'.",
            )
        holder = federation.label_holder or federation.parties[0]
        nodes = filters.build_nodes(
            federation.tables,
            holder,
            federation.target,
            federation.n_rows,
            params,
            self._checkpoints(),
        )
        notes = (self._he_note(params), *noise_notes(params), *self._release_notes())
        bits = 0 if params.scheme == "plain" else params.security_bits
        return PreparedRun(
            protocol=filters.PROTOCOL,
            nodes=nodes,
            used=filter_messages.messages_used(params),
            security_bits=bits,
            min_bin_size=self._smallest_bin(params),
            notes=notes,
            epsilon=params.epsilon,
            release_epsilon=params.release_epsilon,
        )

    def _release_notes(self):
        return release_notes(self.release_epsilon, self.release_delta, "no score is told")

    def _smallest_bin(self, params):
        """Rows of a bin at least; noise hides single rows in bins of any size."""
        binned = self.score in filter_features.BINNED_SCORES and not params.noisy
        smallest = 1 if params.releases else params.min_bin_size  # edges are fixed, none is merged
        return smallest if binned else None

    def _prepare_horizontal(self, federation, params):
        nodes = filters_horizontal.build_nodes(
            federation.tables, federation.targets, params, self._checkpoints()
        )
        bits = 0 if params.scheme == "plain" else params.security_bits
        return PreparedRun(
            protocol=filters_horizontal.PROTOCOL,
            nodes=nodes,
            used=filter_horizontal_messages.messages_used(params),
            security_bits=bits,
            min_bin_size=self._smallest_bin(params),
            notes=(
                "Sums travel under pairwise one-time masks; no homomorphic encryption is needed.",
                *noise_notes(params),
                *self._release_notes(),
            ),
            epsilon=params.epsilon,
            # Noise covers labels too here, and with them whatever follows from the counts.
            release_epsilon=params.epsilon if params.noisy else params.release_epsilon,
        )

    def _wanted(self):
        """With ``disclose="auto"`` the least is disclosed that all feature holders allow."""
        return SetupNeeds(
            choices=(*dict.fromkeys(filter_messages.REPLIES.values()), filter_messages.OwnScores),
            common_words=True,
            labels=self.score != "variance",
        )

    def _asked(self, setting):
        budget = self.epsilon is not None or self.release_epsilon is not None
        return ResultNeeds(order=setting == "vertical", remarks=not budget)

    def _check_choices(self):
        choices = {
            "score": (self.score, filter_features.SCORES),
            "disclose": (self.disclose, ("auto", "scores", "counts")),
            "he": (self.he, tuple(_SCHEMES)),
            "security": (self.security, ("secure", "plain")),
        }
        check_choices(choices)
        if not isinstance(self.min_bin_size, numbers.Integral) or self.min_bin_size < 1:
            raise ParameterError(
                f"min_bin_size={self.min_bin_size!r}.",
                "A whole number of at least 1 is needed.",
                "5 is the default; 1 switches the protection off.",
            )

    def _check_noise(self):
        """Refuse settings under which noise would not protect what it promises to."""
        check_budget(self.epsilon, self.delta)
        check_release(self.release_epsilon, self.release_delta, self.checkpoint)
        if self.epsilon is None:
            return
        if self.score not in filter_features.BINNED_SCORES:
            raise ParameterError(
                f"epsilon={self.epsilon!r} with score={self.score!r}.",
                "Noise is added to counts; one row can change a sum of values by any amount.",
                "Use gini, mi, chi2 or iv, or no epsilon.",
            )
        if self.disclose == "scores":
            raise ParameterError(
                "disclose='scores' together with an epsilon.",
                "With noise the label holder sees noisy counts and computes the scores from them.",
                "Leave disclose at 'auto'.",
            )
        if self.checkpoint is not None:
            raise ParameterError(
                "A checkpoint together with an epsilon.",
                "A resumed run would reveal counts again, and spend the budget again.",
                "Leave the checkpoint out.",
            )

    def _score_rows(self, X, y=None):
        """Mean local score of the selected columns of (X, y); what ``score(X, y)`` returns."""
        check_is_fitted(self)
        X, y = self._check_arrays(X, y, needs_y=self.score != "variance", reset=False)
        table = PartyTable.from_any(X, name="rows")
        target = None if y is None else Target.from_values(y)
        params = Params(score=str(self.score), bins=self.bins, min_bin_size=int(self.min_bin_size))
        values = plain_scores(table, target, params)[self.support_]
        sign = -1.0 if self.score in LOWER_IS_BETTER else 1.0
        return sign * float(values.mean())

    def _splits_rows(self):
        """An array of row owners in ``parties`` asks for a horizontal simulation."""
        parties = self.parties
        if isinstance(parties, numbers.Integral):
            return False
        return len(parties) > 0 and not hasattr(parties[0], "__len__")

    def _disclosure(self, policies, federation):
        """What ``disclose`` means for this score; ``auto`` takes the least that policies allow."""
        possible = _DISCLOSURES.get(self.score, ("counts",))
        if self.score == "variance":
            return "scores"
        if self.disclose == "auto":
            holders = [p for p in federation.tables if p != federation.label_holder]
            if self.epsilon is not None:
                return "counts"
            for choice in possible:
                reply = filter_messages.REPLIES[filter_messages.way_of(self.score, choice)]
                if all(policies.get(p, OPEN).allows(reply.declaration) for p in holders):
                    return choice
            return possible[0]
        if self.disclose not in possible and federation.setting == "vertical":
            raise ParameterError(
                f"disclose={self.disclose!r} with score={self.score!r}.",
                "Only the scores gini and f can be revealed without the counts behind them.",
                "Use disclose='auto' or 'counts', or another score.",
            )
        return self.disclose

    def _he_note(self, params):
        if params.scheme == "plain":
            return "Encryption is OFF (security='plain'): labels travel in the clear."
        reason = {
            "auto": "chosen because it is the faster of the two here",
            "bgv": "as asked",
            "paillier": "as asked",
        }[self.he]
        return f"Encryption: {params.scheme}, {params.security_bits}-bit security ({reason})."

    def _result(self, federation, prepared, params, outcome, facts):
        """Join what the parties tell; in a simulation all are at home here."""
        if federation.setting == "vertical":
            names, remarks = _names_and_remarks(facts)
            ranking = outcome.value
        else:
            columns = next(iter(federation.tables.values())).feature_names
            names = {party: list(columns) for party in federation.tables}
            ranking, remarks = outcome.value.for_parties(tuple(federation.tables))
        result = build_result(
            federation,
            prepared,
            outcome,
            **named(ranking, names),
            parameters=_plain_parameters(self.get_params(deep=False), params),
            crypto=params.scheme if federation.setting == "vertical" else "masked sums",
            seed=params.seed,
            warnings=tuple(remarks),
        )
        result = with_errors(result, ranking, names)
        if params.noisy:
            result = with_spent(result, federation, params)
        return with_selection_spent(result, params) if params.releases else result

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.score != "variance"
        return tags


def _names_and_remarks(facts):
    names, remarks = {}, []
    for party, known in facts:
        names[party] = known["names"]
        remarks += known.get("remarks", ())
    return names, remarks


def _plain_parameters(given, params):
    """Settings as JSON: what was asked for, and what it came to."""
    return {
        "score": params.score,
        "min_bin_size": params.min_bin_size,
        "security": str(given["security"]),
        "n_features_to_select": params.n_features_to_select,
        "disclose": params.disclose,
        "he": params.scheme,
        "bins": params.bins if isinstance(params.bins, int) else "given edges",
    }
