# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS: the label holder solves the interactive layer for a feature holder's embedding.

Method    fedsdg (paper 000, Algorithms 2 and 3).
Leak      The label holder sees z = g W. If it knows W, g is a regression away. In the paper noise
          on the weights starts with the second batch; the first batch gives g away, g gives the
          step of W, and so on: one batch without noise is all of them (:func:`follow`).
Fix       W = V - E with uniform E from the first batch on, and half of the starting weights drawn
          by the feature holder. What the label holder has of W is V, which is uniform, and its own
          half of the start (:func:`follow` from there leads nowhere).
          Outputs are summed over feature holders, and blurred at the size of what rounding g does
          to them anyway: exact sums of integers would give columns away (:func:`exact_columns`).
Remains   Outputs are the embedding up to an unknown linear map. Somebody who knows the embedding of
          about as many rows as it has columns fits that map (:func:`fit_map`); summed outputs of
          several feature holders fit less well. With one embedding column and one feature holder
          each output is that column up to a factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fedsift.lab.attacks.fedsdg.layer_views import LabelHolderView
from fedsift.lab.attacks.fedsdg.small_factors import small_factor

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def solve(outputs: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
    """The embedding behind outputs for weights the attacker believes in; least squares."""
    z, w = (np.asarray(part, dtype=np.float64) for part in (outputs, weights))
    return np.asarray(np.linalg.lstsq(w.T, z.T, rcond=None)[0].T)


def follow(start: Integers, views: Sequence[LabelHolderView]) -> Iterator[Floats]:
    """The embedding of every batch, from a belief about the starting weights.

    Every solved batch tells the layer's next step, since the attacker sent the gradient itself:
    one feature holder, as many outputs as embedding columns.
    """
    weights = start.astype(np.float64)
    for view in views:
        embedding = solve(view.outputs, weights)
        yield embedding
        if view.delta is not None:
            weights = weights - np.rint(embedding).T @ view.delta


def fit_map(
    known: npt.ArrayLike,
    known_outputs: npt.ArrayLike,
    outputs: npt.ArrayLike,
    *,
    penalised: bool = False,
) -> Floats:
    """Embeddings of all rows from the embeddings of a few, by the linear map that fits those.

    For one feature holder the map is exact. For sums over several it is not; then a penalty, the
    one that does best when one known row is left out, makes more of few known rows.
    """
    seen, hidden, wanted = (
        np.asarray(part, dtype=np.float64) for part in (known_outputs, known, outputs)
    )
    if not penalised:
        return np.asarray(wanted @ np.linalg.lstsq(seen, hidden, rcond=None)[0])
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-12, 3, 31)))
    return np.asarray(model.fit(seen, hidden).predict(wanted))


def exact_columns(outputs: Integers, n_holders: int, n_rows: int = 10) -> list[Floats] | None:
    """Embedding columns behind one output of a layer with one column per feature holder.

    Works on the first rows and extends what it finds to the others by the weights it implies.

    Returns
    -------
    list of ndarray of shape (n_rows,) or None
        Up to sign and order; None if the outputs are not exact products.
    """
    found = small_factor(outputs[:n_rows, None], rank=n_holders)
    return None if found is None else [column.astype(np.float64) for column in found.T]


def explained(guess: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Coefficient of determination, mean over columns that vary: 1 exact, 0 as good as the mean."""
    g, t = (np.asarray(part, dtype=np.float64) for part in (guess, truth))
    spread = ((t - t.mean(axis=0)) ** 2).sum(axis=0)
    varies = spread > 0
    left = ((g - t) ** 2).sum(axis=0)
    return float(np.mean(1 - left[varies] / spread[varies]))


def likeness(guess: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Squared correlation, mean over columns that vary: blind to scale and offset."""
    g, t = (np.asarray(part, dtype=np.float64) for part in (guess, truth))
    g, t = g - g.mean(axis=0), t - t.mean(axis=0)
    sizes = np.linalg.norm(g, axis=0) * np.linalg.norm(t, axis=0)
    varies = sizes > 0
    return float(np.mean(((g * t).sum(axis=0)[varies] / sizes[varies]) ** 2))
