# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Mutual information from counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def mutual_information(counts: npt.ArrayLike) -> Floats:
    """Mutual information of bin and class, in nats, of tables (n_features, n_bins, n_classes)."""
    table = np.asarray(counts, dtype=np.float64)
    joint = table / table.sum(axis=(1, 2), keepdims=True)
    independent = joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
    ratio = np.divide(joint, independent, out=np.ones_like(joint), where=joint > 0)
    return np.asarray(np.maximum((joint * np.log(ratio)).sum(axis=(1, 2)), 0.0))


def joint_counts(binned: Codes, codes: Codes) -> npt.NDArray[np.int64]:
    """Tables (n_features, n_bins, n_classes) of binned columns and one column of codes.

    Examples
    --------
    >>> joint_counts(np.array([[0, 1], [1, 1]]), np.array([0, 1])).tolist()
    [[[1, 0], [0, 1]], [[0, 0], [1, 1]]]
    """
    n_bins, n_classes = int(binned.max()) + 1, int(codes.max()) + 1
    joint = binned * n_classes + codes[:, None]
    counts = [np.bincount(column, minlength=n_bins * n_classes) for column in joint.T]
    return np.stack(counts).reshape(len(counts), n_bins, n_classes)
