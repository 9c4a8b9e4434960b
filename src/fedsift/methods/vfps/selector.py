# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``VFPSSelector``: which participants are worth having, before any model is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real

from fedsift.data import Federation
from fedsift.errors import ParameterError
from fedsift.methods.base import MethodSelector, params_of
from fedsift.methods.checks import SetupNeeds
from fedsift.methods.execution import build_result, policies_for, refuse_too_much
from fedsift.methods.vfps import METHOD
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.messages import (
    MESSAGES,
    AllRowDistances,
    PairedGroupDistances,
    SinglePartyDistances,
    messages_used,
)
from fedsift.methods.vfps.score_messages import SingleListParts
from fedsift.methods.vfps.search import MOST_SUBSETS
from fedsift.privacy.draws import private_seed
from fedsift.protocol import Policy
from fedsift.protocol.policy import OPEN


class VFPSSelector(MethodSelector, method=METHOD):
    """Select participants by the mutual information of their columns with the label.

    Scores groups of participants with a nearest-neighbour estimator on distances that nobody sees
    alone (VF-PS). Says which participants add most to the label holder's own columns, and how
    many of them clearly add. Selecting a participant selects all its columns.

    Attributes
    ----------
    selected_participants_ : list of str
        Besides the label holder where its columns are kept, in the order of choice.
    importances_ : dict of participant to float
        In nats; what it means depends on the strategy (see the documentation of the method).
    standard_errors_ : dict of participant to float
    gains_per_price_ : dict of participant to float
        Importances divided by prices; empty without prices.
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
        strategy="greedy",
        keep_own=True,
        prices=None,
        n_groups=50,
        k=3,
        n_queries=1000,
        fagin=True,
        batching=True,
        design="scores",
        distance="euclidean",
        scaling="parties",
        checkpoint=None,
        parties=4,
        he="auto",
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_participants = n_participants
        self.strategy = strategy
        self.keep_own = keep_own
        self.prices = prices
        self.n_groups = n_groups
        self.k = k
        self.n_queries = n_queries
        self.fagin = fagin
        self.batching = batching
        self.design = design
        self.distance = distance
        self.scaling = scaling
        self.checkpoint = checkpoint
        self.parties = parties
        self.he = he
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes: chosen participants, and how much each tells."""
        federation = prepared.federation
        found = outcome.value.found
        self.selected_participants_ = list(found.selected)
        self.importances_ = {p: found.importances[p].value for p in federation.tables}
        self.standard_errors_ = {p: found.importances[p].standard_error for p in federation.tables}
        self.gains_per_price_ = {
            p: self.importances_[p] / price for p, price in (prepared.params.prices or {}).items()
        }
        result = self._result(federation, prepared, prepared.params, outcome, facts)
        self._keep_selection(federation, result)

    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes, parameters and policies; every check that needs no message."""
        given = self._checked()
        federation = self._federate(X, y)
        self._check_federation(federation)
        own = federation.label_holder in federation.tables
        keeps = given["keep_own"] and own
        self._check_combination(given, keeps)
        candidates = [p for p in federation.tables if not (keeps and p == federation.label_holder)]
        n_participants = _number_of_participants(federation, candidates, keeps)
        prices = _checked_prices(given["prices"], candidates)
        refuse_too_much(self.policy, federation, groups=self.n_groups)
        auto = given["n_participants"] == "auto"
        wanted = n_participants
        if not auto:
            wanted = _number_wanted(given["n_participants"], n_participants, keeps)
        if self.strategy == "brute-force" and math.comb(n_participants, wanted) > MOST_SUBSETS:
            raise ParameterError(
                f"There are {math.comb(n_participants, wanted)} groups of {wanted} among "
                f"{n_participants} participants.",
                f"At most {MOST_SUBSETS} are tested one by one.",
                "Use strategy='greedy', which finds the same group in nearly all cases.",
            )
        policies = policies_for(self.policy, (*federation.parties, vfps.AGGREGATOR))
        needed = not keeps and self._needs_singles(federation, wanted)
        paired = Params(strategy=self.strategy, design=self.design).paired
        if (needed or paired) and self.policy is None and not isinstance(X, Federation):
            granted = {
                SinglePartyDistances: needed,
                SingleListParts: needed,
                PairedGroupDistances: paired,
            }
            policies = dict.fromkeys(federation.parties, _one_owner(granted))
        params = params_of(
            Params,
            given,
            n_participants=wanted,
            auto=auto,
            keep_own=keeps,
            prices=prices,
            singles=needed or (not keeps and self._may_use_singles(federation, policies)),
            all_rows=_all_allow(federation, policies, AllRowDistances),
            scheme=self._scheme(),
            seed=self._seed(),
            query_seed=private_seed(self._seed(), simulated=simulated),
        )
        nodes = vfps.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            params,
            self._checkpoints(),
        )
        return self._prepared(
            federation,
            params,
            vfps.PROTOCOL,
            nodes,
            messages_used(params),
            policies=policies,
            notes=(
                _protection_note(params)
                if params.scores
                else self._encryption_note(params, "distances"),
                *self._group_notes(params, needed),
            ),
        )

    def _wanted(self):
        """Some groups and distances are used only if all participants allow them."""
        return SetupNeeds(choices=(SinglePartyDistances, SingleListParts, AllRowDistances))

    def _check_combination(self, given, keeps):
        """Refuse settings that do not go together."""
        scores, words = given["design"] == "scores", []
        if keeps and not scores:
            words.append(("keep_own=True", "design", "design='scores', or keep_own=False"))
        if given["strategy"] == "submodular" and not scores:
            words.append(("strategy='submodular'", "design", "design='scores'"))
        if given["n_participants"] == "auto" and (given["strategy"] != "greedy" or not scores):
            words.append(("n_participants='auto'", "strategy", "a number"))
        if given["prices"] is not None and not scores:
            words.append(("prices", "design", "design='scores'"))
        for asked, other, instead in words[:1]:
            raise ParameterError(
                f"{asked} was given with {other}={given[other]!r}.",
                "The label holder's own columns, prices and the submodular strategy need means of "
                "scores (design='scores'); only the strategy 'greedy' knows when to stop.",
                f"Give {instead}.",
            )

    def _needs_singles(self, federation, wanted):
        """Whether the strategy cannot do without groups that hold one other party's data."""
        n_others = len(set(federation.tables) - {federation.label_holder})
        if self.design == "scores":  # the sum over two parties hides both
            n_parties = len(federation.tables)
            alone = self.strategy in ("individual", "submodular")
            return alone or n_parties <= 2 or wanted == 1
        if self.strategy == "individual" or n_others <= 2:
            return True
        return self.strategy in ("greedy", "brute-force") and wanted == 1

    def _may_use_singles(self, federation, policies):
        """Searches over all groups get better with groups of one: use them if all agree."""
        if self.strategy == "group-testing":
            return False
        return _all_allow(federation, policies, SinglePartyDistances)

    def _group_notes(self, params, needed):
        if params.singles:
            why = (
                "this strategy, or a federation with so few participants, needs them"
                if needed
                else "all policies allow them"
            )
            yield (
                "Groups with one participant's data are tested: "
                f"{why}. The {'aggregator' if params.scores else 'leader'} learns that "
                "participant's distances."
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
        kept = {*found.selected, *([federation.label_holder] if params.keep_own else [])}
        return build_result(
            federation,
            prepared,
            outcome,
            selected={
                party: list(table.feature_names) if party in kept else []
                for party, table in federation.tables.items()
            },
            participants=self.importances_,
            history=[
                {
                    "step": "importances",
                    "importances": self.importances_,
                    "standard_errors": self.standard_errors_,
                    "selected": self.selected_participants_,
                    **({"gains_per_price": self.gains_per_price_} if params.prices else {}),
                    **stats,
                },
                *found.history,
            ],
            parameters=self._settings(params, n_queries=stats["n_queries"]),
            crypto="masked sums" if params.scores and params.scheme != "plain" else params.scheme,
            seed=params.seed,
            warnings=(*remarks, *outcome.value.remarks, *notes),
        )


def _one_owner(granted):
    """Policy of parties in this process only, cut out of one table of the caller's."""
    messages = (m for m in MESSAGES if granted.get(m, not m.declaration.optional))
    kinds = dict.fromkeys(message.declaration.kind for message in messages)
    return Policy(may_reveal=tuple(kinds), min_security_bits=0, min_bin_size=1)


def _all_allow(federation, policies, message):
    """Whether every participant's policy names an optional disclosure."""
    declaration = message.declaration
    return all(policies.get(party, OPEN).allows(declaration) for party in federation.tables)


def _protection_note(params):
    """For the plan, where no ciphertexts are needed."""
    if params.scheme == "plain":
        return "Masks are OFF (security='plain'): distances travel in the clear."
    return (
        "Distances are summed under one-time masks and shuffled; the aggregator reads the sums of "
        "unnamed rows, and the leader rounded means over all queries."
    )


def _number_of_participants(federation, candidates, keeps):
    """How many there are to choose from."""
    if len(candidates) >= (1 if keeps else 2):
        return len(candidates)
    raise ParameterError(
        f"The federation has {len(candidates)} participant with columns "
        f"(n_features = {federation.n_features}).",
        "There must be two at least to choose from, or one besides the label holder's columns.",
        "Add a party, or split the columns over more parties.",
    )


def _number_wanted(wanted, n_participants, keeps):
    """A number or a share as a number; without own columns it leaves somebody out."""
    most = n_participants if keeps else n_participants - 1
    if isinstance(wanted, float):
        return min(most, max(1, round(wanted * n_participants)))
    if wanted <= most:
        return wanted
    raise ParameterError(
        f"n_participants={wanted}, and the federation has {n_participants} participants.",
        f"A whole number from 1 to {most} or a share between 0 and 1 is needed.",
        "Ask for fewer participants.",
    )


def _checked_prices(prices, candidates):
    """One positive number per candidate, or None."""
    if prices is None:
        return None
    known = dict(prices) if isinstance(prices, Mapping) else {}
    lacking = [name for name in candidates if name not in known]
    fits = {*known} <= {*candidates} and all(_is_price(price) for price in known.values())
    if isinstance(prices, Mapping) and not lacking and fits:
        return {name: float(known[name]) for name in candidates}
    raise ParameterError(
        f"prices names {len(known)} of {len(candidates)} participants, others, or values that are "
        "no prices.",
        f"One positive number for each of {', '.join(candidates)}.",
        "Give every participant that can be selected a price.",
    )


def _is_price(value):
    return not isinstance(value, bool) and isinstance(value, Real) and 0 < float(value) < math.inf
