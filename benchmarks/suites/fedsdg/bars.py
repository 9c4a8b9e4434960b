# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a regular run of the suite ``fedsdg`` must reach, each with the number that was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Row = dict[str, Any]
Bar = tuple[str, bool, str]

_MUST_BEAT = ("all", "ms-gini 50 %", "sffs 50 %", "vflfs 50 %", "random, same number")
_WITHIN = "within 3 points with 15 % or 1 point with 40 %"
_TEXT = ("basehock", "relathe", "pcmac")


def judge(rows: Sequence[Row], secure: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """All bars that these results can tell about."""
    table = {(row["data"], row["method"]): row for row in rows}
    found = [*_accuracy(table), *_secure(secure)]
    return {name: {"met": met, "found": text} for name, met, text in found}


def judge_exact(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The bar for exact numbers, for the gates' choice and for an elimination (fedsdg_exact)."""
    table = {(row["data"], row["method"]): row for row in rows}
    data = rows[0]["data"]
    n_splits = len(rows[0]["scores"])
    names = {"fedsdg": f"{n_splits} other splits", "fedsdg elimination": '`gates="none"`'}
    return {
        f"{data.upper()}, {name}: {_WITHIN}": {"met": met, "found": text}
        for method, name in names.items()
        if (data, f"{method} 15 %") in table
        for met, text in [_exact(table, data, method)]
    }


def _accuracy(table: dict[tuple[str, str], Row]) -> Iterator[Bar]:
    ours = {data: row for (data, method), row in table.items() if method == "fedsdg"}
    if "madelon" in ours:
        yield from _madelon(ours["madelon"], table)
    if "friedman" in ours:
        row = ours["friedman"]
        complete = sum(found == 5 for found in row["found"])
        yield "FRIEDMAN R2 at least 0.85", row["mean"] >= 0.85, _mean(row)
        enough = complete * 5 >= 4 * len(row["found"])
        yield "FRIEDMAN all 5 found in 4 of 5 seeds", enough, f"{complete} of {len(row['found'])}"
    if "coil20" in ours:
        row = ours["coil20"]
        met = row["mean"] >= 0.98 and row["share"] <= 0.10
        yield "COIL20 at least 98 % with at most 10 %", met, _sized(row)
    for data in _TEXT:
        if data in ours:
            row, whole = ours[data], table[data, "all"]
            met = row["mean"] >= whole["mean"] - 0.05 and row["share"] <= 0.12
            text = f"{_sized(row)}; all features {_mean(whole)}"
            yield f"{data.upper()} within 5 points with at most 12 %", met, text
    if "isolet" in ours:
        yield f"ISOLET {_WITHIN}", *_exact(table, "isolet", "fedsdg")


def _madelon(row: Row, table: dict[tuple[str, str], Row]) -> Iterator[Bar]:
    yield "MADELON at least 85 %", row["mean"] >= 0.85, _mean(row)
    most = max(row["n_features"])
    yield "MADELON at most 20 features", most <= 20, f"at most {most}"
    precision = sum(row["precision"]) / len(row["precision"])
    yield "MADELON precision at least 0.9", precision >= 0.9, f"{precision:.2f}"
    for other in _MUST_BEAT:
        rival = table["madelon", other]
        yield f"MADELON ahead of {other}", row["mean"] > rival["mean"], _mean(rival)


def _exact(table: dict[tuple[str, str], Row], data: str, method: str) -> tuple[bool, str]:
    whole = table[data, "all"]
    small, large = (table[data, f"{method} {share} %"] for share in (15, 40))
    met = small["mean"] >= whole["mean"] - 0.03 or large["mean"] >= whole["mean"] - 0.01
    return met, f"{_sized(small)}; {_sized(large)}; all features {_mean(whole)}"


def _secure(rows: Sequence[Row]) -> Iterator[Bar]:
    yield from _identity(rows)
    parts = {row["job"]["part"]: row for row in rows}
    if "cost" in parts:
        cost = parts["cost"]
        yield "secure MADELON under 12 minutes", cost["seconds"] < 720, f"{cost['seconds']:.0f} s"
        memory = cost["peak_memory"] / 2**20
        yield "under 2 GiB", memory < 2048, f"{memory:.0f} MiB"
    if "batch 256" in parts:
        full = parts["batch 256"]
        yield "at most 40 times the plain run", full["ratio"] <= 40, f"{full['ratio']:.1f}"
        size = full["bytes_per_batch_and_client"] / 1e6
        yield "under 3 MB per batch and client", size < 3, f"{size:.2f} MB"
        if "python-paillier" in parts:
            peer = parts["python-paillier"]
            ratio = peer["seconds"] / (full["seconds"] / full["batches"])
            yield "at least 100 times as fast as python-paillier", ratio >= 100, f"{ratio:.0f}"


def _identity(rows: Sequence[Row]) -> Iterator[Bar]:
    """One bar for every encryption and number of clients, over all trainings and seeds."""
    compared: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if "identical" in row:
            compared.setdefault((row["job"]["he"], row["job"]["clients"]), []).append(row)
    for (he, clients), group in sorted(compared.items()):
        differing = {name for row in group for name, same in row["identical"].items() if not same}
        text = (
            f"{len({row['job']['seed'] for row in group})} seeds, "
            f"{sum(row['batches'] for row in group)} batches: "
            f"{', '.join(sorted(differing)) or 'nothing'} differs"
        )
        yield f"{he} with {clients} clients identical to plain", not differing, text


def _mean(row: Row) -> str:
    return f"{row['mean']:.3f} ({row['standard_error']:.3f})"


def _sized(row: Row) -> str:
    return f"{_mean(row)} with {row['share']:.1%}"
