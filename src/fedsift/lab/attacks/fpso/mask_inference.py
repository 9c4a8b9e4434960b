# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FPSO-FS: which columns matter at which party, from the subsets that appear in a run.

Method    fpso (paper 004).
Leak      In every round a party sends the third party the subset that serves it best. Over the
          rounds its useful columns stay and the others come and go (:func:`from_own_subsets`).
          The other participants see the same subsets without their owners.
Fix       ``mode="federated-fitness"``: the third party moves one swarm by pooled accuracies, so no
          subset is anybody's (:func:`from_common_subsets` has nothing to tell parties apart by).
Remains   The default mode is the paper's; it declares ``local-subset``. With two parties the subset
          that is not one's own is the other's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]


def from_own_subsets(subsets: Sequence[Masks]) -> Floats:
    """How much each column seems to matter at each party: its share of the party's subsets.

    Parameters
    ----------
    subsets : sequence of ndarray of shape (n_parties, n_features)
        One per round.
    """
    return np.asarray(np.mean(np.stack(subsets), axis=0), dtype=np.float64)


def from_common_subsets(masks: Masks, values: Floats, n_parties: int) -> Floats:
    """The same from pooled values of subsets that are nobody's: one guess for all parties."""
    used, unused = masks.sum(axis=0), (~masks).sum(axis=0)
    with_it = (masks * values[:, None]).sum(axis=0) / np.maximum(used, 1)
    without = (~masks * values[:, None]).sum(axis=0) / np.maximum(unused, 1)
    return np.tile(with_it - without, (n_parties, 1))


def told_apart(importance: Floats, owners: npt.NDArray[np.int64]) -> float:
    """How often a column that matters at one party only is put down to that party.

    For each such column and each other party the importance at the two is compared; equal counts
    as half.

    Parameters
    ----------
    importance : ndarray of shape (n_parties, n_features)
    owners : ndarray of shape (n_features,)
        The party at which a column matters; -1 for columns that matter nowhere.

    Examples
    --------
    >>> told_apart(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0, 1]))
    0.75
    """
    points = []
    for feature in np.flatnonzero(owners >= 0):
        own = importance[owners[feature], feature]
        others = np.delete(importance[:, feature], owners[feature])
        points += np.where(others == own, 0.5, others < own).tolist()
    return float(np.mean(points))
