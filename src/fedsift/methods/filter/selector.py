# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``FilterSelector``: rank features by one score, without showing labels or values."""

from __future__ import annotations

import numbers
from collections.abc import Mapping

import msgspec
import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedsift.data import PartyTable, Target
from fedsift.data.federation import local_only
from fedsift.errors import ParameterError
from fedsift.methods.base import MethodSelector, number_to_select, params_of
from fedsift.methods.checks import (
    ResultNeeds,
    SetupNeeds,
    check_sizes,
    check_target,
    class_minimum,
    targets_here,
)
from fedsift.methods.execution import (
    build_result,
    check_release,
    name_ranking,
    policies_for,
    refuse_too_much,
    release_notes,
)
from fedsift.methods.filter import METHOD
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
from fedsift.methods.filter.ranking import Params, ScoreParameter, classes_of, plain_scores
from fedsift.methods.filter.scores import LOWER_IS_BETTER
from fedsift.methods.filter.significance import none_passed
from fedsift.methods.filter.uncertainty import with_errors
from fedsift.privacy.draws import noise_seed, private_seed
from fedsift.protocol.policy import OPEN

_DISCLOSURES = dict.fromkeys(("gini", "f", "chi2"), ("scores", "counts"))


class FilterSelector(MethodSelector, method=METHOD):
    """Select the features with the best score, computed on encrypted labels.

    Works for parties with different columns of the same rows (vertical) and for parties with
    different rows of the same columns (horizontal; give ``fit`` a horizontal
    :class:`~fedsift.Federation`).

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
    scores_ : ndarray of shape (n_features,)
        NaN with a ``release_epsilon``.
    p_values_, q_values_ : ndarray of shape (n_features,)
        NaN where no distribution of the score is known, and with a budget of privacy. ``gini`` and
        ``chi2`` have them with ``n_features_to_select="fdr"``, ``n_permutations`` or counts.
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
        fdr=0.1,
        n_permutations=0,
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
        self.fdr = fdr
        self.n_permutations = n_permutations
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

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes in the order of the original columns."""
        federation, params = prepared.federation, prepared.params
        result = self._result(federation, prepared, params, outcome, facts)
        self._keep_selection(federation, result)
        self.n_features_to_select_ = int(self.support_.sum())

    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes and parameters; every check that needs no message."""
        given = self._checked()
        by_fdr = given["n_features_to_select"] == "fdr"
        self._check_noise()
        self._check_tests()
        needs_y = self.score != "variance"
        federation = self._federate(X, y, horizontal=self._splits_rows(), needs_y=needs_y)
        self._check_federation(federation)
        refuse_too_much(self.policy, federation, bins=self._most_bins())
        for table in local_only(federation.tables).values():
            filter_features.check_table(table, str(self.score), self.bins)
            if self.epsilon is not None or self.release_epsilon is not None:
                filter_features.check_edges(table, self.bins)
        if len(federation.feature_names) == federation.n_features:
            filter_features.check_bin_names(self.bins, federation.tables.values())
        policies = policies_for(self.policy, (*federation.parties, "coordinator"))
        params = params_of(
            Params,
            given,
            n_features_to_select=federation.n_features
            if by_fdr
            else number_to_select(given["n_features_to_select"], federation.n_features),
            fdr=given["fdr"] if by_fdr else None,
            min_class_size=class_minimum(policies, federation),
            disclose=self._disclosure(policies, federation),
            scheme=self._scheme(),
            small_cells=self._opens_small_cells(policies, federation),
            numeric_label=self.score != "variance" and _has_numbers(federation.target),
            share_scores=self.release_epsilon is None
            and policies.get(federation.label_holder, OPEN).allows(
                filter_messages.OwnScores.declaration
            ),
            seed=private_seed(self._seed(), simulated=simulated),
            noise_seed=noise_seed(self._seed()),
        )
        if params.n_permutations and federation.setting == "horizontal":
            raise ParameterError(
                f"n_permutations={params.n_permutations}, and parties have different rows.",
                "Their pooled counts and sums give p-values without shuffled copies.",
                "Leave n_permutations out.",
            )
        if params.fixed_edges:
            refuse_numbers(federation)
        if params.releases:
            check_filter(params, federation.setting)
        if federation.setting == "vertical":
            return self._prepare_vertical(federation, params)
        return self._prepare_horizontal(federation, params)

    def _check_labels(self, prepared, smallest):
        """Of labels that are used; classes of parties with different rows are added up first."""
        params, federation = prepared.params, prepared.federation
        for target in targets_here(federation) if self.score != "variance" else ():
            if target.kind == "numbers" and self.score == "f":
                check_target(target, smallest)
            elif federation.setting == "vertical":
                check_sizes(np.bincount(classes_of(target, params)[0]), smallest)

    def _most_bins(self):
        """Bins of the finest column that the job asks for."""
        if self.score not in filter_features.BINNED_SCORES:
            return 0
        given = self.bins.values() if isinstance(self.bins, Mapping) else (self.bins,)
        counts = [int(b) for b in given if isinstance(b, numbers.Integral)]
        return max([0, *counts, *(len(b) + 1 for b in given if hasattr(b, "__len__"))])

    def _prepare_vertical(self, federation, params):
        holder = federation.label_holder or federation.parties[0]
        nodes = filters.build_nodes(
            federation.tables,
            holder,
            federation.target,
            federation.n_rows,
            params,
            self._checkpoints(),
        )
        return self._prepared(
            federation,
            params,
            filters.PROTOCOL,
            nodes,
            filter_messages.messages_used(params),
            notes=(self._encryption_note(params, "labels"), *self._notes(params)),
            min_bin_size=self._smallest_bin(params),
            epsilon=params.epsilon,
            release_epsilon=params.release_epsilon,
        )

    def _notes(self, params):
        """On budgets of privacy."""
        if not params.fixed_edges:
            return ()
        release = (params.release_epsilon, params.release_delta)
        return (*noise_notes(params), *release_notes(*release, "no score is told"))

    def _smallest_bin(self, params):
        """Rows of a bin at least; noise hides single rows in bins of any size."""
        binned = self.score in filter_features.BINNED_SCORES and not params.noisy
        smallest = 1 if params.releases else params.min_bin_size  # edges are fixed, none is merged
        return smallest if binned else None

    def _prepare_horizontal(self, federation, params):
        nodes = filters_horizontal.build_nodes(
            federation.tables, federation.targets, params, self._checkpoints()
        )
        return self._prepared(
            federation,
            params,
            filters_horizontal.PROTOCOL,
            nodes,
            filter_horizontal_messages.messages_used(params, _kind_of_labels(federation)),
            notes=(
                "Sums travel under pairwise one-time masks; no homomorphic encryption is needed.",
                *self._notes(params),
            ),
            min_bin_size=self._smallest_bin(params),
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

    def _check_noise(self):
        """Refuse settings under which noise would not protect what it promises to."""
        check_release(self.release_epsilon, self.checkpoint)
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

    def _check_tests(self):
        """Refuse p-values where there are none: without a label, and under a budget of privacy."""
        asked = "n_features_to_select='fdr'" if self.n_features_to_select == "fdr" else ""
        asked = asked or (f"n_permutations={self.n_permutations}" if self.n_permutations else "")
        if asked and self.score == "variance":
            raise ParameterError(
                f"{asked} with score='variance'.",
                "P-values say how likely a score is if the feature tells nothing of the label.",
                "Use a score that looks at the label.",
            )
        if asked and (self.epsilon is not None or self.release_epsilon is not None):
            raise ParameterError(
                f"{asked} together with a budget of differential privacy.",
                "P-values of exact scores would spend more than the budget, and those of noisy "
                "counts would mislead.",
                "Leave the epsilon out, or give a number of features.",
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

    def _opens_small_cells(self, policies, federation):
        """Whether all parties with different rows let cells of any size be opened."""
        named = filter_horizontal_messages.OpenTables.declaration
        return (
            federation.setting == "horizontal"
            and self.disclose != "scores"
            and self.score in filter_features.BINNED_SCORES
            and self.epsilon is None
            and all(policies.get(party, OPEN).allows(named) for party in federation.parties)
        )

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
                "Only gini, f and chi2 can be revealed without the counts behind them.",
                "Use disclose='auto' or 'counts', or another score.",
            )
        return self.disclose

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
            **name_ranking(ranking, names),
            parameters=_without_unused(self._settings(params, bins=_shown_bins(params)), params),
            crypto=params.scheme if federation.setting == "vertical" else "masked sums",
            seed=params.seed,
            warnings=tuple(remarks),
        )
        if params.fdr is not None and not result.n_selected:
            remark = none_passed(federation.n_features, params.fdr)
            result = msgspec.structs.replace(result, warnings=(*result.warnings, remark))
        result = with_errors(result, ranking, names)
        if params.noisy:
            result = with_spent(result, federation, params)
        return with_selection_spent(result, params) if params.releases else result


def _kind_of_labels(federation):
    """Whether the labels of parties with different rows are classes or numbers."""
    kinds = {target.kind for target in federation.targets.values() if target is not None}
    return "numbers" if "numbers" in kinds else "classes"


def _has_numbers(target):
    """Whether the one label of parties with different columns has numbers."""
    return target is not None and target.kind == "numbers"


def _names_and_remarks(facts):
    names, remarks = {}, []
    for party, known in facts:
        names[party] = known["names"]
        remarks += known.get("remarks", ())
    return names, remarks


def _without_unused(settings, params):
    """What was asked for, without what belongs to another way of selecting."""
    if params.fdr is not None:
        return settings | {"n_features_to_select": "fdr"}
    unused = {"fdr"} if params.n_permutations else {"fdr", "n_permutations"}
    return {name: value for name, value in settings.items() if name not in unused}


def _shown_bins(params):
    """Edges may be many, and columns have names."""
    return params.bins if isinstance(params.bins, int) else "given edges"
