# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift doctor``: what is installed, and how fast this machine encrypts."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown
from fedsift.cli.tables import table

NEEDED = (
    "cryptography",
    "gmpy2",
    "msgspec",
    "numpy",
    "pandas",
    "pyarrow",
    "rich",
    "scikit-learn",
    "scipy",
    "seal-python",
    "typer",
)
OPTIONAL = {
    "torch": "the method 'fedsdg'",
    "openmined-psi": "private set intersection ('fedsift align')",
    "nvflare": "running on several machines (a later version)",
    "phe": "comparison in 'fedsift bench'",
}
_MISSING_EXIT_CODE = 2
_BUDGET_SECONDS = 0.4


def doctor(as_json: AsJson = False) -> None:
    """Check the installation and measure the speed of encryption here."""
    with errors_as_exit_codes():
        needed = {name: _version(name) for name in NEEDED}
        missing = [name for name, version in needed.items() if version is None]
        found = {
            "fedsift": _version("fedsift"),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count(),
            "libraries": needed,
            "optional": {name: _version(name) for name in OPTIONAL},
            "missing": missing,
            "speed": {**_measured("seal-python", bgv_speed), **_measured("gmpy2", paillier_speed)},
        }
        if as_json:
            echo_json(found)
        else:
            _print(found)
        if missing:
            raise typer.Exit(_MISSING_EXIT_CODE)


def bgv_speed() -> dict[str, float]:
    """Milliseconds of BGV key generation, encryption and rotation, ring degree 8192."""
    import numpy as np

    from fedsift.crypto.seal import SealOwner, SealParameters, SealPublic, plain_primes

    parameters = SealParameters("bgv", 8192, 3, plain_primes(8192, 20)[0])
    keygen = _per_call(lambda: SealOwner(parameters, steps=(1,)))
    owner = SealOwner(parameters, steps=(1,))
    public = SealPublic(parameters, owner.public_blobs, rotations=True)
    slots = np.arange(parameters.degree, dtype=np.uint64)
    ciphertext = owner.workspace.ciphertext(owner.encrypt(slots), parameters.levels)
    return {
        "bgv_keygen_ms": 1000 * keygen,
        "bgv_encrypt_ms": 1000 * _per_call(lambda: owner.encrypt(slots)),
        "bgv_rotate_ms": 1000 * _per_call(lambda: public.rotate(ciphertext, 1)),
    }


def paillier_speed() -> dict[str, float]:
    """Paillier encryptions and decryptions per second with a key of 3072 bits."""
    from fedsift.crypto.paillier import PaillierPrivateKey

    start = time.perf_counter()
    key = PaillierPrivateKey.generate(3072)
    seconds = time.perf_counter() - start
    ciphertext = key.public.encrypt(7)  # also builds the tables, which are not part of the rate
    return {
        "paillier_keygen_ms": 1000 * seconds,
        "paillier_encrypt_per_second": 1 / _per_call(lambda: key.public.encrypt(7)),
        "paillier_decrypt_per_second": 1 / _per_call(lambda: key.decrypt(ciphertext)),
    }


def _measured(library: str, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    if _version(library) is None:
        return {}
    return {name: round(value, 2) for name, value in measure().items()}


def _per_call(action: Callable[[], Any]) -> float:
    """Seconds of one call, averaged over a fraction of a second."""
    calls, start = 0, time.perf_counter()
    while True:
        action()
        calls += 1
        seconds = time.perf_counter() - start
        if seconds > _BUDGET_SECONDS:
            return seconds / calls


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _print(found: dict[str, Any]) -> None:
    out = console()
    out.print(
        f"fedsift {found['fedsift']}, Python {found['python']}, {shown(found['platform'])}, "
        f"{found['cores']} cores"
    )
    libraries = table("Libraries", "name", "version", "for")
    for name, version in found["libraries"].items():
        libraries.add_row(name, version or "[bold red]MISSING[/bold red]", "needed")
    for name, version in found["optional"].items():
        libraries.add_row(name, version or "-", OPTIONAL[name])
    out.print(libraries)
    speed = table("Measured here", "what", "value", numeric=("value",))
    for name, value in found["speed"].items():
        speed.add_row(name.replace("_", " "), f"{value:,.1f}")
    out.print(speed)
    if found["missing"]:
        out.print(
            f"[bold red]Missing: {', '.join(found['missing'])}.[/bold red] Install fedsift again."
        )
    else:
        out.print("Everything that is needed is installed.")
