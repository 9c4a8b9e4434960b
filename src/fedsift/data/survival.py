# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Labels that say how long a row was followed, and whether the event came: survival targets.

Methods that take numbers take martingale residuals of a model without any feature: whether the
event came, less how often it was to be expected in the time that the row was followed
(Nelson-Aalen, and with it Breslow's way with ties). A column times the residuals, summed over rows,
is the score of Cox's partial likelihood at zero. Parties with different rows compute residuals of
their own rows: a model that is stratified by party.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import ValueProblem

Floats = npt.NDArray[np.float64]


def check_pairs(pairs: npt.NDArray[Any], name: str, *, needs_event: bool) -> None:
    """Refuse missing parts, events other than 0 and 1, and times that cannot be."""
    event, time = pairs["event"], pairs["time"]
    wrong = [
        ("is missing", np.isnan(event) | np.isnan(time), "Every row needs an event and a time.",
         "Remove those rows, or fill in what is missing."),
        ("has an event other than 0 and 1", (event != 0) & (event != 1),
         "1 says that the event came, 0 that following ended before.",
         "Convert the column of events."),
        ("has a negative or infinite time", ~((time >= 0) & np.isfinite(time)),
         "Times run from the start of following and are finite.",
         "Check in which unit and from when times are counted."),
    ]  # fmt: skip
    for found, rows, needed, action in wrong:
        if rows.any():
            text = f"The {name} {found} in {int(rows.sum())} of {len(pairs)} rows."
            raise ValueProblem(text, needed, action)
    if needs_event and not event.any():
        raise ValueProblem(
            f"The {name} has no event in {len(pairs)} rows.",
            "Where no event came, nothing can be said about when it comes.",
            "Check that the right column is used for events.",
        )


def martingale_residuals(event: npt.ArrayLike, time: npt.ArrayLike) -> Floats:
    """Events less their expected number, in a model without features.

    Examples
    --------
    >>> martingale_residuals([1, 0, 1], [1.0, 2.0, 3.0]).round(3).tolist()
    [0.667, -0.333, -0.333]
    """
    came, when = np.asarray(event, dtype=np.float64), np.asarray(time, dtype=np.float64)
    times, place = np.unique(when, return_inverse=True)
    events = np.bincount(place, weights=came, minlength=len(times))
    at_risk = np.cumsum(np.bincount(place, minlength=len(times))[::-1])[::-1]
    return np.asarray(came - np.cumsum(events / at_risk)[place])


def concordance_index(event: npt.ArrayLike, time: npt.ArrayLike, risk: npt.ArrayLike) -> float:
    """Harrell's C: how often of two rows the one with the higher risk had the event first.

    Pairs count where the earlier time is that of an event; one with the same time and no event
    counts as later. Equal risks count half. NaN without such pairs.

    Examples
    --------
    >>> concordance_index([1, 1, 0], [1.0, 2.0, 3.0], [0.9, 0.1, 0.5])
    0.6666666666666666
    """
    came, when = np.asarray(event, dtype=bool), np.asarray(time, dtype=np.float64)
    risks = np.asarray(risk, dtype=np.float64)
    pairs, right = 0, 0.0
    for row in np.flatnonzero(came):
        later = risks[(when > when[row]) | ((when == when[row]) & ~came)]
        pairs += len(later)
        right += float((later < risks[row]).sum()) + 0.5 * float((later == risks[row]).sum())
    return right / pairs if pairs else float("nan")
