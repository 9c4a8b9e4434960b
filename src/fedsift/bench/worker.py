# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One measurement in a fresh process: ``python -m fedsift.bench.worker '{"kind": ...}'``.

A process of its own gives an honest peak memory and no help from earlier cases.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np


def generated(n_rows: int, n_features: int, n_classes: int, seed: int) -> tuple[Any, Any]:
    """Gaussian columns, a tenth of them shifted by class, so that scores are not all alike."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    relevant = max(1, n_features // 10)
    X[:, :relevant] += np.linspace(1.0, 0.1, relevant) * y[:, None]
    return X, y


def run_filter(job: dict[str, Any]) -> dict[str, Any]:
    """A complete filter run: label holder on its own, all features at another party."""
    from fedsift.data import split_vertical
    from fedsift.selectors import FilterSelector

    X, y = generated(job["rows"], job["features"], job["classes"], job["seed"])
    federation = split_vertical(X, y, 1, label_holder=None)
    selector = FilterSelector(
        job.get("score", "gini"),
        n_features_to_select=min(10, job["features"]),
        bins=job["bins"],
        disclose=job["disclose"],
        he=job["he"] if job["he"] != "plain" else "auto",
        security="plain" if job["he"] == "plain" else "secure",
        random_state=0,
    )
    start = time.perf_counter()
    selector.fit(federation)
    seconds = time.perf_counter() - start
    traffic = selector.result_.traffic
    return {
        "seconds": seconds,
        "bytes": traffic.n_bytes,
        "ciphertexts": traffic.ciphertexts,
        "rounds": traffic.rounds,
        "messages": traffic.messages,
        "phases": selector.result_.timings,
        "checksum": float(np.round(selector.scores_, 6).sum()),
    }


def run_python_paillier(job: dict[str, Any]) -> dict[str, Any]:
    """python-paillier, one ciphertext per sample and class: timed on a part and scaled.

    What is counted: encrypt every sample's class indicator, add the ciphertexts of every bin of
    every feature, decrypt every bin. Nothing is packed.
    """
    from phe import paillier

    rows, features, classes, bins = (job[k] for k in ("rows", "features", "classes", "bins"))
    public, private = paillier.generate_paillier_keypair(n_length=3072)
    part = job["part"]
    start = time.perf_counter()
    ciphertexts = [public.encrypt(i % 2) for i in range(part)]
    encrypt = (time.perf_counter() - start) / part
    start, n_additions = time.perf_counter(), 20 * part
    total = ciphertexts[0]
    for i in range(n_additions):
        total = total + ciphertexts[i % part]
    add = (time.perf_counter() - start) / n_additions
    start = time.perf_counter()
    for ciphertext in ciphertexts[: part // 2]:
        private.decrypt(ciphertext)
    decrypt = (time.perf_counter() - start) / (part // 2)
    n_encrypt, n_add, n_decrypt = (
        rows * classes,
        rows * classes * features,
        features * bins * classes,
    )
    return {
        "seconds": encrypt * n_encrypt + add * n_add + decrypt * n_decrypt,
        "phases": {
            "encrypt": encrypt * n_encrypt,
            "evaluate": add * n_add,
            "decrypt": decrypt * n_decrypt,
        },
        "bytes": (n_encrypt + n_decrypt) * 2 * 3072 // 8,
        "ciphertexts": n_encrypt + n_decrypt,
        "scaled": True,
    }


def main() -> None:
    """Read a job from the command line, print its measures as JSON."""
    job = json.loads(sys.argv[1])
    run = run_python_paillier if job["he"] == "python-paillier" else run_filter
    measures = run(job)
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    measures["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    sys.stdout.write(json.dumps(measures) + "\n")


if __name__ == "__main__":
    main()
