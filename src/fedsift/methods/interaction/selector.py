# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``InteractionSelector``: features that tell more about the label together than alone."""

from __future__ import annotations

import math

import numpy as np

from fedsift.crypto.products.plan import PRIME_BITS, plan_products
from fedsift.data.remote_table import local_only
from fedsift.errors import ParameterError
from fedsift.methods.base import number_to_select, scores_in_order
from fedsift.methods.checks import check_choices
from fedsift.methods.execution import PreparedRun, build_result, history_of, policies_for, rows_of
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction.fixed_point import scales_of
from fedsift.methods.interaction.measures import SECURE
from fedsift.methods.interaction.messages import Params, messages_used
from fedsift.methods.interaction.parties import check_columns
from fedsift.methods.naming import named
from fedsift.methods.needs import ResultNeeds
from fedsift.methods.running import MethodSelector

_NOT_SECURE = ("iwfs", "paper_literal")


class InteractionSelector(MethodSelector):
    """Select features one by one by relevance and interaction, on encrypted columns and labels.

    Every round takes the feature with the largest ``R = w * (1 + relevance)`` and multiplies the
    weight ``w`` of the others by their interaction with it: above 1 for a feature that tells more
    together with the selected one, below 1 for one that repeats it. For parties with different
    columns of the same rows. A neutral party ``cloud`` computes under BGV; only the party with the
    labels can decrypt.

    Parameters
    ----------
    n_features_to_select : int, float or "auto"
        A number, a share of all features, or ``"auto"``: stop when the best remaining feature no
        longer beats what shuffled labels reach. The default 10 keeps all if there are fewer.
    measure : {"miw", "paper"}
        ``miw`` works on moments of standardised columns. ``paper`` is the published measure with
        its sign corrected; it cuts columns at their mean.
    checkpoint : path, optional
        Directory in which every party keeps its own state while the run goes on. If it holds an
        interrupted run of the same job, ``fit`` continues there.
    parties : int or list of column lists
        How to split arrays; ignored when ``fit`` gets a federation.
    security : {"secure", "plain"}
        ``plain`` runs the same protocol without encryption, for comparison only.
    policy : Policy, dict of party to Policy, or None
    random_state : int, RandomState or None
        Seeds the simulated split, the secret orders and shuffled labels. Masks, keys and the
        low-bit noise of scores always come from the operating system, so that scores of two runs
        agree to about 14 bits.

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
    array([6, 9])
    """

    def __init__(
        self,
        *,
        n_features_to_select=10,
        measure="miw",
        checkpoint=None,
        parties=2,
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_features_to_select = n_features_to_select
        self.measure = measure
        self.checkpoint = checkpoint
        self.parties = parties
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def fit(self, X, y=None):
        """Run the interaction protocol.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or Federation
            Numbers; missing ones count as the mean of their column.
        y : array-like of shape (n_samples,), optional
            Classes, or numbers that are cut into quartiles; the federation brings its own.

        Returns
        -------
        self : InteractionSelector
        """
        return self.run(X, y)

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes in the order of the original columns."""
        federation, ranking = prepared.federation, outcome.value
        names = {party: known["names"] for party, known in facts if known["names"]}
        remarks = [remark for _, known in facts for remark in known["remarks"]]
        self.operations_ = _added([known["operations"] for _, known in facts])
        result = self._result(federation, prepared, prepared.params, outcome, names, remarks)
        self.result_ = result
        self.support_ = federation.original_support(
            {party: list(chosen) for party, chosen in result.selected.items()}
        )
        self.scores_ = scores_in_order(federation, result.scores)
        self.ranking_ = scores_in_order(federation, result.ranking).astype(int)
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
        self._check_choices()
        federation = self._federate(X, y)
        if federation.setting != "vertical" or federation.target is None:
            raise ParameterError(
                f"The federation is {federation.setting}, "
                f"{'without' if federation.target is None else 'with'} a label.",
                "Interactions need parties with different columns of the same rows, and a label.",
                "Use Federation.vertical with label=(party, column).",
            )
        for table in local_only(federation.tables).values():
            check_columns(table, self.measure)
        params = Params(
            measure=self.measure,
            n_features_to_select=self._number(federation.n_features),
            scheme="plain" if self.security == "plain" else "bgv",
            seed=self._seed(),
        )
        nodes = interaction.build_nodes(
            federation.tables,
            federation.label_holder,
            federation.target,
            federation.n_rows,
            params,
            self._checkpoints(),
        )
        bits = 0 if params.scheme == "plain" else params.security_bits
        return PreparedRun(
            protocol=interaction.PROTOCOL,
            nodes=nodes,
            used=messages_used(params),
            security_bits=bits,
            federation=federation,
            params=params,
            policies=policies_for(self.policy, tuple(nodes)),
            notes=self._notes(params, federation),
            rows=rows_of(federation),
        )

    def _asked(self, setting):
        return ResultNeeds(order=True, operations=True)

    def _number(self, n_features):
        """How many to select; None stops by itself."""
        if isinstance(self.n_features_to_select, str):
            if self.n_features_to_select == "auto":
                return None
            raise ParameterError(
                f"n_features_to_select={self.n_features_to_select!r}.",
                "A positive whole number, a share in (0, 1] or 'auto' is needed.",
                "Choose one.",
            )
        return number_to_select(self.n_features_to_select, n_features)

    def _check_choices(self):
        if self.measure in _NOT_SECURE:
            raise ParameterError(
                f"measure={self.measure!r} exists on open data only.",
                f"One of {', '.join(SECURE)} is needed.",
                "Use fedsift.methods.interaction.measures.oracle to compare with it.",
            )
        choices = {
            "measure": (self.measure, SECURE),
            "security": (self.security, ("secure", "plain")),
        }
        check_choices(choices)

    def _notes(self, params, federation):
        if params.scheme == "plain":
            return (
                "Encryption is OFF (security='plain'): columns and labels travel in the clear.",
            )
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
            **named(ranking, names),
            history=_course(ranking, names) + list(history_of(outcome.transcript)),
            parameters={
                "measure": params.measure,
                "n_features_to_select": (
                    "auto" if params.n_features_to_select is None else params.n_features_to_select
                ),
                "security": str(self.security),
                "noise_bits": params.noise_bits,
                "threshold": ranking.threshold,
                "operations": self.operations_,
            },
            crypto=params.scheme,
            seed=params.seed,
            warnings=tuple(remarks),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


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
