# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``verify``: does ``fedsift verify`` find every alteration of a ledger, and no other?

Claim: it finds all alterations, names what was done and where, and is silent on clean ledgers, for
runs in one process and over a federation of real processes. What signing costs is measured too.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.runner import Echo
from benchmarks.suites.verify.alterations import KINDS, alter
from fedsift.protocol.commitments import sign_here
from fedsift.protocol.verify import verify_result
from fedsift.result import SelectionResult

_SIZES = {
    "smoke": {"ledgers": (2, 1), "alterations": (50, 25)},
    "regular": {"ledgers": (50, 50), "alterations": (500, 500)},
    "paper": {"ledgers": (50, 50), "alterations": (500, 500)},
}
"""Ledgers and alterations: in one process, and over a federation."""

Signed = tuple[SelectionResult, Mapping[str, bytes] | None]
"""A clean result, and the keys pinned for its parties; in one process its fingerprint is known."""


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All cases; prints a line when each is done."""
    size = _SIZES[profile]
    rows = []
    sources = {"one process": run_embedded, "federation": run_federation}
    for number, (name, source) in enumerate(sources.items()):
        clean = list(source(size["ledgers"][number]))
        row = {"case": name, **measure(clean, size["alterations"][number], seed=number)}
        rows.append(row)
        echo(
            f"{name}: {row['alarms']} alarms in {row['ledgers']} clean ledgers; "
            f"{row['found']} of {row['alterations']} alterations found, {row['named']} named"
        )
        for kind, counts in row["by_kind"].items():
            echo(f"  {kind:10} {counts['found']} of {counts['alterations']}")
    rows[0]["signing"] = measure_signing()
    share = rows[0]["signing"]["share"]
    echo(f"Signing takes {100 * share:.1f} % of the seconds of a filter run.")
    return {"rows": rows}


def measure(clean: list[Signed], n_alterations: int, seed: int) -> dict[str, Any]:
    """Check clean ledgers, then altered ones."""
    random = np.random.default_rng(seed)
    seconds, alarms = [], 0
    for result, keys in clean:
        start = time.perf_counter()
        alarms += not check(result, result, keys).passed
        seconds.append(time.perf_counter() - start)
    by_kind = {kind: {"alterations": 0, "found": 0, "named": 0} for kind in KINDS}
    for number in range(n_alterations):
        result, keys = clean[number % len(clean)]
        altered = alter(msgspec.json.decode(result.to_json()), KINDS[number % len(KINDS)], random)
        found = check(msgspec.convert(altered.result, SelectionResult), result, keys)
        counts = by_kind[altered.how]
        counts["alterations"] += 1
        counts["found"] += not found.passed
        counts["named"] += altered.is_named_by(found)
    return {
        "ledgers": len(clean),
        "alarms": alarms,
        "alterations": n_alterations,
        "found": sum(counts["found"] for counts in by_kind.values()),
        "named": sum(counts["named"] for counts in by_kind.values()),
        "by_kind": by_kind,
        "seconds_per_check": statistics.mean(seconds),
    }


def check(result: SelectionResult, original: SelectionResult, keys: Mapping[str, bytes] | None):
    """Verify as a reader would: with pinned keys, or with the fingerprint that the run printed."""
    assert original.commitments is not None
    fingerprint = original.commitments.fingerprint if keys is None else None
    return verify_result(result, keys, fingerprint)


def run_embedded(n: int) -> Iterator[Signed]:
    """Runs in one process, of several methods."""
    from sklearn.datasets import load_wine

    import fedsift as fs

    X, y = load_wine(return_X_y=True, as_frame=True)
    columns, rows = fs.split_vertical(X, y, 3), fs.split_horizontal(X, y, 3)
    cases = (
        (fs.FilterSelector("gini", n_features_to_select=4), columns),
        (fs.FilterSelector("mi", n_features_to_select=4), columns),
        (fs.FilterSelector("gini", n_features_to_select=4), rows),
        (fs.DCFSSelector(n_features_to_select=4), rows),
    )
    for number in range(n):
        selector, federation = cases[number % len(cases)]
        yield selector.set_params(random_state=number).fit(federation).result_, None


def run_federation(n: int) -> Iterator[Signed]:
    """Jobs of three organisations and a hub, each a process with keys of its own."""
    from sklearn.datasets import load_wine

    from fedsift.config.job import load_job
    from fedsift.data import catalog
    from fedsift.deploy.kits import PartyData
    from fedsift.deploy.local import LocalFederation, Toy, write_toy
    from fedsift.deploy.site_files import load_site
    from fedsift.methods.registry import schemas

    frame = load_wine(as_frame=True).frame
    with tempfile.TemporaryDirectory(prefix="fedsift-verify-") as folder:
        toy = Toy("target", method="filter", parameters={"n_features_to_select": 4})
        path = write_toy(frame, Path(folder) / "job", toy)
        job = load_job(path, schemas(), catalog.names())
        with LocalFederation.for_job(job) as federation:
            for entry in job.parties:  # by default a table takes part in fewer jobs
                label = job.data.label_column if entry.name == job.data.label_party else None
                data = PartyData(entry.data, entry.id_columns, label)
                federation.set_party(entry.name, data, {"max_jobs_per_table": n})
            keys = load_site(federation.submitter.settings).signing
            for _ in range(n):
                yield federation.submit(path), keys


def measure_signing() -> dict[str, Any]:
    """Seconds of signing against those of a filter run with encryption."""
    from sklearn.datasets import load_wine

    import fedsift as fs

    X, y = load_wine(return_X_y=True, as_frame=True)
    selector = fs.FilterSelector("gini", n_features_to_select=4, parties=3, random_state=0)
    start = time.perf_counter()
    selector._run_unsigned(X, y)
    whole = time.perf_counter() - start
    start = time.perf_counter()
    sign_here(selector.result_)
    signing = time.perf_counter() - start
    return {"run_seconds": whole, "signing_seconds": signing, "share": signing / whole}
