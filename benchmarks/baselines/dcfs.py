# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Scores of the selections DCFS should be compared with, for any horizontal federation.

Two kinds. ``lfs``, ``borda``, ``variance`` and ``anova`` run a real federated protocol and may be
used in its place. ``afs`` pools all rows, which only a simulation may do; ``all`` and ``random``
need no rows at all.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation
from fedsift.errors import ParameterError
from fedsift.lab.pooled import pooled_scores
from fedsift.methods.dcfs.selector import DCFSSelector
from fedsift.methods.filter.selector import FilterSelector

Floats = npt.NDArray[np.float64]

BASELINES = ("all", "random", "lfs", "borda", "afs", "variance", "anova")


def baseline_scores(
    federation: Federation,
    kind: str,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    n_components: int = 5,
    random_state: int | None = None,
) -> dict[str, Floats]:
    """Scores of every column by party, higher is better.

    Parameters
    ----------
    federation : Federation
        Horizontal.
    kind : {"all", "random", "lfs", "borda", "afs", "variance", "anova"}
        ``lfs``: every party by itself; ``borda``: mean of these ranks; ``afs``: pooled rows;
        ``variance`` and ``anova``: federated filters, the latter with labels; ``random``: one draw
        for all parties; ``all``: every column alike.
    alpha, beta, n_components
        Of ``lfs``, ``borda`` and ``afs``, as in :class:`DCFSSelector`.
    random_state : int, optional
        Of ``random``.

    Returns
    -------
    scores : dict of party to ndarray of shape (n_features,)

    Examples
    --------
    >>> import fedsift as fs
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> federation = fs.split_horizontal(X, y, 2, random_state=0)
    >>> scores = baseline_scores(federation, "variance")
    >>> int(scores["party-1"].argmax())
    12
    """
    if kind not in BASELINES:
        raise ParameterError(
            f"kind={kind!r}.", f"One of {', '.join(BASELINES)} is needed.", "Choose one."
        )
    if federation.setting != "horizontal":
        raise ParameterError(
            "The federation is vertical.",
            "These baselines need parties with different rows of the same columns.",
            "Use Federation.horizontal.",
        )
    if kind in ("lfs", "borda"):
        settings = {"alpha": alpha, "beta": beta, "n_components": n_components}
        selector = DCFSSelector(alignment="local", n_features_to_select=1.0, **settings)
        selector.fit(federation)
        own: dict[str, Floats] = selector.party_scores_
        return own if kind == "lfs" else dict.fromkeys(federation.tables, selector.scores_)
    n_features = federation.n_features
    if kind == "random":
        joint = np.random.default_rng(random_state).random(n_features)
    elif kind == "all":
        joint = np.ones(n_features)
    elif kind == "afs":
        joint = pooled_scores(federation, alpha=alpha, beta=beta, n_components=n_components)
    else:
        score = "variance" if kind == "variance" else "f"
        joint = FilterSelector(score, n_features_to_select=1.0).fit(federation).scores_
    return dict.fromkeys(federation.tables, joint)
