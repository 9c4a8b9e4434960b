# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Membership inference against DCFS from images of few anchors.

Method  dcfs, any number of anchors.
Leak    A party's first projection, and its weights after the first update (when H is still the
        identity), lie exactly in the span of its rows. Images are these directions under the
        anchors, and a random linear map keeps angles: nothing has to be solved for. The share of an
        anchored candidate row that lies in the span of the images tells members from strangers,
        with far fewer anchors than columns. This is stronger than inverting the anchors as
        :mod:`fedsift.lab.attacks.dcfs.anchor_inversion` does, except where that is exact.
Fix     ``alignment="server"``: members see no images, and the coordinator, which does, does not
        know the anchors, so it cannot tell where a candidate row would fall. It comes down to the
        two not colluding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_EXACT_IMAGES = 2
"""The first projection and the first weights: later weights are distorted by an unknown H."""


def membership_by_images(images: Sequence[Floats], anchors: Floats, rows: Floats) -> Floats:
    """Share of every anchored candidate row inside the span of one party's first images.

    Parameters
    ----------
    images : sequence of ndarray of shape (p, r)
        One party's images, iteration by iteration.
    anchors : ndarray of shape (r, m)
        What the attacker takes for the anchors.
    rows : ndarray of shape (n_candidates, m)
        Candidates in common units.
    """
    return _share_inside(np.concatenate(images[:_EXACT_IMAGES]), rows @ anchors.T)


def membership_by_alignments(
    alignments: Sequence[Floats], images: Sequence[Floats], anchors: Floats, rows: Floats
) -> Floats:
    """The same for a member that sees no images but its own, and how they are aligned.

    What a member can see of the common target is the target's part inside its own image.
    """
    seen = [M @ image for M, image in zip(alignments, images, strict=False)]
    return _share_inside(np.concatenate(seen), rows @ anchors.T)


def images_of(received: Sequence[Mapping[str, Floats]], victim: str) -> list[Floats]:
    """One party's images out of everybody's, iteration by iteration."""
    return [images[victim] for images in received]


def _share_inside(directions: Floats, points: Floats) -> Floats:
    _, singular, basis = np.linalg.svd(directions, full_matrices=False)
    basis = basis[singular > 1e-9 * max(float(singular[0]), 1e-300)]
    inside = ((points @ basis.T) ** 2).sum(axis=1)
    return np.asarray(inside / np.maximum((points**2).sum(axis=1), 1e-300))
