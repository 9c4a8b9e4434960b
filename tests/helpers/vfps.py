"""Small federations and runs of VF-PS."""

from __future__ import annotations

import numpy as np

from fedsift.data import split_vertical
from fedsift.engine import run_local
from fedsift.methods.vfps import distances as vfps_local
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.knn_mi import Alike, exact_terms, term_of_row
from fedsift.methods.vfps.messages import MESSAGES
from fedsift.protocol import Codec, Policy

ALL_KINDS = tuple(dict.fromkeys(m.declaration.kind for m in MESSAGES))
ALLOWING = Policy(may_reveal=ALL_KINDS, min_security_bits=0, min_bin_size=1)
PAIRING = Policy(
    may_reveal=tuple(
        m.declaration.kind
        for m in MESSAGES
        if not m.declaration.optional or m.declaration.kind == "paired-groups"
    ),
    min_security_bits=0,
    min_bin_size=1,
)
"""Names overlapping groups and nothing else that needs a name."""

PAPER = {
    "strategy": "group-testing",
    "design": "separate",
    "keep_own": False,
    "scaling": "columns",
}
"""The paper's way: the leader decrypts distances, and its own columns are judged like others."""


def blobs(n_rows=120, n_features=8, n_classes=3, seed=0, levels=None):
    """Classes around different centres; the first columns tell most."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    X = rng.normal(size=(n_rows, n_features)) + np.linspace(2, 0, n_features) * y[:, None]
    if levels:
        edges = np.quantile(X, np.linspace(0, 1, levels + 1)[1:-1])
        X = np.digitize(X, edges).astype(float)
    return X, y


def federation(X, y, parties=4, **options):
    options.setdefault("label_holder", None)
    return split_vertical(X, y, parties, **options)


def run(fed, *, policies="all", **settings):
    """The protocol with all frames kept; everything is allowed unless policies are given."""
    seed = settings.setdefault("seed", 0)
    simulated = {"scheme": "plain", "query_seed": seed, "n_queries": 20}
    params = vfps_local.Params(**{**simulated, **settings})
    nodes = vfps.build_nodes(fed.tables, fed.label_holder, fed.target, params)
    if policies == "all":
        policies = dict.fromkeys(nodes, ALLOWING)
    return run_local(vfps.PROTOCOL, nodes, policies=policies, keep_frames=True)


def labels_of(fed):
    target = fed.target
    return Alike(target.codes) if target.kind == "classes" else Alike(values=target.values)


def queries_of(fed, n_queries=20, seed=0):
    """The rows the leader draws with this seed."""
    usable = np.flatnonzero(labels_of(fed).usable)
    return np.random.default_rng(seed).permutation(usable)[:n_queries]


def oracle(fed, group, n_queries=20, k=3, *, exact=False, queries=None):
    """Mean term of a group from pooled columns: in fixed point, or in floating point."""
    labels = labels_of(fed)
    queries = queries_of(fed, n_queries) if queries is None else queries
    matrices = [vfps_local.standardised(fed.tables[name])[0] for name in group]
    if exact:
        return float(exact_terms(matrices, labels, queries, k).mean())
    m = len(fed.tables)
    terms = [
        term_of_row(sum(vfps_local.part_of_distance(x, q, m) for x in matrices), labels, q, k)
        for q in queries
    ]
    return float(np.mean(terms))


def scores(outcome):
    """Mutual information of every tested group."""
    rows = outcome.value.found.history
    return {tuple(row["group"]): row["mutual_information"] for row in rows}


def received(outcome, party, *types):
    """Messages of some types as a party decoded them from its bytes."""
    codec = Codec(vfps.PROTOCOL.messages)
    return list(outcome.transcript.messages(party, codec, list(types)))
