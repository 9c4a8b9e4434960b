# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``InteractionSelector``: features that tell more about the label together than alone."""

from __future__ import annotations

import math

import numpy as np

from fedsift.crypto.products.plan import PRIME_BITS, plan_products
from fedsift.data.federation import local_only
from fedsift.errors import ParameterError
from fedsift.methods.base import MethodSelector, number_or_auto, params_of
from fedsift.methods.checks import ResultNeeds, check_sizes, class_minimum, targets_here
from fedsift.methods.execution import (
    build_result,
    history_of,
    name_ranking,
    policies_for,
    refuse_too_much,
)
from fedsift.methods.interaction import METHOD
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction.fixed_point import scales_of
from fedsift.methods.interaction.measures import ORACLES, SECURE, is_binary
from fedsift.methods.interaction.messages import Params, messages_used
from fedsift.methods.interaction.parties import check_columns
from fedsift.methods.interaction.ranking import classes_of
from fedsift.methods.interaction.search import number_paired
from fedsift.privacy.draws import private_seed


class InteractionSelector(MethodSelector, method=METHOD):
    """Select features one by one by relevance and interaction, on encrypted columns and labels.

    Every round takes the feature with the largest ``R = w * (1 + relevance)`` and multiplies the
    weight ``w`` of the others by their interaction with it: above 1 for a feature that tells more
    together with the selected one, below 1 for one that repeats it. For parties with different
    columns of the same rows. A neutral party ``cloud`` computes under BGV; only the party with the
    labels can decrypt. Missing numbers count as the mean of their column; labels that are numbers
    are cut into quartiles.

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
    scores_ : ndarray of shape (n_features,)
        R when the feature was selected, or at the end; 0 for constant features.
    ranking_ : ndarray of int of shape (n_features,)
        Order of selection from 1; then the others by R, constant features last.
    relevance_ : ndarray of shape (n_features,)
    interaction_ : ndarray of shape (n_features, n_features)
        Weight of a feature (row) with a selected one (column); NaN where not computed.
    p_values_, q_values_ : ndarray of shape (n_features,)
        Of the relevance of every feature alone; NaN for constant features.
    threshold_ : float or None
        What shuffled labels reach, with ``n_features_to_select="auto"``.
    operations_ : dict of str to int
        Encryptions, products, rotations and decryptions of all parties.
    result_ : SelectionResult
        Selection, cost, and who learned what.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from fedsift.methods.interaction.selector import InteractionSelector
    >>> X, y = load_wine(return_X_y=True)
    >>> selector = InteractionSelector(n_features_to_select=2, random_state=0).fit(X, y)
    >>> selector.get_support(indices=True)
    array([ 6, 12])
    """

    def __init__(
        self,
        *,
        n_features_to_select=10,
        measure="miw",
        pair_start="auto",
        checkpoint=None,
        parties=2,
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_features_to_select = n_features_to_select
        self.measure = measure
        self.pair_start = pair_start
        self.checkpoint = checkpoint
        self.parties = parties
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes in the order of the original columns."""
        federation, ranking = prepared.federation, outcome.value
        names = {party: known["names"] for party, known in facts if known["names"]}
        remarks = [remark for _, known in facts for remark in known["remarks"]]
        self.operations_ = _added([known["operations"] for _, known in facts])
        result = self._result(federation, prepared, prepared.params, outcome, names, remarks)
        self._keep_selection(federation, result)
        self.n_features_to_select_ = int(self.support_.sum())
        self.threshold_ = ranking.threshold
        columns = {
            (party, name): position
            for party, table in federation.tables.items()
            for name, position in zip(
                table.feature_names, federation.column_order[party], strict=True
            )
        }
        places = [columns[party, names[party][number]] for party, number in ranking.features]
        self.relevance_ = np.zeros(federation.n_features)
        self.relevance_[places] = ranking.relevance
        self.interaction_ = np.full((federation.n_features,) * 2, np.nan)
        if places:
            self.interaction_[np.ix_(places, places)] = ranking.interaction

    def _prepare(self, X, y=None, *, simulated=False):
        """Federation, nodes and parameters; every check that needs no message."""
        self._check_measure()
        given = self._checked()
        federation = self._federate(X, y)
        self._check_federation(federation)
        refuse_too_much(self.policy, federation)
        for table in local_only(federation.tables).values():
            check_columns(table, self.measure)
        params = params_of(
            Params,
            given,
            n_features_to_select=number_or_auto(
                given["n_features_to_select"], federation.n_features
            ),
            n_paired=self._n_paired(given, federation.n_features),
            scheme=self._scheme(),
            seed=private_seed(self._seed(), simulated=simulated),
        )
        policies = policies_for(self.policy, (*federation.parties, interaction.CLOUD))
        nodes = interaction.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            federation.n_rows,
            params,
            self._checkpoints(),
            class_minimum(policies, federation),
        )
        used = messages_used(params, federation.n_features)
        notes = self._notes(params, federation)
        return self._prepared(federation, params, interaction.PROTOCOL, nodes, used, notes=notes)

    def _check_labels(self, prepared, smallest):
        """Numbers are cut into classes first."""
        for target in targets_here(prepared.federation):
            codes = classes_of(target, prepared.params.target_bins)
            check_sizes(np.bincount(codes), smallest)

    def _asked(self, setting):
        return ResultNeeds(order=True, operations=True)

    def _check_measure(self):
        if self.measure in set(ORACLES) - set(SECURE):
            raise ParameterError(
                f"measure={self.measure!r} exists on open data only.",
                f"One of {', '.join(SECURE)} is needed.",
                "Use fedsift.methods.interaction.measures.oracle to compare with it.",
            )

    def _n_paired(self, given, n_features):
        """Columns of the pair start."""
        if is_binary(self.measure):
            if isinstance(given["pair_start"], int):
                raise ParameterError(
                    f"pair_start={given['pair_start']} with measure={self.measure!r}.",
                    "Only the measure 'miw' starts with pairs.",
                    "Leave pair_start out, or use the measure 'miw'.",
                )
            return 0
        wanted = number_or_auto(given["n_features_to_select"], n_features)
        return number_paired(given["pair_start"], n_features, wanted)

    def _notes(self, params, federation):
        if params.scheme == "plain":
            return (self._encryption_note(params, "columns and labels"),)
        # The same plan that the run will make: refuses what does not fit before any message.
        bits = scales_of(params.measure, federation.n_rows).result_bits
        counts = [table.n_columns for table in federation.tables.values() if table.n_columns]
        if not counts:  # at a site without data, which was told no numbers by party
            return ()
        plan = plan_products(federation.n_rows, 2, counts, bits)
        return (
            f"Encryption: BGV, {params.security_bits}-bit security, ring degree {plan.slots}, "
            f"{len(plan.moduli)} plaintext primes of {PRIME_BITS} bits.",
        )

    def _result(self, federation, prepared, params, outcome, names, remarks):
        """Join what the parties keep for themselves; in a simulation all are at home here."""
        ranking = outcome.value
        return build_result(
            federation,
            prepared,
            outcome,
            **name_ranking(ranking, names),
            history=_course(ranking, names) + list(history_of(outcome.transcript)),
            parameters=self._settings(
                params,
                n_features_to_select="auto"
                if params.n_features_to_select is None
                else params.n_features_to_select,
                noise_bits=params.noise_bits,
                threshold=ranking.threshold,
                operations=self.operations_,
            ),
            crypto=params.scheme,
            seed=params.seed,
            warnings=tuple(remarks),
        )


def _course(ranking, names):
    """Relevances, then one entry per selected feature: all of it numbers the label owner opened."""
    labels = [(party, names[party][number]) for party, number in ranking.features]

    def by_party(values):
        told: dict[str, dict[str, float]] = {}
        for (party, name), value in zip(labels, values.tolist(), strict=True):
            if not math.isnan(value):
                told.setdefault(party, {})[name] = value
        return told

    entries = [{"step": "relevance", "relevance": by_party(ranking.relevance)}] if labels else []
    for place in ranking.order:
        party, number = ranking.features[place]
        entries.append(
            {
                "step": "select",
                "party": party,
                "feature": names[party][number],
                "score": float(ranking.scores[party][number]),
                "weights": by_party(ranking.interaction[:, place]),
            }
        )
    return entries


def _added(counts):
    """Operations of all parties together."""
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total
