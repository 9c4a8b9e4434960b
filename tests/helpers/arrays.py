"""Small arrays and federations that many tests need."""

from __future__ import annotations

import numpy as np

from fedsift.data import split_vertical


def labelled(n_rows=200, n_features=8, n_classes=2, seed=0):
    """Columns of falling relevance, one of them with many ties, and class labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    X = rng.normal(size=(n_rows, n_features))
    X += np.linspace(1.5, 0, n_features) * (y / max(1, n_classes - 1))[:, None]
    X[:, -1] = np.round(X[:, -1])
    return X, y


def bank_and_registry(X, y, **options):
    """All features at one party, the label at a party of its own."""
    return split_vertical(X, y, 1, label_holder=None, names=["bank"], **options)
