# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What is stored of a run, how two runs are compared, and the command that stores all runs again.

``make golden`` rewrites the files. It is meant for intended changes of a protocol: the difference
of the files then shows what they do to every run.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
STORED = ("method", "setting", "security", "security_bits", "seed", "selected", "scores", "ranking",
          "participants", "history")  # fmt: skip
"""Fields of a result that are stored as they are; times, versions and remarks are not."""

TOLERANCES = {"fedsdg": 1e-5, "train": 1e-5, "predict": 1e-5, "dcfs": 1e-7, "interaction": 1e-3,
              "stepwise": 1e-7}  # fmt: skip
"""How far numbers may be off, by method; 1e-9 where nothing is said.

PyTorch adds single-precision numbers in an order that depends on the processor: without AVX, losses
of FedSDG differ by 1e-7 here, and rounding to fixed point may enlarge that. Eigenvectors of DCFS
differ by 1e-12. The interaction method adds noise of the operating system to the low bits of its
scores in every run, also in a plain one. Selections and ranks are always equal.
"""

UNITS_OFF = {"fedsdg/blind plain": 0.02, "fedsdg/blind secure": 0.02}
"""Cases in which every run draws masks of its own, and numbers are off by a unit here and there."""

SIZES = ("bytes", "n_bytes", "slots", "candidate_share")
VARYING_SIZES = {"vfps/greedy plain", "vfps/shared plain"}
"""Sizes are equal in all other runs, encrypted ones too: ciphertexts are not compressed. In these,
Fagin's algorithm orders ties by a secret that is drawn anew, and compares a few rows more or less."""


def snapshot(result: dict[str, Any]) -> dict[str, Any]:
    """What must not change of a result, given as in its file.

    Rows get readable names; a row of traffic is messages, ciphertexts and bytes, one of the ledger
    times and bytes.
    """
    kept = {name: result[name] for name in STORED}
    total = {name: result["traffic"][name] for name in ("rounds", "messages", "ciphertexts")}
    kept["total"] = total | {"bytes": result["traffic"]["n_bytes"]}
    kept["traffic"], kept["ledger"] = {}, {}
    for row in result["traffic"]["rows"]:
        rows = kept["traffic"].setdefault(row["message"], {})
        _add(rows, f"{row['sender']} > {row['receiver']}", row, "messages", "ciphertexts")
    for row in result["disclosures"]:
        name = (
            f"{row['step']} {row['message']}: {row['learner_role']} learns {row['kind']} of "
            f"{row['about_role']} ({row['what']}), {row['form']}, key of {row['key_owner']}"
        )
        rows = kept["ledger"].setdefault(name, {})
        _add(rows, f"{row['learner']} < {row['about']}", row, "times")
    # The ledger of the whole result names the step of every row.
    kept["steps"] = [snapshot(step | {"disclosures": []}) for step in result["steps"]]
    return {name: value for name, value in kept.items() if value not in ({}, [])}


def _add(rows: dict[str, Any], name: str, row: dict[str, Any], *counts: str) -> None:
    while name in rows:
        name += " (again)"
    rows[name] = [*(row[count] for count in counts), row["n_bytes"]]


def differences(
    stored: Any, now: Any, *, sizes_within: float = 0.0, near: float | None = None
) -> list[str]:
    """One line for everything in which a run is not what was stored."""
    tolerances = TOLERANCES if near is None else dict.fromkeys(TOLERANCES, near)
    return list(_differences(stored, now, "", 1e-9, sizes_within, tolerances))


def _differences(
    stored: Any,
    now: Any,
    path: str,
    near: float,
    sizes_within: float,
    tolerances: Mapping[str, float],
) -> Iterator[str]:
    is_row = "/traffic" in path or "/ledger" in path
    if isinstance(stored, dict) and isinstance(now, dict):
        near = tolerances.get(stored["method"], 1e-9) if "method" in stored else near
        yield from (
            f"{path}/{name}: missing, was {stored[name]}" for name in stored if name not in now
        )
        yield from (f"{path}/{name}: new, {now[name]}" for name in now if name not in stored)
        common = [name for name in stored if name in now]
        if is_row and common != [name for name in now if name in stored]:
            yield f"{path}: other order, was {list(stored)}, now {list(now)}"
        for name in common:
            within = sizes_within if name in SIZES else near
            place = f"{path}/{name}"
            pair = stored[name], now[name]
            yield from _differences(*pair, place, within, sizes_within, tolerances)
    elif is_row and isinstance(stored, list) and isinstance(now, list):
        if stored[:-1] != now[:-1] or not _alike(stored[-1], now[-1], sizes_within, is_size=True):
            yield f"{path}: was {stored}, now {now}"
    elif isinstance(stored, list) and isinstance(now, list) and len(stored) == len(now):
        for place, (one, other) in enumerate(zip(stored, now, strict=True)):
            inner = f"{path}/{place}"
            yield from _differences(one, other, inner, near, sizes_within, tolerances)
    elif not _alike(stored, now, near, is_size=path.rpartition("/")[2] in SIZES):
        yield f"{path}: was {stored!r}, now {now!r}"


def _alike(stored: Any, now: Any, near: float, *, is_size: bool) -> bool:
    if type(stored) is type(now) and (isinstance(stored, float) or (is_size and near)):
        return math.isclose(stored, now, rel_tol=near, abs_tol=0 if is_size else near)
    return type(stored) is type(now) and stored == now


def stored_form(result: dict[str, Any]) -> dict[str, Any]:
    """The snapshot as it comes back from its file."""
    return json.loads(json.dumps(snapshot(result)))


def load(method: str) -> dict[str, Any]:
    """The stored cases of a method."""
    return json.loads((FOLDER / f"{method}.json").read_text(encoding="utf-8"))


def to_text(value: Any, depth: int = 0) -> str:
    """JSON with short values on one line, so that a change of a number changes one line."""
    text = json.dumps(value)
    if len(text) + depth < 180 or not isinstance(value, dict | list):
        return text
    items = value.items() if isinstance(value, dict) else ((None, entry) for entry in value)
    lines = [
        " " * (depth + 1)
        + ("" if name is None else f"{json.dumps(name)}: ")
        + to_text(entry, depth + 1)
        for name, entry in items
    ]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([first, ",\n".join(lines), " " * depth + last])


def main() -> None:
    """Run all cases and rewrite the files."""
    from golden.cases import CASES

    os.environ["FEDSIFT_CALIBRATION"] = "typical"  # predictions are not stored; measure nothing
    for method, cases in CASES.items():
        text = to_text({case: snapshot(run()) for case, run in cases.items()})
        (FOLDER / f"{method}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
