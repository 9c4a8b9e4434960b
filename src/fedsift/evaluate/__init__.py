# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a selection is worth, and what its transcript gives away."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsift.evaluate.cases import Case
    from fedsift.evaluate.comparing import compare
    from fedsift.evaluate.comparison import Comparison

# Looked up on first use: a page about attacks needs no models.
_HOMES = {
    "Case": "fedsift.evaluate.cases",
    "Comparison": "fedsift.evaluate.comparison",
    "compare": "fedsift.evaluate.comparing",
}

__all__ = ["Case", "Comparison", "compare"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fedsift.evaluate' has no attribute {name!r}")
