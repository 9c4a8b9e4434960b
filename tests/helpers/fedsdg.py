"""Small trainings of FedSDG-FS that several tests need."""

from __future__ import annotations

import numpy as np

import fedsift as fs
from fedsift.data import split_vertical
from fedsift.engine import Observer, run_local
from fedsift.methods.fedsdg import label_holder as fedsdg
from fedsift.methods.fedsdg.messages import Params

ALLOWING = fs.Policy(
    may_reveal=tuple({m.declaration.kind for m in fedsdg.PROTOCOL.messages}),
    min_security_bits=0, min_bin_size=1,
)  # fmt: skip

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
    return run_paper(made, keep_frames=True, **options), made


def run_paper(nodes, **options):
    """The paper's protocol, whose kinds every policy names."""
    policies = options.pop("policies", dict.fromkeys(nodes, ALLOWING))
    return run_local(fedsdg.PROTOCOL, nodes, policies=policies, **options)


QUICK = {"embedding": 3, "outputs": 2, "max_epochs": 2, "min_epochs": 0, "random_state": 0}
"""A few batches through a narrow layer: enough to see whether two runs agree."""


def shifted(n_rows=48, n_features=10, n_classes=2, seed=0):
    """Three columns move with the class, the others are noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_features))
    X[:, :3] += 1.5 * y[:, None]
    return X, y


PAPER = {
    "protocol": "paper",
    "policy": fs.Policy(
        may_reveal=("basic", "common-ids", "training", "paper-training"),
        min_security_bits=0,
        min_bin_size=1,
    ),
}
"""The protocol that opens numbers of single rows, and leave to do so."""


def quick(**settings):
    """A selector of the paper's protocol that takes a moment; plain unless told otherwise."""
    return fs.FedSDGSelector(**{"security": "plain", **PAPER, **QUICK, **settings})


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


class EachEpoch(Observer):
    """Calls a function with the entry of every epoch."""

    def __init__(self, function):
        self._function = function

    def epoch(self, entry):
        self._function(entry)
