# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attack on DCFS with open images: from anchors to projections to the rows behind them.

Method  dcfs with ``alignment="open"`` (paper 003 as printed).
Leak    A member knows the anchors X^a and sees every B_i X^a. With at least as many anchors as
        columns it solves for B_i. The alignment M_i can be computed from shared images, so W_i and
        H_i follow, and H_i W_i lies in the span of party i's rows: each iteration gives q more
        directions. Somebody's row that lies in that span was probably in the data.
Fix     Fewer anchors than columns (checked) end the recovery of B_i, not the inference of
        membership (:mod:`fedsift.lab.attacks.dcfs.anchor_membership`). What ends both is
        ``alignment="server"``: members see no images, and the coordinator, which does, does not
        know the anchors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedsift.methods.dcfs import anchor

Floats = npt.NDArray[np.float64]


def recover_projection(image: Floats, anchors: Floats) -> Floats:
    """B from B X^a by least squares; exact if there are as many anchors as columns."""
    from scipy.linalg import lstsq

    return np.asarray(lstsq(anchors, image.T, lapack_driver="gelsy")[0].T)


def row_span(
    images: Sequence[Mapping[str, Floats]],
    anchors: Floats,
    victim: str,
    n_components: int,
    target: anchor.Target = "paper",
) -> Floats:
    """Orthonormal directions that the victim's rows span, as far as the images tell.

    ``images`` holds all parties' images, iteration by iteration. The first projection lies in the
    span, and so does H W after every update. With ``target="exact"`` images are bases, which tell
    the space of W but not its row lengths and so not H, except for the first one, the identity.
    """
    used = images if target == "paper" else images[:2]
    own = [now[victim] for now in used]
    # One factorisation for all images: it is what takes the time.
    recovered = recover_projection(np.concatenate(own), anchors)
    projections = np.split(recovered, np.cumsum([len(image) for image in own])[:-1])
    directions = [projections[0].T]
    h = np.ones(anchors.shape[1])
    for now, B in zip(used, projections[1:], strict=False):
        if target == "paper":
            common = anchor.common_target(list(now.values()), n_components)
            B = anchor.alignment_matrix(common, now[victim]) @ B
        directions.append(h[:, None] * B.T)
        h = anchor.sparsity_weights(B.T)
    # Directions of very different lengths count alike: only where they point is of interest.
    unit = [d / np.maximum(np.linalg.norm(d, axis=0), 1e-300) for d in directions]
    left, singular, _ = np.linalg.svd(np.concatenate(unit, axis=1), full_matrices=False)
    return np.asarray(left[:, singular > 1e-9 * singular[0]])


def membership_scores(span: Floats, rows: Floats) -> Floats:
    """How much of each row lies in the span; members should score higher than strangers."""
    inside = ((rows @ span) ** 2).sum(axis=1)
    return np.asarray(inside / np.maximum((rows**2).sum(axis=1), 1e-300))
