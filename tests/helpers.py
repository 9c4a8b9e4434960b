"""Small federations and runs that many tests need."""

from __future__ import annotations

import numpy as np

from fedsift.data import Federation, split_vertical
from fedsift.engine import run_local
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import Codec


def labelled(n_rows=200, n_features=8, n_classes=2, seed=0):
    """Columns of falling relevance, one of them with many ties, and class labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    X = rng.normal(size=(n_rows, n_features))
    X += np.linspace(1.5, 0, n_features) * (y / max(1, n_classes - 1))[:, None]
    X[:, -1] = np.round(X[:, -1])
    return X, y


def run_filter(federation: Federation, params: Params, **options):
    """The vertical filter with all frames kept: outcome and nodes."""
    holder = federation.label_holder or federation.parties[0]
    nodes = filters.build_nodes(
        federation.tables, holder, federation.target, federation.n_rows, params
    )
    return run_local(filters.PROTOCOL, nodes, keep_frames=True, **options), nodes


def received(outcome, party, *types, protocol=filters.PROTOCOL):
    """Messages of some types as a party decoded them from its bytes."""
    codec = Codec(protocol.messages)
    return list(outcome.transcript.messages(party, codec, list(types)))


def bank_and_registry(X, y, **options):
    """All features at one party, the label at a party of its own."""
    return split_vertical(X, y, 1, label_holder=None, names=["bank"], **options)
