# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost and parity of the blind protocol of FedSDG-FS, encrypted.

``python -m benchmarks.suites.fedsdg.blind_secure --part PART`` (with ``FEDSIFT_DATA``) makes one
part of ``benchmarks/fedsdg_blind_secure.json``:

    whole    an encrypted training on MADELON with the defaults, the same without encryption, and
             where the processor's seconds go (``benchmarks/fedsdg_blind_profile.txt``)
    wide     the first openings on ARCENE with its 10,000 columns, and a whole training from them
    expected what the cost model says of both with all defaults, on a typical core
    parity   short trainings on five seeds, two and five clients, BGV (with trials of features) and
             Paillier, each against one without encryption
    paillier one batch of MADELON with python-paillier, timed on a part and scaled

In one process the seed repeats the shares too, so that runs with and without encryption are the
same to the last bit: ``identical`` compares what was opened and what the gates became of it.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner import measure_in_fresh_process, use_one_thread_each
from benchmarks.store import machine_facts
from benchmarks.suites.fedsdg.accuracy import load, split
from benchmarks.worker import peak_memory
from fedsift.costs import Rates, estimate
from fedsift.costs.measure import measure_rates
from fedsift.costs.rates import TYPICAL
from fedsift.data import Federation
from fedsift.engine import run_local
from fedsift.methods.fedsdg.blind.label_holder import PROTOCOL, build_nodes
from fedsift.methods.fedsdg.blind.settings import blind_params_for
from fedsift.methods.fedsdg.row_splits import equal_batches
from fedsift.methods.fedsdg.selector import FedSDGSelector

Job = Mapping[str, Any]
PROFILE = Path("benchmarks/fedsdg_blind_profile.txt")
SEED = 10
SEEDS = (10, 11, 12, 13, 14)
WIDE_OPENINGS = 2
PARTS = ("whole", "wide", "expected", "parity", "paillier")
_SHOWN = 40


def _federation(job: Job) -> Federation:
    X, y, _ = load(job["data"])
    X = X[: job.get("rows"), : job.get("columns")]
    return split(X, y[: len(X)], job["seed"], job["clients"])[0]


def _selector(job: Job, **settings: Any) -> FedSDGSelector:
    settings = {**job.get("settings", {}), **settings}
    return FedSDGSelector(protocol="blind", random_state=job["seed"], **settings)


@contextmanager
def _profiled(into: list[cProfile.Profile]) -> Iterator[None]:
    """Profiles of all threads that start meanwhile, in seconds of the processor."""
    run = threading.Thread.run

    def profiled(self: threading.Thread) -> None:
        profile = cProfile.Profile(timer=time.thread_time)
        into.append(profile)
        profile.runcall(run, self)

    threading.Thread.run = profiled  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.run = run  # type: ignore[method-assign]


def _text(profiles: Sequence[cProfile.Profile]) -> str:
    text = io.StringIO()
    stats = pstats.Stats(*profiles, stream=text)
    stats.strip_dirs().sort_stats("tottime").print_stats(_SHOWN)
    return text.getvalue()


def training(job: Job) -> dict[str, Any]:
    """One encrypted training and one without encryption."""
    federation = _federation(job)
    secure, profiles = _selector(job, he=job["he"]), []
    load_before, wall, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
    with _profiled(profiles):
        secure.fit(federation)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    peak = peak_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    plain = _selector(job, security="plain").fit(federation)
    plain_seconds, plain_cpu = time.perf_counter() - wall, time.process_time() - cpu
    traffic = secure.result_.traffic
    n_batches = _n_batches(secure)
    measures = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "plain_seconds": plain_seconds,
        "plain_cpu_seconds": plain_cpu,
        "cpu_ratio": cpu_seconds / plain_cpu,
        "load": [load_before, os.getloadavg()[0]],
        "peak_memory": peak,
        "batches": n_batches,
        "bytes": traffic.n_bytes,
        "ciphertexts": traffic.ciphertexts,
        "messages": traffic.messages,
        "rounds": traffic.rounds,
        "bytes_per_batch_and_client": traffic.n_bytes / n_batches / job["clients"],
        "bytes_by_message": _bytes_by_message(traffic),
        "phases": secure.result_.timings,
        "n_features": int(secure.support_.sum()),
        "n_judgements": blind_params_for(secure, federation, simulated=True).n_judgements,
        "identical": {
            "selection": bool(np.array_equal(secure.support_, plain.support_)),
            "losses": _losses(secure) == _losses(plain),
        },
        "profile": _text(profiles),
    }
    rates = Rates(measure_rates(), "here", time.time())
    told = estimate(_selector(job, he=job["he"]), federation, rates)
    if told is not None:
        measures["predicted"] = {
            "bytes": told.n_bytes / traffic.n_bytes,
            "cpu": told.cpu_seconds / cpu_seconds,
        }
    return measures


def _losses(selector: FedSDGSelector) -> list[float]:
    return [entry["validation_loss"] for entry in selector.history_]


def expected(job: Job) -> dict[str, Any]:
    """What a whole training would cost, without running it."""
    federation, selector = _federation(job), _selector(job, he=job["he"])
    told = estimate(selector, federation, Rates(TYPICAL))
    params = blind_params_for(selector, federation, simulated=True)
    n_training = federation.n_rows - round(federation.n_rows * params.validation)
    batches = params.n_passes * len(equal_batches(np.arange(n_training), params.batch_size))
    return {
        "cpu_seconds": told.cpu_seconds,
        "phases": told.phases,
        "batches": batches,
        "bytes": told.n_bytes,
        "bytes_per_batch_and_client": told.n_bytes / batches / job["clients"],
        "passes": params.n_passes,
        "n_judgements": params.n_judgements,
    }


