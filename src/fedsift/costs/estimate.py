# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From a selector and a federation to seconds, rounds, bytes and ciphertexts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from fedsift.costs.counts import Counts
from fedsift.costs.measure import CROWD
from fedsift.costs.rates import Rates
from fedsift.data import Federation

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


@dataclass(frozen=True)
class _Walked:
    """Expected counts, and those of the cheapest and the dearest course."""

    expected: Counts
    low: Counts | None = None
    high: Counts | None = None
    remarks: tuple[str, ...] = ()


def estimate(
    selector: Any, federation: Federation, rates: Rates, around: Counts | None = None
) -> Estimate | None:
    """Predict the cost of ``selector.fit(federation)``; None where that is not possible.

    ``around`` is what comes before and after the method, see :mod:`fedsift.costs.joint`.
    """
    name = type(selector).__name__
    if name not in COST_MODELS:
        return None
    # A copy that keeps no checkpoints: nothing is written where nothing runs.
    planning = clone(selector).set_params(checkpoint=None)
    params = planning._prepare(federation).params
    walked = COST_MODELS[name](federation, params)
    if around is not None:
        for tally in {id(t): t for t in (walked.expected, walked.low, walked.high) if t}.values():
            tally.add(around)
    return _priced(walked, rates)


def _filter(federation: Federation, params: Any) -> _Walked:
    from fedsift.methods.filter.costs import tally_filter

    return _Walked(tally_filter(federation, params))


def _interaction(federation: Federation, params: Any) -> _Walked:
    from fedsift.methods.interaction.costs import tally_interaction

    wanted = params.n_features_to_select
    if wanted is not None:
        return _Walked(tally_interaction(federation, params, wanted))
    n_features = federation.n_features
    expected = max(1, min(10, n_features // 2))
    return _Walked(
        tally_interaction(federation, params, expected),
        tally_interaction(federation, params, 1),
        tally_interaction(federation, params, n_features),
        (f"The data decides how many features are selected; {expected} are assumed.",),
    )


def _vfps(federation: Federation, params: Any) -> _Walked:
    from fedsift.methods.vfps.costs import tally_vfps

    remark = "How many rows become candidates depends on the data; a mean number is assumed."
    return _Walked(tally_vfps(federation, params), remarks=(remark,))


def _dcfs(federation: Federation, params: Any) -> _Walked:
    from fedsift.methods.dcfs.costs import tally_dcfs

    return _Walked(tally_dcfs(federation, params))


def _fpso(federation: Federation, params: Any) -> _Walked:
    from fedsift.methods.fpso.costs import tally_fpso

    remarks = ["Subsets are tried once; how many different ones a swarm meets is an estimate."]
    if params.classifier is not None:
        remarks.append("Seconds are those of nearest neighbours, not of the given classifier.")
    return _Walked(tally_fpso(federation, params), remarks=tuple(remarks))


def _fedsdg(federation: Federation, params: Any) -> _Walked:
    from fedsift.methods.fedsdg.costs import epochs, tally_fedsdg

    fewest, most = epochs(params)
    expected = tally_fedsdg(federation, params, most)
    if fewest == most:
        return _Walked(expected)
    remark = f"Training stops after {fewest} to {most} epochs, as the data decides."
    return _Walked(expected, tally_fedsdg(federation, params, fewest), expected, (remark,))


COST_MODELS: dict[str, Callable[[Federation, Any], _Walked]] = {
    "FilterSelector": _filter,
    "InteractionSelector": _interaction,
    "VFPSSelector": _vfps,
    "DCFSSelector": _dcfs,
    "FPSOSelector": _fpso,
    "FedSDGSelector": _fedsdg,
}


def _priced(walked: _Walked, rates: Rates) -> Estimate:
    tally = walked.expected
    seconds, cpu, phases = priced(tally, rates)
    remarks = list(walked.remarks)
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
        _ends(walked.low, rates),
        _ends(walked.high, rates),
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
