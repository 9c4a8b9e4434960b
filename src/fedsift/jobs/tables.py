# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The federation as one site of a joint run knows it: own parts are real, others are outlines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedsift.data.ids import Ids
from fedsift.data.part import LABEL, Part, recoded_target
from fedsift.data.remarks import remarks_on
from fedsift.data.remote_table import JointFederation, RemoteTable, TargetOutline
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import AlignmentError, ValueProblem
from fedsift.jobs.setup_terms import NO_LABELS, NUMBERS, Agreed, Terms

Rows = npt.NDArray[np.int64]


def joint_federation(terms: Terms, agreed: Agreed, parts: Mapping[str, Part]) -> JointFederation:
    """Put together what is at home and what was told about the rest.

    Parameters
    ----------
    terms : Terms
    agreed : Agreed
        What this site knows since the meeting.
    parts : mapping of party to Part
        Those at home, with the rows that take part.
    """
    if terms.setting == "vertical":
        return _vertical(terms, agreed, parts)
    tables: dict[str, PartyTable] = {}
    targets: dict[str, Target | None] = {}
    for party in agreed.features:
        codes = dict(agreed.codes.get(party, {}))
        if party in parts:
            table = parts[party].recoded(agreed.columns, codes).table
            assert table is not None  # noqa: S101 - horizontal parties have columns
            tables[party] = table
        else:
            tables[party] = RemoteTable(party, agreed.columns, agreed.n_rows.get(party, 0))
        targets[party] = _target(agreed, parts.get(party), fewest_classes=1)
        own = targets[party]
        if own is not None and LABEL in codes:
            targets[party] = recoded_target(own, *codes[LABEL])
    return JointFederation(
        "horizontal", tables, terms.parties, targets=targets, total_features=agreed.n_features
    )


def _vertical(terms: Terms, agreed: Agreed, parts: Mapping[str, Part]) -> JointFederation:
    n_rows = next((part.n_rows for part in parts.values()), agreed.n_rows.get(terms.coordinator, 0))
    tables: dict[str, PartyTable] = {}
    for party, names in agreed.features.items():
        own = parts[party].table if party in parts else None
        tables[party] = RemoteTable(party, names, n_rows) if own is None else own
    target = _target(agreed, parts.get(terms.coordinator), fewest_classes=2)
    if target is not None and agreed.n_classes and target.n_classes != agreed.n_classes:
        raise ValueProblem(
            "A class of the label has no rows left among those that all parties have.",
            f"The {agreed.n_classes} classes of the label are needed.",
            "Join classes, or leave the rows of rare ones out.",
        )
    return JointFederation(
        "vertical",
        tables,
        terms.parties,
        label_holder=terms.label_party,
        target=target,
        total_features=agreed.n_features,
    )


def _target(agreed: Agreed, part: Part | None, *, fewest_classes: int) -> Target | None:
    """Labels as agreed at the meeting, whatever some of the rows alone would look like."""
    if agreed.labels == NO_LABELS:
        return None
    numbers = agreed.labels == NUMBERS
    if part is None:
        return TargetOutline("numbers" if numbers else "classes", agreed.n_classes)
    task = "regression" if numbers else "classification"
    return part.target(task, fewest_classes=fewest_classes)


def rows_in_common(ids: Mapping[str, Ids], leader: str) -> dict[str, Rows]:
    """Rows that all parties have, in the leader's order, found in the clear in this process."""
    common = set(ids[leader].tolist()).intersection(*(own.tolist() for own in ids.values()))
    if not common:
        raise AlignmentError(
            f"No id is common to all {len(ids)} parties.",
            "At least one common row is needed.",
            "Check that the same id is meant, and that it is written the same way.",
        )
    order = [text for text in ids[leader].tolist() if text in common]
    rows = {}
    for party, own in ids.items():
        place = {text: row for row, text in enumerate(own.tolist())}
        rows[party] = np.array([place[text] for text in order], dtype=np.int64)
    return rows


def rows_left_out(n_rows: Mapping[str, int], n_common: int) -> tuple[str, ...]:
    """Remarks on parties whose rows do not all take part."""
    return tuple(
        f"Party {party!r} takes part with {n_common} of {rows} rows: those that all parties have."
        for party, rows in n_rows.items()
        if n_common < rows
    )


def remarks_of(part: Part) -> tuple[str, ...]:
    """What is remarkable about one party's columns; counts only."""
    return () if part.table is None else remarks_on({part.party: part.table}, [])
