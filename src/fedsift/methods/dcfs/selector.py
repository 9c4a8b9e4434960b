# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``DCFSSelector``: unsupervised selection by parties with different rows, via anchor data."""

from __future__ import annotations

import numpy as np

from fedsift.data.federation import local_only
from fedsift.errors import ParameterError
from fedsift.methods.base import MethodSelector, number_to_select, params_of
from fedsift.methods.checks import SetupNeeds, check_rows
from fedsift.methods.dcfs import METHOD, anchor
from fedsift.methods.dcfs import coordinator as dcfs
from fedsift.methods.dcfs import settings as dcfs_settings
from fedsift.methods.execution import build_result, refuse_too_much
from fedsift.privacy.draws import private_seed
from fedsift.protocol.policy import SMALLEST_CLASS

MAX_AUTO_ANCHORS = 500


class DCFSSelector(MethodSelector, method=METHOD):
    """Select features that keep the structure of all parties' rows; labels are not used.

    Attributes
    ----------
    support_, scores_, ranking_ : ndarray
        The joint selection by the mean score of all parties.
    party_scores_ : dict of party to ndarray
        Every party's own scores.
    party_support_ : dict of party to ndarray of bool
        What each party would select by its own scores.
    result_ : SelectionResult

    Examples
    --------
    >>> import fedsift as fs
    >>> from sklearn.datasets import load_wine
    >>> X, _ = load_wine(return_X_y=True)
    >>> selector = fs.DCFSSelector(n_features_to_select=4, parties=3, random_state=0).fit(X)
    >>> int(selector.support_.sum()), sorted(selector.party_scores_)
    (4, ['party-1', 'party-2', 'party-3'])
    """

    _allow_nan = False

    def __init__(
        self,
        *,
        n_features_to_select=10,
        alpha=1.0,
        beta=1.0,
        n_components=5,
        n_anchors="auto",
        alignment="server",
        target="exact",
        scale="own",
        scaling="columns",
        anchors=None,
        allow_many_anchors=False,
        n_iterations=5,
        n_dimensions=10,
        n_neighbors=5,
        checkpoint=None,
        parties=2,
        security="secure",
        policy=None,
        random_state=None,
    ):
        self.n_features_to_select = n_features_to_select
        self.alpha = alpha
        self.beta = beta
        self.n_components = n_components
        self.n_anchors = n_anchors
        self.alignment = alignment
        self.target = target
        self.scale = scale
        self.scaling = scaling
        self.anchors = anchors
        self.allow_many_anchors = allow_many_anchors
        self.n_iterations = n_iterations
        self.n_dimensions = n_dimensions
        self.n_neighbors = n_neighbors
        self.checkpoint = checkpoint
        self.parties = parties
        self.security = security
        self.policy = policy
        self.random_state = random_state

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes: the common ranking, and those of parties that are here."""
        federation, params = prepared.federation, prepared.params
        names = next(iter(federation.tables.values())).feature_names
        joint = outcome.value
        self.party_scores_ = {party: known["scores"] for party, known in facts if "scores" in known}
        self.party_support_ = {
            party: _best(scores, params.n_features_to_select)
            for party, scores in self.party_scores_.items()
        }
        parties = tuple(federation.tables)
        chosen = [names[i] for i in joint.selected]
        result = build_result(
            federation,
            prepared,
            outcome,
            selected=dict.fromkeys(parties, chosen),
            scores={p: dict(zip(names, joint.scores.tolist(), strict=True)) for p in parties},
            ranking={p: dict(zip(names, joint.ranks.tolist(), strict=True)) for p in parties},
            parameters=self._settings(
                params, without=("anchors",), given_anchors=params.anchors is not None
            ),
            crypto="masked sums",
            seed=params.seed,
        )
        self._keep_selection(federation, result)

    def _wanted(self):
        return SetupNeeds(labels=False)

    def _prepare(self, X, y=None, *, simulated=False):
        given = self._checked()
        # Without a seed the rows are still dealt out at random, as parties would hold them.
        fewest = max(dcfs_settings.FEWEST_ROWS, SMALLEST_CLASS)
        federation = self._federate(X, None, horizontal=True, needs_y=False, fewest=fewest)
        self._check_federation(federation)
        n_features = federation.n_features
        if n_features < 2:
            raise ParameterError(
                f"The federation has n_features = {n_features}.",
                "DCFS needs at least two columns.",
                "There is nothing to select from.",
            )
        anchors = self._given_anchors(n_features)
        n_anchors = (
            _number_of_anchors(given["n_anchors"], n_features) if anchors is None else len(anchors)
        )
        refuse_too_much(self.policy, federation, groups=n_anchors, epochs=self.n_iterations)
        params = params_of(
            dcfs_settings.Params,
            given,
            n_features_to_select=number_to_select(given["n_features_to_select"], n_features),
            n_anchors=n_anchors,
            anchors=anchors,
            many_anchors=self.alignment != "local"
            and dcfs_settings.check_anchors(
                n_anchors, n_features, allowed=given["allow_many_anchors"]
            ),
            protected=self.security == "secure",
            seed=private_seed(self._seed(), simulated=simulated),
        )
        nodes = dcfs.build_nodes(federation.tables, params, self._checkpoints())
        used, notes = dcfs.messages_used(params), _notes(params, n_features)
        return self._prepared(federation, params, dcfs.PROTOCOL, nodes, used, notes=notes)

    def _check_labels(self, prepared, smallest):
        """There are none: the rows of a party are what must not be few."""
        for table in local_only(prepared.federation.tables).values():
            check_rows(table.n_rows, smallest)

    def _given_anchors(self, n_features):
        """Public anchors as complete numbers of the right width, or None."""
        if self.anchors is None or self.alignment == "local":
            return None
        try:
            anchors = np.asarray(self.anchors, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                "The anchors are not a table of numbers.",
                f"Rows with {n_features} numbers each are needed.",
                "Give an array without text and with rows of equal length.",
            ) from error
        anchor.check_width(anchors, n_features)
        if not np.isfinite(anchors).all():
            raise ParameterError(
                "The anchors hold missing or infinite numbers.",
                "Every anchor needs a number in every column.",
                "Fill or leave out these rows.",
            )
        return anchors


def _number_of_anchors(wanted, n_features):
    return max(1, min(MAX_AUTO_ANCHORS, n_features // 4)) if wanted == "auto" else wanted


def _best(scores, n_select):
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(-scores, kind="stable")[:n_select]] = True
    return chosen


def _notes(params, n_features):
    """What a reader of the plan should know besides the disclosures."""
    if params.alignment == "local":
        return ("No anchors: every party selects alone, only mean ranks are joined.",)
    notes = [
        f"{params.n_anchors} anchors for {n_features} columns; images are disclosed as declared."
    ]
    if params.anchors_are_known:
        notes.append(
            "The anchors are public or drawn from the seed: whoever knows them, the coordinator "
            "included, can look at images as a member of the open mode could."
        )
    return tuple(notes)
