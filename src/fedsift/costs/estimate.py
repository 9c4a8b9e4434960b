# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From a selector and a federation to seconds, rounds, bytes and ciphertexts.

Between organisations FLARE carries the same messages by processes instead of memory. The network
is not known here. What is added are the seconds of ``benchmarks/runtime.json``, measured with hub
and organisations on one machine (``make bench-check`` compares): less than any network takes, and a
start that is much the same everywhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.base import clone

from fedsift.costs.counts import Counts, Expected
from fedsift.costs.measure import CROWD
from fedsift.costs.rates import Rates
from fedsift.data import Federation
from fedsift.methods.registry import method_of
from fedsift.methods.spec import Missing

_MATRIX, _SUBSET = "matrix", "subset"
"""Units that run without Python's lock, so that parties in one process work side by side."""

_FURTHER_CORE = 0.6
"""What another core adds to matrices: parties share memory, and Python's lock between two calls."""

MESSAGES = "messages"
"""The phase of sending and receiving."""


@dataclass(frozen=True)
class Estimate:
    """What a run is predicted to cost.

    Parameters
    ----------
    seconds : float
        From start to end on an idle machine with the given number of cores.
    cpu_seconds : float
        Of all parties together, on one core each.
    phases : dict of str to float
        Processor seconds by phase.
    rounds, messages, n_bytes, ciphertexts : int
    lowest, highest : dict of str to float
        The range where the data decides; empty where it does not.
    remarks : tuple of str
        What the data decides, and what was taken as typical.
    waiting : dict of str to float
        Seconds in which no processor is needed; between organisations only.
    """

    seconds: float
    cpu_seconds: float
    phases: dict[str, float]
    rounds: int
    messages: int
    n_bytes: int
    ciphertexts: int
    lowest: dict[str, float]
    highest: dict[str, float]
    remarks: tuple[str, ...] = ()
    waiting: dict[str, float] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """Plain values, as a result keeps them."""
        return {
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "phases": self.phases,
            "rounds": self.rounds,
            "messages": self.messages,
            "bytes": self.n_bytes,
            "ciphertexts": self.ciphertexts,
            "lowest": self.lowest,
            "highest": self.highest,
            "remarks": list(self.remarks),
            **({"waiting": self.waiting} if self.waiting else {}),
        }


def estimate(
    selector: Any, federation: Federation, rates: Rates, around: Counts | None = None
) -> Estimate | None:
    """Predict the cost of ``selector.fit(federation)``; None where that is not possible.

    ``around`` is what comes before and after the method, see :mod:`fedsift.costs.chain`.
    """
    method = method_of(selector)
    if method is None or isinstance(method.cost_model, Missing):
        return None
    # A copy that keeps no checkpoints: nothing is written where nothing runs.
    planning = clone(selector).set_params(checkpoint=None)
    params = planning._prepare(federation, simulated=True).params
    expected: Expected = method.load(method.cost_model)(planning, federation, params)
    if around is not None:
        courses = (expected.counts, expected.low, expected.high)
        for counts in {id(counts): counts for counts in courses if counts}.values():
            counts.add(around)
    return _priced(expected, rates)


def _priced(expected: Expected, rates: Rates) -> Estimate:
    tally = expected.counts
    seconds, cpu, phases = priced(tally, rates)
    remarks = list(expected.remarks)
    if not rates.measured:
        remarks.append(
            "Seconds are those of a typical machine; 'fedsift doctor' measures this one."
        )
    return Estimate(
        seconds,
        cpu,
        phases,
        tally.rounds,
        tally.messages,
        tally.n_bytes,
        tally.ciphertexts,
        _ends(expected.low, rates),
        _ends(expected.high, rates),
        tuple(remarks),
    )


def _ends(tally: Counts | None, rates: Rates) -> dict[str, float]:
    if tally is None:
        return {}
    return {"seconds": priced(tally, rates)[0], "bytes": float(tally.n_bytes)}


def priced(tally: Counts, rates: Rates) -> tuple[float, float, dict[str, float]]:
    """Seconds on the wall, processor seconds, and these by phase."""
    sending = tally.calls * rates["call"] + tally.n_bytes * rates["byte"]
    phases = {MESSAGES: rates["start"] + sending}
    side_by_side = max(1, min(tally.side_by_side, os.cpu_count() or 1))
    saved = 0.0
    for (phase, unit), count in tally.work.items():
        seconds = wall = count * rates[unit]
        if unit.startswith(_MATRIX):
            wall = seconds / (1 + _FURTHER_CORE * (side_by_side - 1))
        elif unit.startswith(_SUBSET) and side_by_side > 1:
            wall = seconds / _subset_lanes(side_by_side, rates)
            seconds *= rates["crowded subset"]
        phases[phase] = phases.get(phase, 0.0) + seconds
        saved += seconds - wall
    cpu = sum(phases.values())
    return cpu - saved, cpu, phases


def _subset_lanes(side_by_side: int, rates: Rates) -> float:
    """How many parties' subsets are tried in the time of one party's, measured with a few."""
    measured = min(CROWD, os.cpu_count() or 1)
    return 1 + (rates["subset lanes"] - 1) * (side_by_side - 1) / (measured - 1)


ROUND_SECONDS = 0.0189
"""A round of 100 bytes there and back, through the hub."""

BYTE_SECONDS = 2.56e-08
"""A byte of a long message, either way."""

START_SECONDS = 14.1
"""Handing a job out, a process per organisation, collecting the result: the shortest seen."""

_REMARK = (
    "FLARE's seconds are those of a loopback: hub and organisations on one machine, "
    f"{1000 * ROUND_SECONDS:.0f} ms per round, {1e-6 / BYTE_SECONDS:.0f} MB/s, "
    f"{START_SECONDS:.0f} s to start and end a job. Add your network's delay times the rounds."
)
_CHECKPOINTS = (
    "Members that keep checkpoints agree on them in short rounds that are not counted here."
)
_IN_TURN = "Computation is that of all parties in turn; organisations compute side by side."


def on_flare(one_process: Estimate) -> Estimate:
    """The cost of a job between organisations, from that of the same job in one process.

    Messages, bytes, rounds and ciphertexts are the same.
    """
    phases = {name: s for name, s in one_process.phases.items() if name != MESSAGES}
    waiting = {
        "rounds": one_process.rounds * ROUND_SECONDS,
        "bytes": one_process.n_bytes * BYTE_SECONDS,
        "start and end of the job": START_SECONDS,
    }
    computing = sum(phases.values())
    return replace(
        one_process,
        seconds=computing + sum(waiting.values()),
        cpu_seconds=computing,
        phases=phases,
        waiting=waiting,
        lowest=_end(one_process, one_process.lowest, waiting),
        highest=_end(one_process, one_process.highest, waiting),
        remarks=(*one_process.remarks, _REMARK, _CHECKPOINTS, _IN_TURN),
    )


def _end(
    one_process: Estimate, end: dict[str, float], waiting: dict[str, float]
) -> dict[str, float]:
    """An end of the range; its rounds are taken to change as its bytes do."""
    if not end:
        return {}
    share = end["bytes"] / max(1, one_process.n_bytes)
    carried = share * (waiting["rounds"] + waiting["bytes"])
    return {**end, "seconds": end["seconds"] + carried + START_SECONDS}
