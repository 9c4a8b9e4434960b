# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What FLARE adds to a job: the same messages, carried by processes instead of memory.

The network between organisations is not known here. What is added are the seconds of
``benchmarks/runtime.json``, measured with hub and organisations on one machine (``make
bench-check`` compares): less than any network takes, and a start that is much the same everywhere.
"""

from __future__ import annotations

from dataclasses import replace

from fedsift.costs.estimate import MESSAGES, Estimate

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
