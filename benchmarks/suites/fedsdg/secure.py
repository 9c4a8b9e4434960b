# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure runs of FedSDG-FS, one per fresh process: ``python -m benchmarks.worker fedsdg.secure JOB``.

Identity: an encrypted and a plain training of the same seed agree in every loss, every gate and the
selection. Cost: of one whole encrypted training, and of one batch of python-paillier. Prediction:
what travels with and without closed embedding columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.baselines.fedsdg import PAPER
from benchmarks.suites.fedsdg.accuracy import load, split
from benchmarks.worker import peak_memory
from fedsift.data import Federation
from fedsift.methods.fedsdg.selector import FedSDGSelector

Job = Mapping[str, Any]


def _federation(job: Job) -> tuple[Federation, Federation]:
    X, y, _ = load(job["data"])
    if job.get("rows"):
        X, y = X[: job["rows"]], y[: job["rows"]]
    return split(X, y, job["seed"], job["clients"])


def _selector(job: Job, **settings: Any) -> FedSDGSelector:
    given = {**PAPER, **job.get("settings", {}), **settings}
    return FedSDGSelector(random_state=job["seed"], **given)


def identity(job: Job) -> dict[str, Any]:
    """Train twice, encrypted and not, and compare everything."""
    training, test = _federation(job)
    _load_torch()
    start = time.perf_counter()
    secure = _selector(job, he=job["he"]).fit(training)
    seconds = time.perf_counter() - start
    # Before the plain run, which is not what is being measured.
    peak = peak_memory()
    start = time.perf_counter()
    plain = _selector(job, security="plain").fit(training)
    plain_seconds = time.perf_counter() - start
    traffic = secure.result_.traffic
    steps = _n_batches(secure)
    few = _first_rows(test, job.get("predicted", test.n_rows))
    return {
        "seconds": seconds,
        "plain_seconds": plain_seconds,
        "ratio": seconds / plain_seconds,
        "identical": {
            "losses": _column(secure, "training_loss", "validation_loss")
            == _column(plain, "training_loss", "validation_loss"),
            "gates": bool(np.array_equal(secure.scores_, plain.scores_)),
            "open gates": _column(secure, "open_features", "open_embeddings")
            == _column(plain, "open_features", "open_embeddings"),
            "selection": secure.result_.selected == plain.result_.selected,
            "predictions": bool(
                np.array_equal(secure.predict_proba(few), plain.predict_proba(few))
            ),
        },
        "epochs": secure.n_epochs_,
        "batches": steps,
        "n_features": int(secure.support_.sum()),
        "bytes": traffic.n_bytes,
        "ciphertexts": traffic.ciphertexts,
        "rounds": traffic.rounds,
        "messages": traffic.messages,
        "bytes_per_batch_and_client": _training_bytes(traffic) / steps / job["clients"],
        "phases": secure.result_.timings,
        "peak_memory": peak,
    }


def _load_torch() -> None:
    """The first optimiser of a process imports half of PyTorch: seconds that are no training."""
    import torch

    torch.optim.Adam([torch.zeros(1, requires_grad=True)])


def _column(selector: FedSDGSelector, *names: str) -> list[list[float]]:
    return [[entry[name] for name in names] for entry in selector.history_]


def _n_batches(selector: FedSDGSelector) -> int:
    """Training batches of the whole run, counted from what was sent."""
    rows = [r for r in selector.result_.traffic.rows if r.message == "Gradients"]
    return int(max(row.messages for row in rows))


def _training_bytes(traffic: Any) -> int:
    """Bytes that belong to batches: everything but initialisation and keys."""
    per_batch = ("BatchWanted", "EncryptedBatch", "MaskedOutputs", "OutputShare", "SingleOutputs")
    return sum(row.n_bytes for row in traffic.rows if row.message in (*per_batch, "Gradients"))


def _first_rows(federation: Federation, n_rows: int) -> Federation:
    rows = np.arange(min(n_rows, federation.n_rows))
    target = None if federation.target is None else federation.target.take(rows)
    tables = {party: table.take(rows) for party, table in federation.tables.items()}
    return replace(federation, tables=tables, target=target)


