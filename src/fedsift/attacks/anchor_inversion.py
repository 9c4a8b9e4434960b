# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attack on DCFS with open images: from anchors to projections to the rows behind them.

Method  dcfs with ``alignment="open"`` (paper 003 as printed).
Leak    A member knows the anchors X^a and sees every B_i X^a. With at least as many anchors as
        columns it solves for B_i. The alignment M_i can be computed from shared images, so W_i and
        H_i follow, and H_i W_i lies in the span of party i's rows: each iteration gives q more
        directions. Somebody's row that lies in that span was probably in the data.
Fix     Fewer anchors than columns (checked), and ``alignment="server"``: members see no images, and
        the coordinator, which does, does not know the anchors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fedsift.maths import anchor

Floats = npt.NDArray[np.float64]


def recover_projection(image: Floats, anchors: Floats) -> Floats:
    """B from B X^a by least squares; exact if there are as many anchors as columns."""
    return np.asarray(image @ np.linalg.pinv(anchors.T))


def row_span(
    images: Sequence[Mapping[str, Floats]], anchors: Floats, victim: str, n_components: int
) -> Floats:
    """Orthonormal directions that the victim's rows span, as far as the images tell.

    ``images`` holds all parties' images, iteration by iteration.
    """
    directions = []
    h = np.ones(anchors.shape[1])
    for now, later in pairwise(images):
        target = anchor.common_target(list(now.values()), n_components)
        M = anchor.alignment_matrix(target, now[victim])
        W = (M @ recover_projection(later[victim], anchors)).T
        directions.append(h[:, None] * W)
        h = anchor.sparsity_weights(W)
    left, singular, _ = np.linalg.svd(np.concatenate(directions, axis=1), full_matrices=False)
    return np.asarray(left[:, singular > 1e-9 * singular[0]])


def membership_scores(span: Floats, rows: Floats) -> Floats:
    """How much of each row lies in the span; members should score higher than strangers."""
    inside = ((rows @ span) ** 2).sum(axis=1)
    return np.asarray(inside / np.maximum((rows**2).sum(axis=1), 1e-300))
