# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``DCFSSelector``: unsupervised selection by parties with different rows, via anchor data."""

from __future__ import annotations

import numbers

import numpy as np

from fedsift.data import Federation, split_horizontal
from fedsift.errors import ParameterError
from fedsift.methods.base import number_to_select, scores_in_order
from fedsift.methods.checks import check_choices
from fedsift.methods.dcfs import anchor
from fedsift.methods.dcfs import coordinator as dcfs
from fedsift.methods.dcfs import settings as dcfs_settings
from fedsift.methods.execution import PreparedRun, build_result, policies_for, rows_of
from fedsift.methods.needs import SetupNeeds
from fedsift.methods.running import MethodSelector

MAX_AUTO_ANCHORS = 500


class DCFSSelector(MethodSelector):
    """Select features that keep the structure of all parties' rows, without labels.

    Parameters
    ----------
    n_features_to_select : int or float
        A number, or a share of all features. The default 10 keeps all if there are fewer.
    alpha, beta : float
        Weight of sparsity and of each party's local structure.
    n_components : int
        Dimensions of the common target.
    n_anchors : int or "auto"
        Anchors in total; ``auto`` is a quarter of the columns, at most 500. As many anchors as
        columns give a party's projection away and are refused.
    alignment : {"server", "open", "local"}
        ``server`` returns to each party only its own alignment; ``open`` shows everybody every
        image, as the paper does; ``local`` has no anchors: every party selects alone (the paper's
        LFS) and only the mean of their ranks is joined (Borda).
    target : {"exact", "paper"}
        How images are joined. ``exact`` shares only the space an image spans and finds the
        directions that parties have in common; ``paper`` also weighs them by their lengths.
    scaling : {"columns", "shared"}
        ``columns`` gives every column the same spread; ``shared`` divides all columns by one
        number, for columns of one kind, such as pixels.
    anchors : array-like of shape (n_anchors, n_features), optional
        Public anchors in the units of the columns, instead of secret random ones. Everybody is
        then taken to know them, and the ledger says so.
    allow_many_anchors : bool
        Accept as many anchors as columns; the ledger then says what that discloses.
    n_iterations : int
        Alternating updates; every one sends one image more.
    n_dimensions, n_neighbors : int
        Dimensions of each party's first projection, and neighbours in its graph.
    checkpoint : path, optional
        Directory in which every party keeps its own state while the run goes on. If it holds an
        interrupted run of the same job, ``fit`` continues there.
    parties : int or array of row owners
        How to split arrays; ignored when ``fit`` gets a federation.
    security : {"secure", "plain"}
        ``plain`` sends sums without masks.
    policy : Policy, dict of party to Policy, or None
    random_state : int, RandomState or None
        Makes a simulation repeatable. Anchors drawn from a seed are no secret: whoever knows the
        seed knows them, and the ledger calls the images ``known-anchor-images``.

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

    def fit(self, X, y=None):
        """Run DCFS; labels are not used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame, or horizontal Federation
        y : ignored

        Returns
        -------
        self : DCFSSelector
        """
        return self.run(X, y)

    def keep_result(self, prepared, outcome, facts):
        """Fitted attributes: the common ranking, and the own ones of parties at home."""
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
        self.result_ = build_result(
            federation,
            prepared,
            outcome,
            selected=dict.fromkeys(parties, chosen),
            scores={p: dict(zip(names, joint.scores.tolist(), strict=True)) for p in parties},
            ranking={p: dict(zip(names, joint.ranks.tolist(), strict=True)) for p in parties},
            parameters=_shown(params),
            crypto="masked sums",
            seed=params.seed,
        )
        self.support_ = federation.original_support(dict.fromkeys(parties, chosen))
        self.scores_ = scores_in_order(federation, self.result_.scores)
        self.ranking_ = scores_in_order(federation, self.result_.ranking).astype(int)

    def _wanted(self):
        return SetupNeeds(labels=False)

    def _prepare(self, X, y=None, *, simulated=False):
        self._check_choices()
        federation = self._rows_federation(X)
        if federation.setting != "horizontal":
            raise ParameterError(
                "The federation is vertical.",
                "DCFS needs parties with different rows of the same columns.",
                "Use Federation.horizontal, or another method.",
            )
        n_features = federation.n_features
        if n_features < 2:
            raise ParameterError(
                f"The federation has n_features = {n_features}.",
                "DCFS needs at least two columns.",
                "There is nothing to select from.",
            )
        anchors = self._given_anchors(n_features)
        n_anchors = self._number_of_anchors(n_features) if anchors is None else len(anchors)
        params = dcfs_settings.Params(
            n_features_to_select=number_to_select(self.n_features_to_select, n_features),
            alpha=float(self.alpha),
            beta=float(self.beta),
            n_components=int(self.n_components),
            n_dimensions=int(self.n_dimensions),
            n_anchors=n_anchors,
            n_neighbors=int(self.n_neighbors),
            n_iterations=int(self.n_iterations),
            alignment=self.alignment,
            target=self.target,
            scaling=self.scaling,
            anchors=anchors,
            many_anchors=self.alignment != "local"
            and dcfs_settings.check_anchors(
                n_anchors, n_features, allowed=bool(self.allow_many_anchors)
            ),
            protected=self.security == "secure",
            seed=self._seed(),
        )
        nodes = dcfs.build_nodes(federation.tables, params, self._checkpoints())
        bits = 128 if params.protected else 0
        return PreparedRun(
            protocol=dcfs.PROTOCOL,
            nodes=nodes,
            used=dcfs.messages_used(params),
            security_bits=bits,
            federation=federation,
            params=params,
            policies=policies_for(self.policy, tuple(nodes)),
            notes=_notes(params, n_features),
            rows=rows_of(federation),
        )

    def _rows_federation(self, X):
        if isinstance(X, Federation):
            self._adopt_federation(X)
            return X
        X, _ = self._check_arrays(X, None, needs_y=False)
        parties = self.parties
        if isinstance(parties, numbers.Integral):
            parties = max(2, min(int(parties), len(X) // dcfs_settings.FEWEST_ROWS))
        # Without a seed the rows are still dealt out at random, as parties would hold them.
        return split_horizontal(X, None, parties, random_state=self._seed() or 0)

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

    def _number_of_anchors(self, n_features):
        if isinstance(self.n_anchors, str) and self.n_anchors == "auto":
            return max(1, min(MAX_AUTO_ANCHORS, n_features // 4))
        if isinstance(self.n_anchors, (int, np.integer)) and self.n_anchors >= 1:
            return int(self.n_anchors)
        raise ParameterError(
            f"n_anchors={self.n_anchors!r}.",
            "A positive whole number or 'auto' is needed.",
            "Use 'auto' for a quarter of the columns.",
        )

    def _check_choices(self):
        choices = {
            "alignment": ("server", "open", "local"),
            "target": ("exact", "paper"),
            "scaling": ("columns", "shared"),
            "security": ("secure", "plain"),
        }
        check_choices({name: (getattr(self, name), choices[name]) for name in choices})
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
                raise ParameterError(
                    f"{name}={value!r}.", "A positive number is needed.", "Correct the setting."
                )
        for name in ("n_components", "n_iterations", "n_dimensions", "n_neighbors"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ParameterError(
                    f"{name}={value!r}.",
                    "A positive whole number is needed.",
                    "Correct the setting.",
                )


def _best(scores, n_select):
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(-scores, kind="stable")[:n_select]] = True
    return chosen


def _shown(params):
    """Settings as JSON."""
    hidden = ("seed", "protected", "anchors")
    shown = {name: value for name, value in vars(params).items() if name not in hidden}
    return {**shown, "given_anchors": params.anchors is not None}


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
