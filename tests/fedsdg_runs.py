"""Small federations and quick settings for the tests of FedSDG-FS."""

from __future__ import annotations

import numpy as np

import fedsift as fs

QUICK = {"embedding": 3, "outputs": 2, "max_epochs": 2, "min_epochs": 0, "random_state": 0}
"""A few batches through a narrow layer: enough to see whether two runs agree."""


def shifted(n_rows=48, n_features=10, n_classes=2, seed=0):
    """Three columns move with the class, the others are noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_features))
    X[:, :3] += 1.5 * y[:, None]
    return X, y


def quick(**settings):
    """A selector that takes a moment; plain unless told otherwise."""
    return fs.FedSDGSelector(**{"security": "plain", **QUICK, **settings})


def course(selector):
    """Everything the epochs told, but for the bytes, which encryption adds to."""
    left_out = ("n_bytes", "max_epochs")
    return [{k: v for k, v in entry.items() if k not in left_out} for entry in selector.history_]


def assert_same_run(one, other, rows=None):
    """Two runs are the same to the last bit: losses, gates, selection, and predictions of rows."""
    assert course(one) == course(other)
    assert np.array_equal(one.scores_, other.scores_)
    assert np.array_equal(one.support_, other.support_)
    assert one.result_.selected == other.result_.selected
    if rows is not None:
        assert np.array_equal(one._predicted(rows), other._predicted(rows))
