# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``VFPSSelector``: which participants are worth having, before any model is trained."""

from __future__ import annotations

import math
import numbers

from fedsift.data import Federation
from fedsift.errors import ParameterError
from fedsift.methods.checks import check_choices
from fedsift.methods.execution import PreparedRun, build_result, policies_for, rows_of
from fedsift.methods.needs import SetupNeeds
from fedsift.methods.running import MethodSelector
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.distances import DESIGNS, STRATEGIES, Params
from fedsift.methods.vfps.messages import (
    MESSAGES,
    AllRowDistances,
    SinglePartyDistances,
    messages_used,
)
from fedsift.methods.vfps.search import MOST_SUBSETS
from fedsift.protocol import Policy
from fedsift.protocol.policy import OPEN

_SCHEMES = {"auto": "bgv", "bgv": "bgv", "paillier": "paillier"}
_ONE_OWNER = Policy(
    may_reveal=tuple(
        dict.fromkeys(
            m.declaration.kind
            for m in MESSAGES
            if not m.declaration.optional or m is SinglePartyDistances
        )
    ),
    min_security_bits=0,
    min_bin_size=1,
)
"""For too few parties that exist in this process only, cut out of one table of the caller's."""


class VFPSSelector(MethodSelector):
    """Select participants by the mutual information of their columns with the label.

    Scores groups of participants with a nearest-neighbour estimator on encrypted distances
    (VF-PS). Selecting a participant selects all its columns.

    Parameters
    ----------
    n_participants : int or float
        How many participants to select, or which share of them; fewer than there are.
    strategy : {"group-testing", "greedy", "shapley", "individual", "brute-force"}
        ``group-testing`` (the paper) averages the scores of random groups. ``greedy`` builds the
        group with the highest joint score and sees through copies. ``shapley`` averages marginal
        scores over random orders. ``individual`` scores participants one by one. ``brute-force``
        tries every group of the wanted size.
    n_groups : int
        Test groups, or coalitions of ``shapley``; all possible ones if there are fewer.
    k : int
        Nearest neighbours of the query's own label.
    n_queries : int
        Rows that the score is averaged over; all rows if there are fewer. Separate designs use
        fewer where the leader would see too many distances, and say so in the result.
    fagin : bool
        Compare only rows that may be near. Fagin's algorithm finds them for overlapping groups and
        is given up, with a warning in the result, where it does not pay; separate groups find
        them by rounded sums. Without, all rows are compared, and separate groups need
        ``all-row-distances`` in every participant's ``may_reveal``.
    batching : bool
        One search serves all groups that are tested on the same query.
    design : {"separate", "shared"}
        Group testing only. ``separate`` never puts a participant into two sums of one query and
        limits how many distances the leader sees; ``shared`` (the paper) tests all groups on all
        queries, which is more precise for the same number of queries but lets the leader work out
        single participants' distances.
    checkpoint : path, optional
        Directory in which every party keeps its own state while the run goes on. If it holds an
        interrupted run of the same job, ``fit`` continues there.
    parties : int or list of column lists
        How to split arrays; ignored when ``fit`` gets a federation.
    he : {"auto", "bgv", "paillier"}
        Encryption; ``auto`` takes BGV, the faster one.
    security : {"secure", "plain"}
        ``plain`` runs the same protocol without encryption, for comparison only.
    policy : Policy, dict of party to Policy, or None
        Groups with one participant's data need ``single-party-distances`` in every participant's
        ``may_reveal``; federations with fewer than three participants besides the label holder
        need such groups. Parties cut out of one array grant it where it cannot be avoided, since
        their data is the caller's own; nothing else is granted by itself.
    random_state : int, RandomState or None
        Seeds the simulated split, the queries and the groups.

    Attributes
    ----------
    selected_participants_ : list of str
    importances_ : dict of participant to float
        In nats; what it means depends on the strategy (see the documentation of the method).
    standard_errors_ : dict of participant to float
    support_ : ndarray of bool of shape (n_features,)
        Columns of the selected participants.
    result_ : SelectionResult
        Selection, tested groups, cost, and who learned what.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from fedsift.methods.vfps.selector import VFPSSelector
    >>> X, y = load_wine(return_X_y=True)
    >>> selector = VFPSSelector(n_participants=2, parties=4, security="plain", random_state=0)
    >>> len(selector.fit(X, y).selected_participants_)
    2
    """

    def __init__(
        self,
        *,
        n_participants=1,
        strategy="group-testing",
        n_groups=50,
        k=3,
        n_queries=1000,
        fagin=True,
        batching=True,
        design="separate",
        checkpoint=None,
        parties=4,
        he="auto",
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_participants = n_participants
        self.strategy = strategy
        self.n_groups = n_groups
        self.k = k
        self.n_queries = n_queries
        self.fagin = fagin
        self.batching = batching
        self.design = design
        self.checkpoint = checkpoint
        self.parties = parties
        self.he = he
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def fit(self, X, y=None):
        """Run the protocol.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or Federation
        y : array-like of shape (n_samples,), optional
            Classes or numbers; the federation brings its own.

        Returns
        -------
        self : VFPSSelector
        """
        return self.run(X, y)

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes: chosen participants, and how much each tells."""
        federation = prepared.federation
        found = outcome.value.found
        self.selected_participants_ = list(found.selected)
        self.importances_ = {p: found.importances[p].value for p in federation.tables}
        self.standard_errors_ = {p: found.importances[p].standard_error for p in federation.tables}
        self.result_ = self._result(federation, prepared, prepared.params, outcome, facts)
        self.support_ = federation.original_support(
            {party: list(names) for party, names in self.result_.selected.items()}
        )

    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes, parameters and policies; every check that needs no message."""
        self._check_choices()
        federation = self._federate(X, y)
        n_participants = self._check_federation(federation)
        wanted = self._number_wanted(n_participants)
        if self.strategy == "brute-force" and math.comb(n_participants, wanted) > MOST_SUBSETS:
            raise ParameterError(
                f"There are {math.comb(n_participants, wanted)} groups of {wanted} among "
                f"{n_participants} participants.",
                f"At most {MOST_SUBSETS} are tested one by one.",
                "Use strategy='greedy', which finds the same group in nearly all cases.",
            )
        policies = policies_for(self.policy, (*federation.parties, vfps.AGGREGATOR))
        needed = self._needs_singles(federation, wanted)
        if needed and self.policy is None and not isinstance(X, Federation):
            policies = dict.fromkeys(federation.parties, _ONE_OWNER)
        params = Params(
            n_participants=wanted,
            strategy=self.strategy,
            n_groups=int(self.n_groups),
            k=int(self.k),
            n_queries=int(self.n_queries),
            fagin=bool(self.fagin),
            batching=bool(self.batching),
            design=self.design,
            singles=needed or self._may_use_singles(federation, policies),
            all_rows=_all_allow(federation, policies, AllRowDistances),
            scheme="plain" if self.security == "plain" else _SCHEMES[self.he],
            seed=self._seed(),
        )
        nodes = vfps.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            params,
            self._checkpoints(),
        )
        bits = 0 if params.scheme == "plain" else params.security_bits
        notes = (self._he_note(params), *self._group_notes(params, needed))
        return PreparedRun(
            protocol=vfps.PROTOCOL,
            nodes=nodes,
            used=messages_used(params),
            security_bits=bits,
            federation=federation,
            params=params,
            policies=policies,
            notes=notes,
            rows=rows_of(federation),
        )

    def _wanted(self):
        """Some groups and distances are used only if all participants allow them."""
        return SetupNeeds(choices=(SinglePartyDistances, AllRowDistances))

    def _check_choices(self):
        choices = {
            "strategy": (self.strategy, STRATEGIES),
            "design": (self.design, DESIGNS),
            "he": (self.he, tuple(_SCHEMES)),
            "security": (self.security, ("secure", "plain")),
        }
        check_choices(choices)
        for name in ("n_groups", "k", "n_queries"):
            value = getattr(self, name)
            if not _is_whole(value) or value < 1:
                raise ParameterError(
                    f"{name}={value!r}.",
                    "A whole number of at least 1 is needed.",
                    "Correct the parameter.",
                )

    def _check_federation(self, federation):
        """Number of participants, if the federation is one that can be chosen from."""
        if federation.setting != "vertical":
            raise ParameterError(
                "The federation is horizontal.",
                "VF-PS compares parties with different columns of the same rows.",
                "Use a vertical federation.",
            )
        if federation.target is None or federation.label_holder is None:
            raise ParameterError(
                "The federation has no label.",
                "Participants are judged by what their columns say about a label.",
                "Name the party and column of the label.",
            )
        if vfps.AGGREGATOR in federation.parties:
            raise ParameterError(
                f"A party is called {vfps.AGGREGATOR!r}.",
                "That name belongs to the neutral node that adds up.",
                "Rename the party.",
            )
        n_participants = len(federation.tables)
        if n_participants < 2:
            raise ParameterError(
                f"The federation has {n_participants} participant with columns "
                f"(n_features = {federation.n_features}).",
                "There must be two at least to choose from.",
                "Add a party, or split the columns over more parties.",
            )
        return n_participants

    def _number_wanted(self, n_participants):
        wanted = self.n_participants
        if isinstance(wanted, numbers.Real) and not isinstance(wanted, numbers.Integral):
            if 0 < float(wanted) < 1:
                return min(n_participants - 1, max(1, round(float(wanted) * n_participants)))
        elif _is_whole(wanted) and 1 <= wanted < n_participants:
            return int(wanted)
        raise ParameterError(
            f"n_participants={wanted!r}, and the federation has {n_participants} participants.",
            f"A whole number from 1 to {n_participants - 1} or a share between 0 and 1 is needed.",
            "Ask for fewer participants.",
        )

    def _needs_singles(self, federation, wanted):
        """Whether the strategy cannot do without groups that hold one other party's data."""
        n_others = len(set(federation.tables) - {federation.label_holder})
        if self.strategy == "individual" or n_others <= 2:
            return True
        return self.strategy in ("greedy", "brute-force") and wanted == 1

    def _may_use_singles(self, federation, policies):
        """Searches over all groups get better with groups of one: use them if all agree."""
        if self.strategy == "group-testing":
            return False
        return _all_allow(federation, policies, SinglePartyDistances)

    def _he_note(self, params):
        if params.scheme == "plain":
            return "Encryption is OFF (security='plain'): distances travel in the clear."
        reason = "chosen because it is the faster of the two" if self.he == "auto" else "as asked"
        return f"Encryption: {params.scheme}, {params.security_bits}-bit security ({reason})."

    def _group_notes(self, params, needed):
        if params.singles:
            why = (
                "this strategy, or a federation with so few participants, needs them"
                if needed
                else "all policies allow them"
            )
            yield (
                "Groups with one participant's data are tested: "
                f"{why}. The leader learns that participant's distances."
            )
        if params.separate and params.unlimited:
            why = "all policies allow it" if params.fagin else "fagin=False compares all rows"
            yield (
                f"The leader sees distances without a limit: {why}. Over many queries they are "
                "coordinates, and single participants' distances follow (kind "
                "'all-row-distances')."
            )
        if params.paired:
            yield (
                "Groups with common participants are tested on the same queries: the leader can "
                "work out single participants' distances from them (kind 'paired-groups')."
            )

    def _result(self, federation, prepared, params, outcome, facts):
        found, stats = outcome.value.found, outcome.value.stats
        remarks = [remark for _, known in facts for remark in known.get("remarks", ())]
        notes = tuple(self._group_notes(params, self._needs_singles(federation, 0)))
        return build_result(
            federation,
            prepared,
            outcome,
            selected={
                party: list(table.feature_names) if party in found.selected else []
                for party, table in federation.tables.items()
            },
            participants=self.importances_,
            history=[
                {
                    "step": "importances",
                    "importances": self.importances_,
                    "standard_errors": self.standard_errors_,
                    "selected": self.selected_participants_,
                    **stats,
                },
                *found.history,
            ],
            parameters={
                "n_participants": params.n_participants,
                "strategy": params.strategy,
                "n_groups": params.n_groups,
                "k": params.k,
                "n_queries": stats["n_queries"],
                "fagin": params.fagin,
                "batching": params.batching,
                "design": params.design,
                "security": str(self.security),
                "he": params.scheme,
            },
            crypto=params.scheme,
            seed=params.seed,
            warnings=(*remarks, *outcome.value.remarks, *notes),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _all_allow(federation, policies, message):
    """Whether every participant's policy names an optional disclosure."""
    declaration = message.declaration
    return all(policies.get(party, OPEN).allows(declaration) for party in federation.tables)


def _is_whole(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