def parity(job: Job) -> dict[str, Any]:
    """One short training with encryption and one without, compared to the last bit."""
    federation = _federation(job)
    asked = blind_params_for(_selector(job), federation, simulated=True)
    found, seconds = [], []
    for scheme in (job["he"], "plain"):
        params = replace(asked, **job["params"], scheme=scheme)
        nodes = build_nodes(federation.tables, federation.label_holder, federation.target, params)
        start = time.process_time()
        told = run_local(PROTOCOL, nodes, protected=scheme != "plain").value
        seconds.append(time.process_time() - start)
        phase = nodes[federation.label_holder][0]._training_phase
        found.append((told.history, phase.gates.means.tolist(), phase.selected.tolist()))
    names = ("losses", "gates", "selection")
    return {
        "cpu_seconds": seconds[0],
        "plain_cpu_seconds": seconds[1],
        "n_judgements": params.n_judgements,
        "passes": params.n_passes,
        "trials": params.trials,
        "identical": {name: a == b for name, a, b in zip(names, *found, strict=True)},
    }


def _n_batches(selector: FedSDGSelector) -> int:
    rows = [row for row in selector.result_.traffic.rows if row.message == "StepWanted"]
    return int(max(row.messages for row in rows))


def _bytes_by_message(traffic: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in traffic.rows:
        found[row.message] = found.get(row.message, 0) + row.n_bytes
    return found


def python_paillier(job: Job) -> dict[str, Any]:
    """One batch with python-paillier, one ciphertext per number, timed on a part and scaled.

    Both products with the columns, gates and sums number by number, squares and gradients.
    """
    from phe import paillier

    rows, columns, hidden = (job[name] for name in ("batch", "columns", "hidden"))
    public, private = paillier.generate_paillier_keypair(n_length=3072)
    part, rng = job["n_timed"], np.random.default_rng(0)
    small, large = (rng.integers(1 << b, 1 << (b + 1), part).tolist() for b in (10, 61))

    def per_one(work: Callable[[int], Any]) -> tuple[float, list[Any]]:
        start = time.process_time()
        made = [work(i) for i in range(part)]
        return (time.process_time() - start) / part, made

    encrypt, sealed = per_one(lambda i: public.encrypt(large[i]))
    by_table, _ = per_one(lambda i: sealed[i] * small[i] + sealed[0])
    by_share, _ = per_one(lambda i: sealed[i] * large[i] + sealed[0])
    decrypt, _ = per_one(lambda i: private.decrypt(sealed[i]))
    weights, units = hidden * columns, hidden * rows
    phases = {
        "encrypt": (6 * weights + 3 * units) * encrypt,
        "evaluate": 2 * rows * columns * hidden * by_table + (4 * weights + 3 * units) * by_share,
        "decrypt": (2 * weights + 3 * units) * decrypt,
    }
    return {"cpu_seconds": sum(phases.values()), "phases": phases, "scaled": True}


def measure(job: Job) -> dict[str, Any]:
    """One case, in a process of its own."""
    kinds = {"paillier": python_paillier, "parity": parity, "expected": expected}
    return kinds.get(job["part"], training)(job)


def jobs_of(part: str) -> Iterator[dict[str, Any]]:
    """The cases of a part."""
    two = {"part": part, "seed": SEED, "clients": 2, "he": "bgv"}
    if part == "whole":
        yield {**two, "data": "madelon"}
    elif part == "wide":
        few = {"max_epochs": WIDE_OPENINGS, "init": "constant"}
        yield {**two, "data": "arcene", "settings": few}
    elif part == "expected":
        for data in ("madelon", "arcene"):
            yield {**two, "data": data}
    elif part == "paillier":
        yield {"part": part, "batch": 238, "columns": 500, "hidden": 32, "n_timed": 20}
    else:
        passes = {"n_openings": 2, "n_settling": 1, "n_blocks": 2, "init": "constant"}
        few_batches = {"settings": {"min_batches": 2}, "rows": 150, "columns": 20}
        bgv = {**few_batches, "params": {**passes, "trials": 5, "hidden": 4}}
        few = {**passes, "n_openings": 1, "n_settling": 0, "hidden": 1}
        paillier = {**few_batches, "rows": 40, "columns": 5, "params": few}
        for seed in SEEDS:
            for clients in (2, 5):
                same = {"part": part, "data": "madelon", "seed": seed, "clients": clients}
                yield {**same, **bgv, "he": "bgv"}
                yield {**same, **paillier, "he": "paillier"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write case by case; what the file has already is kept."""
    parser = argparse.ArgumentParser(description="Encrypted trainings of the blind protocol.")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/fedsdg_blind_secure.json"))
    parser.add_argument("--part", choices=PARTS, required=True)
    chosen = parser.parse_args(arguments)
    use_one_thread_each()
    whole: dict[str, Any] = {}
    if chosen.out.exists():
        whole = json.loads(chosen.out.read_text(encoding="utf-8"))
    part = whole.setdefault(chosen.part, {"machine": machine_facts(), "rows": []})
    known = [row["job"] for row in part["rows"]]
    for job in jobs_of(chosen.part):
        if job in known:
            continue
        named = ("part", "data", "he", "clients", "seed")
        case = " ".join(str(job[name]) for name in named if name in job)
        measures = measure_in_fresh_process(
            "fedsdg.blind_secure",
            job,
            case,
            "Set FEDSIFT_DATA; python-paillier is in fedsift[dev].",
        )
        profile = measures.pop("profile", "")
        if chosen.part == "whole":
            PROFILE.write_text(profile, encoding="utf-8")
        part["rows"].append({"case": case, "job": job, **measures})
        print(json.dumps(part["rows"][-1]), flush=True)
        chosen.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
