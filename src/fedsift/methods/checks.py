# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of constructor parameters, made when ``fit`` is called."""

from __future__ import annotations

import numbers

import numpy as np

from fedsift.errors import ParameterError


def check_choices(choices):
    """Refuse values that are not among the allowed ones; name -> (value, allowed)."""
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise ParameterError(
                f"{name}={value!r}.", f"One of {', '.join(allowed)} is needed.", "Choose one."
            )


def check_number(name, value, smallest, *, strict):
    """Return a number; refuse what is not finite and above (or not below) the smallest."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if (
        is_number
        and np.isfinite(value)
        and (value > smallest or (value == smallest and not strict))
    ):
        return value
    raise ParameterError(
        f"{name}={value!r}.",
        f"A number {'above' if strict else 'not below'} {smallest:g} is needed.",
        f"Pass another {name}.",
    )


def check_whole(name, value, smallest, largest):
    """Refuse what is not a whole number within limits."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not smallest <= value <= largest:
        raise ParameterError(
            f"{name}={value!r}.",
            f"A whole number from {smallest} to {largest} is needed.",
            f"Pass another {name}.",
        )
