# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The same job file in one process and on a federation, each by the command that a user types.

Seconds are those of the whole command: from its start to the written result. Both read the same
tables; the federation is up before, as it would be.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.suites.filters import generated
from fedsift.config.toml import toml_text
from fedsift.deploy.kits import Kit, PartyData
from fedsift.errors import FedsiftError, ProtocolError
from fedsift.result import SelectionResult

ID, LABEL = "customer", "outcome"
_LIMIT_SECONDS = 1800


def write_job(job: Mapping[str, Any], folder: Path) -> tuple[Path, dict[str, PartyData]]:
    """Tables of all parties, and the job file; the first party has the label.

    With ids every party lacks other customers and lists its own in an order of its own.
    """
    folder.mkdir(parents=True)
    X, y = generated(job["rows"], job["features"], 2, job["seed"])
    rng = np.random.default_rng(job["seed"])
    dealt = np.array_split(rng.permutation(job["features"]), len(job["parties"]))
    parties = {}
    for name, columns in zip(job["parties"], dealt, strict=True):
        own = {f"{name}_{column}": X[:, column].round(4) for column in sorted(columns)}
        frame = pd.DataFrame(own)
        label = LABEL if name == job["parties"][0] else None
        if label is not None:
            frame[label] = np.where(y == 1, "yes", "no")
        if job["ids"]:
            frame.insert(0, ID, [f"C{row:07d}" for row in range(job["rows"])])
            frame = frame.sample(frac=0.98, random_state=rng)
        path = folder / f"{name}.csv"
        frame.to_csv(path, index=False)
        parties[name] = PartyData(path, (ID,) if job["ids"] else (), label)
    data = {"setting": "vertical", "label": {"party": job["parties"][0], "column": LABEL}}
    content: dict[str, Any] = {
        "job": {"method": job["method"], "seed": job["seed"]},
        "data": data | ({"id": ID} if job["ids"] else {}),
        "method": dict(job["parameters"]),
        "party": [{"name": name, "data": f"{name}.csv"} for name in parties],
    }
    path = folder / "job.toml"
    path.write_text(toml_text(content), encoding="utf-8")
    return path, parties


def run_here(path: Path, out: Path) -> tuple[float, SelectionResult]:
    """Seconds and result of ``fedsift run``."""
    return _command(["run", str(path)], out)


def run_there(path: Path, out: Path, kit: Kit) -> tuple[float, SelectionResult]:
    """Seconds and result of ``fedsift deploy submit``."""
    return _command(["deploy", "submit", str(path), "--kit", str(kit.folder)], out)


def refuse_difference(
    case: str, here: SelectionResult, there: SelectionResult, *, drawn: bool = False
) -> None:
    """The engine must not change what is selected, nor any score, nor what is counted.

    Where a result rests on a sample that is ``drawn`` anew in every run, the kinds of messages and
    the rounds are all that must be alike.
    """

    def counted(result: SelectionResult) -> list[Any]:
        # Ciphertexts and keys of the same numbers vary by a few bytes.
        return [
            (row.message, row.sender, row.receiver, row.messages, row.ciphertexts)
            for row in result.traffic.rows
        ]

    def by_kind(result: SelectionResult) -> Counter[str]:
        kinds = Counter[str]()
        for row in result.traffic.rows:
            kinds[row.message] += row.messages
        return kinds

    always = (
        ("number of messages of each kind", by_kind(here), by_kind(there)),
        ("number of rounds", here.traffic.rounds, there.traffic.rounds),
    )
    repeatable = (
        ("selection", here.selected, there.selected),
        ("participants", here.participants, there.participants),
        ("ranking", here.ranking, there.ranking),
        ("scores", here.scores, there.scores),
        ("traffic", counted(here), counted(there)),
    )
    for what, one, other in always if drawn else (*repeatable, *always):
        if one != other:
            raise ProtocolError(
                f"The case {case!r} has another {what} on FLARE than in one process.",
                "A job gives the same result on every engine.",
                "Report this with the output of 'fedsift doctor'.",
            )


def _command(arguments: list[str], out: Path) -> tuple[float, SelectionResult]:
    command = [sys.executable, "-m", "fedsift.cli", *arguments, "--out", str(out), "--quiet"]
    start = time.perf_counter()
    finished = subprocess.run(  # noqa: S603 - our own commands, no shell
        command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False
    )
    seconds = time.perf_counter() - start
    if finished.returncode != 0:
        told = " ".join(finished.stderr.split())[:300] or "no message"
        raise FedsiftError(
            f"'fedsift {arguments[0]}' of the benchmark failed: {told}",
            "Every case of a suite must run.",
            "Run 'fedsift doctor'.",
        )
    return seconds, SelectionResult.load(out / "result.json")
