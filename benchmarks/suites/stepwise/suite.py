# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``stepwise``: worth, false discoveries, and what a partner adds to own columns.

Claims: ten columns of stepwise selection are at least two points of logistic accuracy ahead of
the ``f`` filter on the mean of public sets and not behind mRMR; knockoffs keep a target of 10 %
false discoveries at nine tenths of the power that pooled data would have; ``auto`` selects nothing
where there is nothing; a bank with strong own columns is told which partner has something new.

All runs are open computations of what the protocols compute under encryption or masks; tests
compare both. Finished jobs are kept in a journal, so that an interrupted suite goes on.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from benchmarks.runner import Echo, use_one_thread_each
from benchmarks.store import Journal, key_of
from benchmarks.suites.stepwise import accuracy, bank, discoveries
from fedsift.data import catalog
from fedsift.data.catalog import cache_directory

_PARTS = {"bank": bank, "discoveries": discoveries, "accuracy": accuracy}


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All parts of the suite; prints a line when each job is done."""
    use_one_thread_each()
    if missing := [n for n in accuracy.DATA_SETS[profile] if not catalog.is_available(n)]:
        echo(f"not here (set FEDSIFT_DATA): {', '.join(missing)}")
    results: dict[str, Any] = {"rows": [], "seed": 0}
    for name, part in _PARTS.items():
        journal = Journal(
            cache_directory() / "bench" / f"stepwise-{name}-{profile}.jsonl", _program(name)
        )
        done = [(job, _measured(name, job, journal, echo)) for job in part.jobs(profile)]
        table = part.table(done)
        found = part.summary(table)
        results[name] = table
        results[f"{name}_summary"] = found
        seconds = sum(result["seconds"] for _, result in done)
        results["rows"].append({"case": name, "seconds": seconds, "bars": found["bars"]})
        echo(f"{name}: {seconds:.0f} s of processor time, {_bars(found['bars'])}")
    return results


def _measured(name: str, job: dict[str, Any], journal: Journal, echo: Echo) -> dict[str, Any]:
    known = journal.known.get(key_of(job))
    if known is not None:
        return known
    start = time.process_time()
    result = _PARTS[name].measure(job)
    result["seconds"] = time.process_time() - start
    journal.add(key_of(job), result)
    echo(f"{name} {key_of(job)}: {result['seconds']:.1f} s")
    return result


def _program(name: str) -> str:
    """What a part computes, rather than how it is written: a small job, digested."""
    found = json.dumps(_PARTS[name].fingerprint(), sort_keys=True)
    return hashlib.sha256(found.encode()).hexdigest()


def _bars(bars: dict[str, bool]) -> str:
    return (
        ", ".join(f"{name}: {'ok' if ok else 'MISSED'}" for name, ok in bars.items()) or "no bars"
    )
