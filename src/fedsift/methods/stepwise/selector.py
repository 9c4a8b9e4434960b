# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``StepwiseSelector``: which features add to those there are, how many, and how sure that is."""

from __future__ import annotations

from fedsift.data.federation import local_only
from fedsift.errors import ParameterError
from fedsift.methods.base import MethodSelector, params_of
from fedsift.methods.checks import ResultNeeds, SetupNeeds, class_minimum
from fedsift.methods.execution import (
    build_result,
    history_of,
    name_ranking,
    policies_for,
    refuse_too_much,
)
from fedsift.methods.stepwise import (
    METHOD,
    coordinator,
    horizontal_messages,
    label_holder,
    messages,
)
from fedsift.methods.stepwise.messages import ALL, MRMR, Params, number_wanted
from fedsift.methods.stepwise.report import name_steps
from fedsift.privacy.draws import private_seed


class StepwiseSelector(MethodSelector, method=METHOD):
    """Select features one by one by what each adds to those selected before.

    A copy of a selected feature adds nothing, so near copies do not fill the list. By default the
    features that the label holder has are there from the start, and the selection stops when the
    best remaining feature explains no more than shuffled labels let expect. For parties with
    different columns of the same rows, or different rows of the same columns (give ``fit`` a
    horizontal :class:`~fedsift.Federation`). Categories become one column each, a missing number is
    the mean and a column of its own.

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
        Features that were added, and those that were kept.
    scores_ : ndarray of shape (n_features,)
        Partial F statistic when the feature was added or, of others, at the end.
    ranking_ : ndarray of int of shape (n_features,)
        Added features in their order from 1, then those that were kept, then all others.
    added_ : list of (str, str)
        Party and name of the features that were added, in order; the party is ``all`` where
        parties have different rows.
    gains_ : dict of str to (float, float)
        What all columns of a party together add to those that were kept, as a share of the
        variance of the label, and its standard error.
    n_features_to_select_ : int
        How many features were added.
    result_ : SelectionResult
        Selection, cost, and who learned what.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> import fedsift as fs
    >>> X, y = load_wine(return_X_y=True)
    >>> selector = fs.StepwiseSelector(n_features_to_select=2, keep_own=False, random_state=0)
    >>> selector.fit(X, y).get_support(indices=True)
    array([6, 9])
    """

    def __init__(
        self,
        *,
        n_features_to_select="auto",
        criterion="partial",
        min_bin_size=5,
        ridge=None,
        keep_own=True,
        adjust=(),
        fdr=0.1,
        checkpoint=None,
        parties=2,
        he="auto",
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_features_to_select = n_features_to_select
        self.criterion = criterion
        self.min_bin_size = min_bin_size
        self.ridge = ridge
        self.keep_own = keep_own
        self.adjust = adjust
        self.fdr = fdr
        self.checkpoint = checkpoint
        self.parties = parties
        self.he = he
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes in the order of the original columns."""
        federation, found = prepared.federation, outcome.value
        remarks = [remark for _, known in facts for remark in known.get("remarks", ())]
        if federation.setting == "horizontal":
            names = {ALL: list(next(iter(federation.tables.values())).feature_names)}
            steps = name_steps(found.steps, names)
            names = dict.fromkeys(federation.tables, names[ALL])
            found = coordinator.for_parties(found, tuple(federation.tables))
        else:
            names = {party: known["names"] for party, known in facts if known["names"]}
            steps = name_steps(found.steps, names)
        result = self._result(federation, prepared, outcome, found, names, steps, remarks)
        self._keep_selection(federation, result)
        added = [(s.get("party", ALL), s["feature"]) for s in steps if s["step"] == "add"]
        self.added_ = list(dict.fromkeys(added))
        self.gains_ = dict(found.gains)
        self.n_features_to_select_ = len(self.added_)

    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes and parameters; every check that needs no message."""
        given = self._checked()
        federation = self._federate(X, y, horizontal=self._splits_rows())
        self._check_federation(federation)
        refuse_too_much(self.policy, federation)
        policies = policies_for(self.policy, (*federation.parties, "coordinator"))
        vertical = federation.setting == "vertical"
        own = federation.tables.get(federation.label_holder) if vertical else None
        adjust = self._adjusted(federation)
        n_own = 0 if own is None else own.n_columns
        n_kept = n_own if vertical and self.keep_own else len(adjust)
        params = params_of(
            Params,
            given | {"adjust": adjust},
            n_features_to_select=number_wanted(
                given["n_features_to_select"], federation.n_features - n_kept
            ),
            scheme=self._scheme(),
            min_class_size=class_minimum(policies, federation),
            numeric_label=given["criterion"] != MRMR
            and any(
                target is not None and target.kind == "numbers"
                for target in (federation.target, *federation.targets.values())
            ),
            own_columns=own is not None,
            seed=private_seed(self._seed(), simulated=simulated),
        )
        _check_criterion(params, vertical=vertical)
        if vertical:
            return self._prepare_vertical(federation, params)
        return self._prepare_horizontal(federation, params)

    def _prepare_horizontal(self, federation, params):
        columns = next(iter(federation.tables.values())).feature_names
        nodes = coordinator.build_nodes(
            federation.tables,
            federation.targets,
            params,
            [columns.index(name) for name in params.adjust],
            self._checkpoints(),
        )
        return self._prepared(
            federation,
            params,
            coordinator.PROTOCOL,
            nodes,
            horizontal_messages.messages_used(params),
            notes=(
                "Sums travel under pairwise one-time masks; no homomorphic encryption is needed.",
            ),
        )

    def _check_labels(self, prepared, smallest):
        """Of one label holder; labels of parties with different rows are added up first."""
        if prepared.federation.setting == "vertical":
            super()._check_labels(prepared, smallest)

    def _wanted(self):
        return SetupNeeds(common_words=True)

    def _prepare_vertical(self, federation, params):
        nodes = label_holder.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            federation.n_rows,
            params,
            self._checkpoints(),
        )
        n_holders = sum(party != federation.label_holder for party in federation.tables)
        return self._prepared(
            federation,
            params,
            label_holder.PROTOCOL,
            nodes,
            messages.messages_used(params, n_holders),
            min_bin_size=params.min_bin_size if params.binned else None,
            notes=(self._encryption_note(params, "columns and labels"),),
        )

    def _adjusted(self, federation):
        """Covariates: features of the label holder, or of all parties."""
        given = self.adjust
        names = (given,) if isinstance(given, str) else tuple(map(str, given))
        for party, table in local_only(federation.tables).items():
            unknown = [name for name in names if name not in table.feature_names]
            if unknown and party == (federation.label_holder or party):
                raise ParameterError(
                    f"adjust names {unknown[0]!r}, which is no feature of {party!r}.",
                    "Features to start with belong to the party with the label, or to all.",
                    "Correct the name, or leave it out.",
                )
        return names

    def _asked(self, setting):
        return ResultNeeds(order=setting == "vertical")

    def _result(self, federation, prepared, outcome, found, names, steps, remarks):
        """Join what the parties keep for themselves; in a simulation all are at home here."""
        params = prepared.params
        gains = {party: gain for party, (gain, _) in found.gains.items()}
        errors = {party: error for party, (_, error) in found.gains.items()}
        history = [*steps, {"standard_errors": errors}] if errors else steps
        return build_result(
            federation,
            prepared,
            outcome,
            **_by_name(found, names),
            participants=gains,
            history=history + list(history_of(outcome.transcript)),
            parameters=self._settings(params, n_shuffles=found.n_shuffles),
            crypto=params.scheme if federation.setting == "vertical" else "masked sums",
            seed=params.seed,
            warnings=tuple(remarks),
        )


def _by_name(found, names):
    """Selected names, scores, ranks, p-values and q-values by party."""
    more = {
        what: {
            party: dict(zip(names[party], values.tolist(), strict=True))
            for party, values in getattr(found, what).items()
        }
        for what in ("p_values", "q_values")
    }
    return more | name_ranking(found, names)


def _check_criterion(params, *, vertical):
    """Counts of rows do not say where to stop, and need bins that one party makes."""
    if not params.binned:
        return
    number = params.n_features_to_select
    if isinstance(number, str):
        raise ParameterError(
            f'criterion="mrmr" with n_features_to_select="{number}".',
            "Relevance less redundancy does not say where chance begins.",
            "Give a number or a share, or use criterion='partial'.",
        )
    if not vertical:
        raise ParameterError(
            'criterion="mrmr" with parties that have different rows.',
            "Each feature has to have bins of one party's making.",
            "Use criterion='partial', or a filter with score='mi'.",
        )
