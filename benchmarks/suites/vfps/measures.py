# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What suite ``vfps`` measures in a fresh process per case."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fedsift.data import Federation, catalog, split_vertical
from fedsift.engine import run_local
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.distances import Params, standardised
from fedsift.methods.vfps.knn_mi import Alike, exact_terms
from fedsift.methods.vfps.messages import MESSAGES
from fedsift.protocol import Policy


def generated(n_rows: int, n_features: int, n_classes: int, seed: int) -> tuple[Any, Any]:
    """Columns of falling relevance; every fourth one has ties."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    X = rng.normal(size=(n_rows, n_features)) + np.linspace(1.5, 0, n_features) * y[:, None]
    X[:, ::4] = np.round(X[:, ::4])
    return X, y


def federation_of(job: dict[str, Any]) -> Federation:
    """Columns dealt out to participants, the label at a party of its own."""
    if job["data"] == "generated":
        X, y = generated(job["rows"], 2 * job["parties"], 3, 0)
    else:
        found = catalog.load(job["data"])
        X, y = np.asarray(found.X, dtype=np.float64), np.asarray(found.y)
    return split_vertical(X, y, job["parties"], label_holder=None, task="classification")


def run_method(
    federation: Federation, params: Params, leader: vfps.Leader | None = None
) -> tuple[Any, dict[str, Any]]:
    """A run in which everybody permits everything, and its nodes."""
    nodes = vfps.build_nodes(
        federation.tables, str(federation.label_holder), _target(federation), params
    )
    if leader is not None:
        nodes[str(federation.label_holder)] = (leader,)
    kinds = tuple({m.declaration.kind for m in MESSAGES})
    policy = Policy(may_reveal=kinds, min_security_bits=0, min_bin_size=1)
    outcome = run_local(
        vfps.PROTOCOL,
        nodes,
        policies=dict.fromkeys(nodes, policy),
        protected=params.scheme != "plain",
    )
    return outcome, dict(nodes)


def _target(federation: Federation) -> Any:
    return federation.target


def measure_selection(job: dict[str, Any]) -> dict[str, Any]:
    """Cost of one run on all its groups, and how far its scores are from the exact ones."""
    federation = federation_of(job)
    settings = {key: job[key] for key in ("fagin", "batching", "scheme", "singles") if key in job}
    params = Params(
        strategy=job["strategy"],
        n_groups=job["groups"],
        n_queries=job["queries"],
        n_participants=job.get("wanted", 1),
        design=job.get("design", "separate"),
        seed=0,
        query_seed=0,
        **settings,
    )
    start = time.perf_counter()
    outcome, nodes = run_method(federation, params)
    seconds = time.perf_counter() - start
    traffic = outcome.transcript.traffic()
    tested = [entry for entry in outcome.value.found.history if "group" in entry]
    measures = {
        "seconds": seconds,
        "bytes": traffic.n_bytes,
        "ciphertexts": traffic.ciphertexts,
        "messages": traffic.messages,
        "rounds": traffic.rounds,
        "groups": len(tested),
        "phases": outcome.timings,
        "remarks": list(outcome.value.remarks),
        **outcome.value.stats,
    }
    if job.get("exact"):
        leader = nodes[str(federation.label_holder)][0]
        measures["largest_error"] = _largest_error(federation, leader, tested, params)
    return measures


def _largest_error(
    federation: Federation, leader: Any, tested: list[dict[str, Any]], params: Params
) -> float:
    """Largest difference of a group's score from the plaintext estimator on the same queries."""
    target = _target(federation)
    labels = Alike(target.codes)
    parts = {name: standardised(table)[0] for name, table in federation.tables.items()}
    errors = []
    for entry in tested:
        columns = [parts[name] for name in entry["group"]]
        queries = leader.served.get(tuple(entry["group"])) or leader._queries.tolist()
        terms = exact_terms(columns, labels, queries, params.k)
        errors.append(abs(float(terms.mean()) - entry["mutual_information"]))
    return float(max(errors))


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """One case."""
    return measure_selection(job)
