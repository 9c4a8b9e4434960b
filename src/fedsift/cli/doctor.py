# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift doctor``: what is installed, and how fast this machine encrypts."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown
from fedsift.cli.tables import table

if TYPE_CHECKING:
    from fedsift.costs.rates import Rates

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
    "openmined-psi": "private set intersection ('fedsift align')",
    "nvflare": "federations across organisations ('fedsift deploy')",
    "torch": "FedSDG-FS with protocol = 'paper'",
    "phe": "comparison in 'fedsift bench'",
}
_MISSING_EXIT_CODE = 2


def doctor(as_json: AsJson = False) -> None:
    """Check the installation and time this machine, so that 'fedsift plan' can predict costs."""
    with errors_as_exit_codes():
        needed = {name: _version(name) for name in NEEDED}
        missing = [name for name, version in needed.items() if version is None]
        rates = None if missing else _measured()
        found = {
            "fedsift": _version("fedsift"),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count(),
            "libraries": needed,
            "optional": {name: _version(name) for name in _optional()},
            "missing": missing,
            "speed": {} if rates is None else speed_of(rates),
            "rates": {} if rates is None else rates.seconds,
            "measured": rates is not None and rates.measured,
        }
        if as_json:
            echo_json(found)
        else:
            _print(found)
        if missing:
            raise typer.Exit(_MISSING_EXIT_CODE)


def _measured() -> Rates:
    from fedsift.costs import rates_of_this_machine

    return rates_of_this_machine(refresh=True)


def _optional() -> dict[str, str]:
    """Packages that only some methods or commands need, and which."""
    from fedsift.methods.registry import list_methods

    needs = [(package, method.name) for method in list_methods() for package in method.packages]
    return {package: f"the method {name!r}" for package, name in needs} | OPTIONAL


def speed_of(rates: Rates) -> dict[str, float]:
    """Speed in units a reader knows; BGV of ring degree 8192, Paillier keys of 3072 bits."""
    found = {
        "bgv_keygen_ms": 1000 * (rates["bgv key"] + rates["bgv switch key"]),
        "bgv_encrypt_ms": 1000 * rates["bgv encrypt"],
        "bgv_rotate_ms": 1000 * rates["bgv rotate"],
        "paillier_keygen_ms": 1000 * rates["paillier key"],
        "paillier_encrypt_per_second": 1 / rates["paillier encrypt"],
        "paillier_decrypt_per_second": 1 / rates["paillier decrypt"],
        "message_ms": 1000 * rates["call"],
    }
    return {name: round(value, 2) for name, value in found.items()}


def _version(library: str) -> str | None:
    from importlib import metadata

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
    purposes = _optional()
    for name, version in found["optional"].items():
        libraries.add_row(name, version or "-", shown(purposes[name]))
    out.print(libraries)
    speed = table(
        "Measured here" if found["measured"] else "Typical speed, not measured",
        "what",
        "value",
        numeric=("value",),
    )
    for name, value in found["speed"].items():
        speed.add_row(name.replace("_", " "), f"{value:,.1f}")
    out.print(speed)
    if found["missing"]:
        out.print(
            f"[bold red]Missing: {', '.join(found['missing'])}.[/bold red] Install fedsift again."
        )
    else:
        out.print("Everything that is needed is installed.")
