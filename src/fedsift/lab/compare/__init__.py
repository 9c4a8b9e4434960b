# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a selection is worth, and what its transcript gives away."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsift.lab.compare.cases import Case
    from fedsift.lab.compare.comparison import Comparison
    from fedsift.lab.compare.run import compare

# Looked up on first use: a page about attacks needs no models.
_HOMES = {
    "Case": "fedsift.lab.compare.cases",
    "Comparison": "fedsift.lab.compare.comparison",
    "compare": "fedsift.lab.compare.run",
}

__all__ = ["Case", "Comparison", "compare"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fedsift.lab.compare' has no attribute {name!r}")
