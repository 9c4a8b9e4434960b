# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that methods share: sizes of classes, announced jobs; and what runs need of sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation, Target
from fedsift.data.federation import is_remote
from fedsift.errors import AlignmentError, ParameterError, PolicyViolation
from fedsift.protocol import Message, Policy
from fedsift.protocol.policy import strictest_class_size

_ROUNDING = 1e-9
_ACTION = "or let every party lower min_class_size in its policy. Nothing was sent for this."


def class_minimum(policies: Mapping[str, Policy], federation: Federation) -> int:
    """Fewest rows of a class that all parties with data accept."""
    return strictest_class_size(policies, federation.parties)


def targets_here(federation: Federation) -> list[Target]:
    """The labels of a federation whose values are at this site."""
    targets = [federation.target, *federation.targets.values()]
    return [target for target in targets if target is not None and not is_remote(target)]


def check_target(target: Target, smallest: int) -> None:
    """Refuse classes of fewer rows, and numbers of which one row carries more than its share."""
    if target.kind == "classes":
        check_sizes(np.bincount(target.codes), smallest)
    elif rows_with_variance(target.values) < smallest:
        raise PolicyViolation(
            f"One row carries more than a share of 1/{smallest} of the variance of the label.",
            f"The parties want at least {smallest} rows to share it (min_class_size): a label that "
            "marks single rows makes scores tell the values of these rows.",
            f"Cap or transform extreme labels, drop these rows, {_ACTION}",
        )


def has_few_rows(values: npt.NDArray[np.float64], smallest: int) -> bool:
    """Whether fewer rows share the variance of a column that is compared with others' columns."""
    return rows_with_variance(values) < smallest - _ROUNDING


def check_rows(n_rows: int, smallest: int) -> None:
    """Refuse a party with fewer rows than a class needs, where rows have no labels."""
    if n_rows < smallest:
        raise PolicyViolation(
            f"A party has fewer than {smallest} rows.",
            f"The parties want at least {smallest} (min_class_size): moments of fewer rows tell "
            "their values.",
            f"Leave the party out, or give it more rows, {_ACTION}",
        )


def check_class_number(n_classes: int, n_rows: int, smallest: int) -> None:
    """Refuse more classes than rows can fill: all that a party without the labels can see."""
    if n_classes * smallest > n_rows:
        raise PolicyViolation(
            f"The label has {n_classes} classes in {n_rows} rows.",
            f"The parties want at least {smallest} rows in every class (min_class_size).",
            f"Merge classes, {_ACTION}",
        )


def check_sizes(sizes: npt.ArrayLike, smallest: int) -> None:
    """Refuse classes of fewer rows; a class without any does no harm."""
    counts = np.asarray(sizes)
    if counts.size and (counts[counts > 0] < smallest).any():
        refuse_small_class(smallest)


def refuse_small_class(smallest: int) -> NoReturn:
    """Say that a class has fewer rows."""
    raise PolicyViolation(
        f"A class of the label has fewer than {smallest} rows.",
        f"The parties want at least {smallest} rows in every class (min_class_size): a small "
        "class makes scores, sums and counts tell the values of its rows.",
        f"Merge small classes, drop their rows, {_ACTION}",
    )


def rows_with_variance(values: npt.NDArray[np.float64]) -> float:
    """How many rows share the variance of numbers at least; all rows if there is none.

    One over the largest share that a single row has of the squared distances, from the mean or from
    the median, whichever leaves fewer. Scores use the mean; the median keeps marked rows apart in
    short tables.

    Examples
    --------
    >>> round(rows_with_variance(np.array([0.0, 0, 0, 0, 0, 0, 0, 0, 0, 1])), 1)
    1.0
    >>> round(rows_with_variance(np.arange(100.0)))
    34
    """
    largest = np.abs(values).max(initial=0.0)
    if not largest > 0:
        return float(len(values))
    scaled = values / largest
    return min(_rows_sharing(scaled - centre) for centre in (scaled.mean(), np.median(scaled)))


def _rows_sharing(deviations: npt.NDArray[np.float64]) -> float:
    """One over the largest share of the squared length."""
    widest = np.abs(deviations).max(initial=0.0)
    if not widest > 0:
        return float(len(deviations))
    return float(((deviations / widest) ** 2).sum())


def check_row_count(leader: str, announced: int, own: int) -> None:
    """Refuse a job for another number of rows than this party has."""
    if announced != own:
        raise AlignmentError(
            f"The {leader} has {announced} rows, this party {own}.",
            "Vertical methods need the same rows in the same order at every party.",
            "Align the parties by id first.",
        )


def check_setting(leader: str, what: str, announced: str, own: str) -> None:
    """Refuse a job with another setting than this party agreed to."""
    if announced != own:
        raise ParameterError(
            f"The {leader} asks for the {what} {announced[:20]!r}.",
            f"This party agreed to {own!r}.",
            "Run the same job at every party.",
        )


@dataclass(frozen=True)
class SetupNeeds:
    """What the sites of a job must know of each other to agree on its settings.

    Parameters
    ----------
    choices : tuple of Message types
        Messages whose kinds decide a setting: sent if everybody concerned allows them.
    n_classes : bool
        Whether a setting depends on the number of classes.
    common_words : bool
        Whether categories and classes need the same numbers at every party.
    labels : bool
        Whether the method looks at labels.
    """

    choices: tuple[type[Message], ...] = ()
    n_classes: bool = False
    common_words: bool = False
    labels: bool = True


@dataclass(frozen=True)
class ResultNeeds:
    """What a method's result needs.

    Parameters
    ----------
    order : bool
        Names behind scores in secret order.
    gates : bool
    operations : bool
        Numbers of operations, of participants and the neutral party.
    remarks : bool
        False where rows have a budget of privacy.
    """

    order: bool = False
    gates: bool = False
    operations: bool = False
    remarks: bool = True