def prediction(job: Job) -> dict[str, Any]:
    """Bytes of a prediction with closed embedding columns left out, and with all of them."""
    training, test = _federation(job)
    rows = _first_rows(test, job["predicted"])
    sizes, seconds = {}, {}
    for name, gates in (("fixed width", "input"), ("gated", "dual")):
        trained = _selector(job, security="plain", gates=gates).fit(training)
        expected = trained.predict_proba(rows)
        _reshare(trained, job["he"])
        trained.params_ = replace(trained.params_, scheme=job["he"])
        start = time.perf_counter()
        same = bool(np.array_equal(trained.predict_proba(rows), expected))
        seconds[name] = time.perf_counter() - start
        traffic = trained.prediction_traffic_
        keys = sum(row.n_bytes for row in traffic.rows if row.message == "LayerKeys")
        sizes[name] = {"bytes": traffic.n_bytes, "without keys": traffic.n_bytes - keys}
        sizes[name]["ciphertexts"] = traffic.ciphertexts
        sizes[name]["same predictions"] = same
    widths = trained.history_[trained.result_.parameters["chosen_epoch"]]["open_embeddings"]
    return {
        "seconds": seconds["gated"],
        "open_embeddings": widths,
        "embeddings": trained.params_.embedding * job["clients"],
        "bytes": sizes["gated"]["bytes"],
        "sizes": sizes,
        "saving": 1 - sizes["gated"]["bytes"] / sizes["fixed width"]["bytes"],
        "saving_without_keys": 1
        - sizes["gated"]["without keys"] / sizes["fixed width"]["without keys"],
        "rows": rows.n_rows,
        "peak_memory": peak_memory(),
    }


def _reshare(model: FedSDGSelector, he: str) -> None:
    """Weights of a plain training, shared anew for an encrypted prediction.

    Sizes on the wire do not depend on how weights are split into shares, so one share is zero here;
    a real training never has such shares.
    """
    from fedsift.methods.fedsdg.layer_numbers import RING_BITS

    holder = model._parts[model._layout.label_holder]
    modulus = _plain_modulus(model, RING_BITS)
    for party in holder["parties"]:
        own = model._parts[party]
        difference = holder["weights"][party].astype(object) - own["share"].astype(object)
        weights = (difference + modulus // 2) % modulus - modulus // 2
        kind = object if he == "paillier" else np.int64
        holder["weights"][party] = weights.astype(kind)
        own["share"] = np.zeros(weights.shape, dtype=np.int64).astype(kind)


def _plain_modulus(model: FedSDGSelector, bits: int) -> int:
    from fedsift.crypto.layer.api import own_layer

    params = model.params_
    shape = (params.batch_size, params.embedding, params.outputs)
    return int(own_layer("plain", *shape, plain_bits=bits).modulus)


def python_paillier(job: Job) -> dict[str, Any]:
    """One batch of the same layer with python-paillier: timed on a part and scaled.

    Counted as the protocol needs it, one ciphertext per number: encrypt embeddings and shares, the
    three products with additions, mask outputs and weight gradients, decrypt all three results.
    """
    from phe import paillier

    rows, inputs, outputs, clients = (job[k] for k in ("batch", "embedding", "outputs", "clients"))
    public, private = paillier.generate_paillier_keypair(n_length=3072)
    part, rng = job["n_timed"], np.random.default_rng(0)
    factors = [int(rng.integers(1 << 30, 1 << 31)) for _ in range(part)]
    start = time.perf_counter()
    sealed = [public.encrypt(factor % 512) for factor in factors]
    encrypt = (time.perf_counter() - start) / part
    start, total = time.perf_counter(), sealed[0]
    for ciphertext, factor in zip(sealed, factors, strict=True):
        total = total + ciphertext * factor
    multiply = (time.perf_counter() - start) / part
    start = time.perf_counter()
    for ciphertext in sealed:
        private.decrypt(ciphertext)
    decrypt = (time.perf_counter() - start) / part
    products = 3 * rows * inputs * outputs
    encrypted = rows * inputs + inputs * outputs + rows * outputs + inputs * outputs
    decrypted = rows * outputs + inputs * outputs + rows * inputs
    phases = {
        "encrypt": clients * encrypted * encrypt,
        "evaluate": clients * products * multiply,
        "decrypt": clients * decrypted * decrypt,
    }
    return {
        "seconds": sum(phases.values()),
        "phases": phases,
        "bytes": clients * (encrypted + decrypted) * 2 * 3072 // 8,
        "ciphertexts": clients * (encrypted + decrypted),
        "scaled": True,
        "peak_memory": peak_memory(),
    }


PARTS: dict[str, Callable[[Job], dict[str, Any]]] = {
    "identity": identity,
    "cost": identity,
    "batch 256": identity,
    "prediction": prediction,
    "python-paillier": python_paillier,
}


def measure(job: Job) -> dict[str, Any]:
    """One case."""
    return PARTS[job["part"]](job)
