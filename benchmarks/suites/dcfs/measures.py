# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What suite ``dcfs`` measures in a fresh process per case."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.baselines import oracles
from benchmarks.baselines.dcfs import baseline_scores
from fedsift.data import Federation, catalog, split_horizontal
from fedsift.methods.dcfs import anchor
from fedsift.methods.dcfs import settings as dcfs_settings
from fedsift.methods.dcfs.selector import DCFSSelector


def federation_of(job: dict[str, Any]) -> Federation:
    """Rows of a data set, or of generated clusters, dealt out at random."""
    if job["data"] == "generated":
        rng = np.random.default_rng(0)
        n_rows, n_features = job["rows"] * job["parties"], job["features"]
        X, y = rng.normal(size=(n_rows, n_features)), rng.integers(0, 4, n_rows)
        X[:, : n_features // 10] += 2 * rng.normal(size=(4, n_features // 10))[y]
    else:
        found = catalog.load(job["data"])
        X, y = np.asarray(found.X, dtype=np.float64), np.asarray(found.y)
    return split_horizontal(X, y, job["parties"], random_state=0, task="classification")


def update(job: dict[str, Any]) -> dict[str, Any]:
    """The n x n update against the m x m one, on the same numbers in the same run."""
    rng = np.random.default_rng(0)
    n, m, q = job["rows"], job["features"], 5
    X = rng.normal(size=(n, m))
    graph = anchor.neighbour_graph(X, 5)
    target, h = rng.normal(size=(q, n)), rng.uniform(0.5, 2.0, m)
    seconds = []
    for _ in range(9):
        start = time.perf_counter()
        small = anchor.update_weights(X, target, graph.laplacian, h, 1.0, 1.0)
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    literal = oracles.update_weights_literal(X, target, graph.laplacian, h, 1.0, 1.0)
    literal_seconds = time.perf_counter() - start
    return {
        "seconds": float(np.median(seconds)),
        "literal_seconds": literal_seconds,
        "ratio": literal_seconds / float(np.median(seconds)),
        "difference": float(np.abs(small - literal).max() / np.abs(literal).max()),
    }


def complete(job: dict[str, Any]) -> dict[str, Any]:
    """A complete run through the protocol, and how far it is from the open computation."""
    federation = federation_of(job)
    selector = DCFSSelector(
        n_features_to_select=50, alignment=job.get("alignment", "server"), random_state=0
    )
    start = time.perf_counter()
    selector.fit(federation)
    seconds = time.perf_counter() - start
    traffic = selector.result_.traffic
    measures = {
        "seconds": seconds,
        "bytes": traffic.n_bytes,
        "messages": traffic.messages,
        "rounds": traffic.rounds,
        "anchors": selector.result_.parameters["n_anchors"],
        "phases": selector.result_.timings,
    }
    if job.get("exact"):
        measures["difference"] = _difference(federation, selector)
    return measures


def _difference(federation: Federation, selector: Any) -> float:
    """Largest difference of any party's score from Algorithm 1 on open data."""
    parts = [table.numeric_matrix() for table in federation.tables.values()]
    params = dcfs_settings.Params(1, n_anchors=selector.result_.parameters["n_anchors"], seed=0)
    scales = [dcfs_settings.Scale.of_rows(part, "columns") for part in parts]
    anchors = dcfs_settings.anchors_for(params, b"", scales[0])
    wanted = oracles.collaborate(
        [scale.of(part) for scale, part in zip(scales, parts, strict=True)], anchors
    )
    found = selector.party_scores_.values()
    return float(max(np.abs(a - b).max() for a, b in zip(found, wanted, strict=True)))


def filters(job: dict[str, Any]) -> dict[str, Any]:
    """Federated variance and ANOVA against the pooled rows that the table is computed from."""
    from sklearn.feature_selection import f_classif

    federation = federation_of(job)
    parts = [table.numeric_matrix() for table in federation.tables.values()]
    pool = np.concatenate(parts)
    labels = [t.codes for t in federation.targets.values() if t is not None]
    start = time.perf_counter()
    variance = next(iter(baseline_scores(federation, "variance").values()))
    f = next(iter(baseline_scores(federation, "anova").values()))
    seconds = time.perf_counter() - start
    moving = pool.std(axis=0) > 0
    wanted = f_classif(pool[:, moving], np.concatenate(labels))[0]
    return {
        "seconds": seconds,
        "difference": float(
            max(
                np.abs(variance / pool.var(axis=0).clip(1e-300) - 1)[moving].max(),
                np.abs(f[moving] / wanted - 1).max(),
            )
        ),
    }


KINDS = {"update": update, "run": complete, "filters": filters}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """One case."""
    return KINDS[job["kind"]](job)
