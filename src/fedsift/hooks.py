# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What lower layers use of higher ones without importing them; the package registers it.

Names are ``align_by_psi``, ``signing_keys`` and ``verify`` (functions), ``html`` and ``plots``
(modules of the report).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_FINDERS: dict[str, Callable[[], Any]] = {}


def register(name: str, find: Callable[[], Any]) -> None:
    """Say how a thing of a higher layer is found when it is used."""
    _FINDERS[name] = find


def use(name: str) -> Any:
    """Find a thing of a higher layer."""
    return _FINDERS[name]()
