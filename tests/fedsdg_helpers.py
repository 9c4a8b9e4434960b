"""Small trainings of FedSDG-FS that several tests need."""

from __future__ import annotations

import numpy as np

from fedsift.data import split_vertical
from fedsift.engine import Observer, run_local
from fedsift.methods.fedsdg import label_holder as fedsdg
from fedsift.methods.fedsdg.messages import Params

SMALL = {
    "scheme": "plain", "seed": 0, "max_epochs": 2, "min_epochs": 0, "batch_size": 32,
    "embedding": 4, "outputs": 4, "init": "constant",
}  # fmt: skip


def moons(n_rows=120, n_features=6, n_classes=2, seed=0):
    """Columns of falling relevance and class labels, the classes of unequal size."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.minimum(np.arange(n_rows) * (n_classes + 1) // n_rows, n_classes - 1))
    centres = rng.normal(size=(n_classes, n_features)) * np.linspace(2.0, 0.0, n_features)
    return rng.normal(size=(n_rows, n_features)) + centres[y], y


def parties(X, y, n_parties=2, **options):
    """Columns divided among some parties, the label at one of its own."""
    return split_vertical(X, y, n_parties, label_holder=None, random_state=0, **options)


def params(**settings):
    return Params(**{**SMALL, **settings})


def train(federation, settings=None, nodes=None, **options):
    """One run with all frames kept: outcome and nodes."""
    settings = settings or params()
    made = fedsdg.build_nodes(
        federation.tables, federation.label_holder, federation.target, settings
    )
    made.update(nodes or {})
    options.setdefault("protected", settings.scheme != "plain")
    return run_local(fedsdg.PROTOCOL, made, keep_frames=True, **options), made


class EachEpoch(Observer):
    """Calls a function with the entry of every epoch."""

    def __init__(self, function):
        self._function = function

    def epoch(self, entry):
        self._function(entry)
