# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Private set intersection: seconds, traffic, and whether exactly the right rows are found.

Ids are numbers that each party writes in its own way. Which rows belong together is known from the
numbers, so the answer is checked without the normalisation of ids that it depends on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedsift.data.ids import Ids, make_ids
from fedsift.data.sources import raw_column
from fedsift.jobs.align import intersect

Numbers = np.ndarray
_EPOCH = np.datetime64("1970-01-01")


def _text(numbers: Numbers) -> list[Any]:
    return [pd.Series([f"C-{number:09d}" for number in numbers])]


def _digits(numbers: Numbers) -> list[Any]:
    return [pd.Series(numbers)]


def _floats(numbers: Numbers) -> list[Any]:
    return [pd.Series(numbers.astype(np.float64))]


def _padded(numbers: Numbers) -> list[Any]:
    return [pd.Series([f"  {number} " for number in numbers], dtype=object)]


def _days(numbers: Numbers, unit: str) -> list[Any]:
    days = (_EPOCH + numbers.astype("timedelta64[D]")).astype(f"datetime64[{unit}]")
    return [pd.Series(days)]


def _pair(numbers: Numbers) -> list[Any]:
    return [pd.Series([f"branch {n % 97}" for n in numbers]), pd.Series(numbers // 97)]


def _pair_as_text(numbers: Numbers) -> list[Any]:
    return [
        pd.Series([f"branch {n % 97} " for n in numbers], dtype="category"),
        pd.Series([f" {n // 97}" for n in numbers]),
    ]


SPELLINGS: Mapping[str, Callable[[Numbers], list[Any]]] = {
    "text": _text,
    "integers": _digits,
    "floats": _floats,
    "text with blanks": _padded,
    "days in seconds": lambda numbers: _days(numbers, "s"),
    "days in nanoseconds": lambda numbers: _days(numbers, "ns"),
    "text and integer": _pair,
    "category and text": _pair_as_text,
}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """One alignment; ``spellings`` has one entry per party."""
    numbers = drawn(len(job["spellings"]), job["rows"], job["common"], job["seed"])
    ids = {
        f"party-{place + 1}": _ids(f"party-{place + 1}", SPELLINGS[spelling](own))
        for place, (spelling, own) in enumerate(zip(job["spellings"], numbers, strict=True))
    }
    start = time.perf_counter()
    rows, outcome = intersect(ids)
    seconds = time.perf_counter() - start
    traffic = outcome.transcript.traffic()
    found = [own[rows[party]] for party, own in zip(ids, numbers, strict=True)]
    first = numbers[0]
    for other in numbers[1:]:
        first = first[np.isin(first, other)]
    return {
        "seconds": seconds,
        "bytes": traffic.n_bytes,
        "messages": traffic.messages,
        "rounds": traffic.rounds,
        "common": len(found[0]),
        "exact": all(np.array_equal(own, first) for own in found),
    }


def drawn(n_parties: int, n_rows: int, n_common: int, seed: int) -> list[Numbers]:
    """Distinct numbers per party, so many of them common to all, each list in its own order.

    With more than two parties, a third of the rest is shared with the next party and a third with
    the one before: what some have in common is not common to all.
    """
    rng = np.random.default_rng(seed)
    third = (n_rows - n_common) // 3 if n_parties > 2 else 0
    n_own = n_rows - n_common - 2 * third
    pool = rng.permutation(10 * n_parties * n_rows)
    common, pool = pool[:n_common], pool[n_common:]
    shared, pool = np.split(pool[: n_parties * third], n_parties), pool[n_parties * third :]
    own = np.split(pool[: n_parties * n_own], n_parties)
    return [
        rng.permutation(np.concatenate([common, shared[i], shared[i - 1], own[i]]))
        for i in range(n_parties)
    ]


def _ids(party: str, columns: list[Any]) -> Ids:
    made = [raw_column(f"id {place}", column, party) for place, column in enumerate(columns)]
    return make_ids(made, party)
