# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Turning names and single values into text, the same way everywhere.

Ids, categories and class labels of different parties are compared as text, so a pandas float
``7.0`` at one party and an integer ``7`` at another must come out alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_SHOWN_NAMES = 8


def plain_text(value: Any) -> str:
    """Text of one cell: stripped, and without the ``.0`` that pandas adds to whole numbers."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def parses_as_number(text: str) -> bool:
    """Whether Python would read this text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def in_reading_order(texts: Iterable[str]) -> tuple[str, ...]:
    """Distinct texts in the order a person expects: by size if all are numbers, else by letter."""
    distinct = sorted(set(texts))
    if all(parses_as_number(text) for text in distinct):
        distinct.sort(key=float)
    return tuple(distinct)


def united(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """One list that holds every text of all lists; an order given on purpose is kept."""
    everything = list(dict.fromkeys(text for texts in lists for text in texts))
    if all(texts == in_reading_order(texts) for texts in lists):
        return in_reading_order(everything)
    return tuple(everything)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name a person most likely meant, or None."""
    by_folded = {candidate.strip().casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.strip().casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Sequence[str], *, what: str) -> str:
    """Word the action part of an error about an unknown name.

    Parameters
    ----------
    name : str
        What was asked for.
    known : sequence of str
        What there is.
    what : str
        Plural noun for the known names, e.g. ``"columns"``.

    Returns
    -------
    action : str
        ``Did you mean 'x'?`` or the first few known names.
    """
    meant = closest(name, known)
    if meant is not None:
        return f"Did you mean {meant!r}?"
    return f"Known {what}: {shortened(known)}."


def shortened(names: Iterable[str]) -> str:
    """List the first few names, and how many more there are."""
    listed = [repr(name) for name in names]
    more = len(listed) - _SHOWN_NAMES
    return ", ".join(listed[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
