# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Bringing the parties' rows into one order by their ids.

An aligner gets the ids of every party and answers which rows each party must take, in the
common order. ``"exact"`` needs the same ids at every party and looks at them in the clear, as a
simulation in one process may. ``"psi"`` finds the common ids by private set intersection; it is a
protocol like any other, so it lives above this layer; the package finds it when it is asked for.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsift import hooks
from fedsift.data.ids import Ids, refuse_duplicates
from fedsift.data.table import PartyTable
from fedsift.errors import AlignmentError, ParameterError
from fedsift.result import Disclosure

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Aligned:
    """Which rows every party takes, in the common order, and who learned what on the way."""

    rows: dict[str, Rows]
    disclosures: tuple[Disclosure, ...] = ()
    messages: tuple[str, ...] = ()


class Aligner(Protocol):
    """Finds the common rows of several parties."""

    def __call__(self, ids: Mapping[str, Ids]) -> Aligned:
        """Find for every party the rows to take, so that equal positions mean equal ids."""
        ...


def exact(ids: Mapping[str, Ids]) -> Aligned:
    """Put everyone into the first party's order; every party must have the same ids."""
    for (left, left_ids), (right, right_ids) in combinations(ids.items(), 2):
        _refuse_different_sets(left, left_ids, right, right_ids)
    first = next(iter(ids.values()))
    rank_in_first = np.argsort(first, kind="stable")
    rows: dict[str, Rows] = {}
    for party, own in ids.items():
        taken = np.empty(len(own), dtype=np.int64)
        taken[rank_in_first] = np.argsort(own, kind="stable")
        rows[party] = taken
    return Aligned(rows)


def psi(ids: Mapping[str, Ids]) -> Aligned:
    """Put the common rows of all parties into the first party's order; needs openmined-psi."""
    aligned: Aligned = hooks.use("align_by_psi")(ids)
    return aligned


ALIGNERS: dict[str, Aligner] = {"exact": exact, "psi": psi}
"""Aligners by name."""


def register_aligner(method: str, aligner: Aligner) -> None:
    """Make another way of alignment known, e.g. private set intersection."""
    ALIGNERS[method] = aligner


def common_rows(ids: Mapping[str, Ids], method: str = "auto") -> Aligned:
    """Find the rows every party must take.

    Parameters
    ----------
    ids : mapping of party name to ndarray of str
        Unique ids of every party.
    method : str
        Name of a registered aligner; ``"auto"`` is ``"psi"`` where openmined-psi is installed and
        ``"exact"`` elsewhere.

    Returns
    -------
    aligned : Aligned
        Row numbers in the common order.
    """
    if method == "auto":
        has_psi = importlib.util.find_spec("private_set_intersection") is not None
        method = "psi" if has_psi else "exact"
    if method not in ALIGNERS:
        raise ParameterError(
            f"Alignment method {method!r} is not known.",
            f"It must be one of: auto, {', '.join(sorted(ALIGNERS))}.",
            "Choose one of these, or register an aligner of that name.",
        )
    for party, own in ids.items():
        refuse_duplicates(own, party)
    if not ids:
        return Aligned({})
    return ALIGNERS[method](ids)


def align(tables: dict[str, PartyTable], method: str = "auto") -> dict[str, PartyTable]:
    """Reorder tables so that equal row numbers mean equal ids.

    Parameters
    ----------
    tables : dict of party name to PartyTable
        Tables with ids.
    method : str
        See `common_rows`.

    Returns
    -------
    aligned : dict of party name to PartyTable
        The same parties, all in one row order.
    """
    ids: dict[str, Ids] = {}
    for party, table in tables.items():
        if table.ids is None:
            raise lacks_ids(party)
        ids[party] = table.ids
    rows = common_rows(ids, method).rows
    return {party: table.take(rows[party]) for party, table in tables.items()}


def lacks_ids(party: str) -> AlignmentError:
    """Build the error for a party without ids where ids are needed."""
    return AlignmentError(
        f"Party {party!r} has no row ids.",
        "Rows can be aligned only if every party has ids.",
        "Name the id column, or leave the id out everywhere if all rows are in the same order.",
    )


def _refuse_different_sets(left: str, left_ids: Ids, right: str, right_ids: Ids) -> None:
    missing_right = len(np.setdiff1d(left_ids, right_ids, assume_unique=True))
    missing_left = len(np.setdiff1d(right_ids, left_ids, assume_unique=True))
    if missing_right or missing_left:
        raise AlignmentError(
            f"The ids do not match: {missing_right} of the {len(left_ids)} ids of {left!r} are "
            f"missing at {right!r}, and {missing_left} of the {len(right_ids)} ids of {right!r} "
            f"are missing at {left!r}.",
            "Every party needs the same ids, in any order.",
            "Keep the common rows with 'fedsift align' or alignment='psi' (both need the extra "
            "fedsift[psi]), and check that the same id is meant.",
        )
