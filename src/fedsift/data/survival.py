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

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import ValueProblem

Floats = npt.NDArray[np.float64]
PAIR = np.dtype([("event", np.float64), ("time", np.float64)])
"""One label: 1 where the event came and 0 where following ended before, and how long it took."""
LabelColumn = str | Mapping[str, str]
"""Name of the label column, or of those of ``time`` and ``event``."""


def column_names(label: LabelColumn | None) -> tuple[str, ...]:
    """Columns that a label is made of."""
    if label is None or isinstance(label, str):
        return () if label is None else (label,)
    return label["time"], label["event"]


def as_pairs_of(event: Any, time: Any, name: str) -> npt.NDArray[Any]:
    """Events and times as one column of labels; missing ones are NaN."""
    pairs = np.empty(len(event), dtype=PAIR)
    pairs["event"] = _numbers(event, f"event of the {name}")
    pairs["time"] = _numbers(time, f"time of the {name}")
    return pairs


def pairs_in(y: Any, name: str) -> npt.NDArray[Any] | None:
    """Labels of two parts as one column; None if they are something else.

    Parameters
    ----------
    y : structured array of (event, time), or frame or mapping with ``event`` and ``time``
    name : str
        What to call the labels in errors.
    """
    if isinstance(y, np.ndarray) and y.dtype.names is not None:
        if len(y.dtype.names) != 2 or y.ndim != 1:
            raise ValueProblem(
                f"The {name} is a structured array of {len(y.dtype.names)} fields.",
                "A survival label has two: whether the event came, and the time, in this order.",
                "Build the array from these two columns.",
            )
        event, time = (y[field] for field in y.dtype.names)
        return as_pairs_of(event, time, name)
    if isinstance(y, Mapping):
        names: Any = y
    else:
        names = getattr(y, "columns", ())
    if set(names) != {"event", "time"}:
        return None
    event, time = np.asarray(y["event"]), np.asarray(y["time"])
    if len(event) != len(time):
        raise ValueProblem(
            f"The {name} has {len(event)} events and {len(time)} times.",
            "Every row has one of both.",
            "Take both from the same table.",
        )
    return as_pairs_of(event, time, name)


def _numbers(values: Any, name: str) -> Floats:
    from fedsift.data.table import objects_as_numbers

    array = objects_as_numbers(np.asarray(values))
    if array.dtype.kind not in "biuf":
        raise ValueProblem(
            f"The {name} is not numeric.",
            "Events are 0 or 1, and times are numbers.",
            "Convert the column to numbers.",
        )
    return array.astype(np.float64)


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
