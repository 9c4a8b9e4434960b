# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds that units of work take on this machine: measured once, kept in the cache.

Rates are processor seconds on one core: they do not depend on what else the machine is doing, and
on an idle machine they are the seconds on the wall.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fedsift.data.catalog import cache_directory
from fedsift.errors import FileProblem
from fedsift.result import write_atomically

FORMAT = "fedsift-rates/2"
SWITCH = "FEDSIFT_CALIBRATION"
"""Environment variable; ``typical`` predicts with :data:`TYPICAL` and measures nothing."""

_LIBRARIES = ("fedsift", "numpy", "seal-python", "gmpy2", "torch")

TYPICAL: dict[str, float] = {
    "start": 0.01,
    "call": 0.000264,
    "byte": 1.16e-09,
    "bgv context": 0.02,
    "bgv key": 0.00386,
    "bgv switch key": 0.0108,
    "bgv switch key read": 0.000549,
    "bgv encrypt": 0.00241,
    "bgv encrypt public": 0.00481,
    "bgv decrypt": 0.000658,
    "bgv load": 9.31e-05,
    "bgv factor": 0.000534,
    "bgv multiply": 0.000252,
    "bgv rotate": 0.00306,
    "bgv product": 0.00347,
    "bgv hide": 0.0114,
    "bgv seal": 0.0025,
    "bgv read": 0.00063,
    "bgv term": 1.5e-05,
    "share mask": 7.0e-08,
    "share number": 1.2e-08,
    "share product": 4.3e-10,
    "paillier key": 0.48,
    "paillier tables": 0.222,
    "paillier tables public": 0.12,
    "paillier join": 0.16,
    "paillier encrypt": 0.000257,
    "paillier encrypt public": 0.00033,
    "paillier decrypt": 0.0103,
    "paillier rerandomise": 0.0033,
    "paillier read": 2.64e-05,
    "paillier multiply": 7.19e-06,
    "paillier merge": 1.16e-05,
    "paillier shift": 6.97e-06,
    "paillier unseal": 8.2e-06,
    "paillier invert": 5.3e-05,
    "paillier power step": 8.8e-06,
    "pack number": 4.2e-07,
    "plain number": 1.9e-07,
    "plain sum": 3.5e-08,
    "plain product": 3.2e-08,
    "ring product": 1.7e-08,
    "ring step": 0.0015,
    "open number": 6.9e-09,
    "open slots": 4.3e-06,
    "open decrypt": 7e-05,
    "open factor": 0.00012,
    "open multiply": 8.6e-05,
    "open rotate": 1.05e-05,
    "open hide": 0.00033,
    "bin cell": 8.71e-08,
    "score cell": 1.01e-07,
    "member cell": 9.29e-10,
    "weight cell": 1.93e-08,
    "sort cell": 6.97e-09,
    "noise number": 2.5e-05,
    "search column": 8e-06,
    "moment cell": 5.09e-07,
    "mask number": 4e-07,
    "mask number peer": 6e-08,
    "distance query": 1.5e-05,
    "distance row": 2.15e-08,
    "distance cell": 8.08e-10,
    "order query": 2.5e-05,
    "order row": 3.62e-08,
    "round query": 4e-05,
    "round row": 1.89e-08,
    "rank query": 1.5e-05,
    "rank row": 4.53e-08,
    "sub-ranking query": 2e-05,
    "sub-ranking row": 1.31e-08,
    "matrix product": 5.85e-11,
    "matrix solve": 6.94e-11,
    "matrix eigen": 4.79e-10,
    "matrix eigen pair": 2.75e-10,
    "matrix sort": 5.15e-09,
    "matrix cell": 5.53e-10,
    "subset": 3.23e-05,
    "subset distance": 1.11e-09,
    "subset distance column": 2.38e-11,
    "swarm subset": 2.8e-05,
    "crowded subset": 1.3,
    "subset lanes": 1.3,
    "network step": 0.00199,
    "network cell": 2.32e-08,
    "top step": 0.000962,
    "blind id": 0.000124,
}
"""Seconds per unit on a common server core, for what cannot be measured."""


@dataclass(frozen=True)
class Rates:
    """Seconds per unit of work.

    Parameters
    ----------
    seconds : dict of str to float
        By unit, see :mod:`fedsift.costs.measure`.
    machine : str
        Digest of what the rates depend on; another machine or version needs others.
    measured_at : float
        Seconds since 1970; 0 for typical rates.
    """

    seconds: dict[str, float]
    machine: str = ""
    measured_at: float = 0.0

    @property
    def measured(self) -> bool:
        """Whether this is the speed of this machine, not of a typical one."""
        return self.measured_at > 0

    @property
    def age_days(self) -> float:
        """Days since the measurement."""
        return max(0.0, time.time() - self.measured_at) / 86_400

    def __getitem__(self, unit: str) -> float:
        """Seconds of one unit; what could not be measured here takes a typical time."""
        return self.seconds.get(unit, TYPICAL[unit])


def rates_of_this_machine(
    *, refresh: bool = False, tell: Callable[[], None] | None = None
) -> Rates:
    """Kept rates, or new ones if there are none for this machine and version (some 5 seconds).

    ``tell`` is called before anything is measured.
    """
    if os.environ.get(SWITCH) == "typical":
        return Rates(TYPICAL)
    kept = None if refresh else _read(_path())
    if kept is not None:
        return kept
    from fedsift.costs.measure import measure_rates

    if tell is not None:
        tell()
    rates = Rates(measure_rates(), machine(), time.time())
    with contextlib.suppress(FileProblem):  # a cache that cannot be written is no reason to fail
        write_atomically(_path(), json.dumps({"format": FORMAT, **asdict(rates)}, indent=1))
    return rates


def machine() -> str:
    """Digest of processor, cores and versions; says nothing else about the machine."""
    facts = [platform.machine(), platform.processor(), _model(), str(os.cpu_count())]
    facts += [f"python {platform.python_version()}", *map(_version, _LIBRARIES)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _path() -> Path:
    return cache_directory() / "rates.json"


def _read(path: Path) -> Rates | None:
    try:
        saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if (saved.pop("format"), saved["machine"]) != (FORMAT, machine()):
            return None
        seconds = {str(unit): float(value) for unit, value in saved["seconds"].items()}
        measured_at = float(saved["measured_at"])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return None
    usable = all(math.isfinite(one) and one >= 0 for one in (*seconds.values(), measured_at))
    return Rates(seconds, saved["machine"], measured_at) if usable else None


def _model() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    return next((line for line in lines if line.startswith("model name")), "")


def _version(library: str) -> str:
    try:
        return f"{library} {metadata.version(library)}"
    except metadata.PackageNotFoundError:
        return f"{library} -"
