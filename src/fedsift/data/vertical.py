# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Putting a federation together from what the parties hand over.

`assemble_vertical` and `assemble_horizontal` do the work behind `Federation.vertical` and
`Federation.horizontal`: read, take the labels out, encode, bring rows or columns into one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsift.config.toml import closest
from fedsift.data.alignment import Aligned, Rows, common_rows, lacks_ids
from fedsift.data.ids import Ids, as_pairs, check_names, make_ids
from fedsift.data.sources import (
    LabelColumn,
    RawColumn,
    RawTable,
    as_pairs_of,
    label_columns,
    missing_column,
    raw_column,
    read_source,
)
from fedsift.data.table import PartyTable, as_raw
from fedsift.data.target import Target
from fedsift.errors import AlignmentError, ParameterError, PartyError
from fedsift.result import Disclosure

IdColumns = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None
Label = tuple[str, Any] | None


class Parts(NamedTuple):
    """What a vertical federation is made of."""

    tables: dict[str, PartyTable]
    parties: tuple[str, ...]
    label_holder: str | None
    target: Target | None
    row_order: dict[str, Rows]
    disclosures: tuple[Disclosure, ...] = ()
    remarks: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


@dataclass(eq=False, repr=False)
class VerticalParty:
    """One party while a vertical federation is put together."""

    name: str
    n_rows: int
    table: PartyTable | None = None
    ids: Ids | None = None
    labels: RawColumn | None = None


def assemble_vertical(
    tables: Mapping[str, Any] | Sequence[tuple[str, Any]],
    label: Label,
    on: IdColumns,
    task: str,
    categorical: Sequence[str],
    alignment: str,
) -> Parts:
    """Read all tables, take the label out, and bring the rows into one order."""
    pairs = as_pairs(tables)
    holder, column, labels = _split_label(label)
    not_yet_found: set[str] = set(categorical)
    members = []
    for name, source in pairs:
        own_label = column if name == holder else None
        member, found = read_member(name, source, ids_of(on, name), own_label, categorical)
        not_yet_found -= found
        members.append(member)
    names = {m.name: m.table.feature_names if m.table else () for m in members}
    refuse_unknown_categorical(not_yet_found, names)
    if holder is not None:
        _attach_labels(members, holder, column, labels)
    aligned = _row_order(members, on is not None, alignment)
    return _parts(members, aligned, holder, task)


def ids_of(on: IdColumns, party: str) -> tuple[str, ...]:
    """Return the id columns of one party."""
    if isinstance(on, Mapping):
        on = on.get(party)
    if on is None:
        return ()
    return (on,) if isinstance(on, str) else tuple(on)


def labels_of(name: str, raw: RawTable, label: LabelColumn) -> tuple[RawColumn, RawTable]:
    """Take a label, of one column or of time and event, out of a party's table."""
    rest = raw.without(label_columns(label))
    if isinstance(label, str):
        return raw.column(label, name), rest
    time, event = (raw.column(column, name) for column in label_columns(label))
    pairs = as_pairs_of(event.values, time.values, f"label of party {name!r}")
    return RawColumn(time.name, pairs), rest


def _split_label(label: Label) -> tuple[str | None, LabelColumn | None, Any]:
    """Return the label holder, and either the column or the labels themselves."""
    if label is None:
        return None, None, None
    if not isinstance(label, tuple) or len(label) != 2 or not isinstance(label[0], str):
        raise ParameterError(
            f"The label is given as {type(label).__name__}.",
            "It must be a pair (party, column name) or (party, labels).",
            "For example label=('bank', 'default').",
        )
    party, what = label
    if isinstance(what, Mapping) and all(isinstance(name, str) for name in what.values()):
        if set(what) != {"time", "event"}:
            raise ParameterError(
                f"The label names {len(what)} columns.",
                "A label of survival times names two: time and event.",
                "For example label=('bank', {'time': 'days', 'event': 'died'}).",
            )
        return party, what, None
    return (party, what, None) if isinstance(what, str) else (party, None, what)


def read_member(
    name: str,
    source: Any,
    id_names: tuple[str, ...],
    label_column: LabelColumn | None,
    categorical: Sequence[str],
) -> tuple[VerticalParty, set[str]]:
    """Read one party; also return which of the categorical columns it has.

    A party that has nothing but labels and ids is one without a table.
    """
    if isinstance(source, PartyTable):
        return _member_of_table(name, source, id_names, label_column, categorical)
    raw = read_source(
        source, party=name, text_columns=(*id_names, *categorical), index_columns=id_names
    )
    found = set(categorical) & set(raw.names)
    labels = None
    if label_column is not None:
        labels, raw = labels_of(name, raw, label_column)
    if label_column is not None and set(raw.names) == set(id_names) and raw.n_rows:
        ids = make_ids([raw.column(c, name) for c in id_names], name) if id_names else None
        return VerticalParty(name, raw.n_rows, None, ids, labels), found
    own = [c for c in categorical if c in raw.names]
    table = PartyTable.from_any(raw, name=name, ids=id_names or None, categorical=own)
    return VerticalParty(name, table.n_rows, table, table.ids, labels), found


def _member_of_table(
    name: str,
    table: PartyTable,
    id_names: tuple[str, ...],
    label_column: LabelColumn | None,
    categorical: Sequence[str],
) -> tuple[VerticalParty, set[str]]:
    labels = None if label_column is None else labels_of(name, as_raw(table), label_column)[0]
    found = set(categorical) & set(table.feature_names)
    features = [
        c for c in table.feature_names if c not in (*label_columns(label_column), *id_names)
    ]
    if label_column is not None and not features:
        ids = table.ids
        if set(id_names) & set(table.feature_names):
            ids = make_ids([as_raw(table).column(c, name) for c in id_names], name)
        return VerticalParty(name, table.n_rows, None, ids, labels), found
    own = [c for c in categorical if c in features]
    kept = PartyTable.from_any(
        table, name=name, ids=id_names or None, columns=features, categorical=own
    )
    return VerticalParty(name, kept.n_rows, kept, kept.ids, labels), found


def refuse_unknown_categorical(left_over: set[str], names: Mapping[str, Sequence[str]]) -> None:
    """Refuse categorical columns that no party has; ``names`` are the columns by party."""
    if not left_over:
        return
    name = min(left_over)
    known = [column for columns in names.values() for column in columns]
    party = next(iter(names))
    for owner, columns in names.items():
        if closest(name, known) in columns:
            party = owner
    raise missing_column(name, known, party)


def _attach_labels(
    members: list[VerticalParty], holder: str, column: LabelColumn | None, labels: Any
) -> None:
    """Give the labels to their holder, who may be a party of its own."""
    member = next((m for m in members if m.name == holder), None)
    if column is not None:
        if member is None:
            known = [m.name for m in members]
            raise PartyError(
                f"The label is to come from party {holder!r}, which has no table.",
                f"It must be one of the {len(known)} parties: {', '.join(map(repr, known))}.",
                "Name one of these parties, or pass the labels themselves.",
            )
        return
    own = raw_column("label", labels, holder)
    if member is None:
        check_names([*(m.name for m in members), holder])
        members.append(VerticalParty(holder, len(own.values), labels=own))
        return
    if len(own.values) != member.n_rows:
        raise different_rows(holder, member.n_rows, f"the labels of {holder}", len(own.values))
    member.labels = own


def _row_order(members: Sequence[VerticalParty], by_id: bool, alignment: str) -> Aligned:
    """Find for every party the rows to take."""
    if by_id:
        ids: dict[str, Ids] = {}
        for member in members:
            if member.ids is None:
                raise lacks_ids(member.name)
            ids[member.name] = member.ids
        return common_rows(ids, alignment)
    for member in members[1:]:
        if member.n_rows != members[0].n_rows:
            raise different_rows(members[0].name, members[0].n_rows, member.name, member.n_rows)
    _refuse_other_ids([member for member in members if member.ids is not None])
    return Aligned({member.name: np.arange(member.n_rows) for member in members})


def _refuse_other_ids(members: Sequence[VerticalParty]) -> None:
    """Without an id to align by, ids that are there must already agree."""
    for member in members[1:]:
        first = members[0]
        n_different = int(np.sum(np.asarray(first.ids) != np.asarray(member.ids)))
        if n_different:
            raise AlignmentError(
                f"The ids of {first.name!r} and {member.name!r} differ in {n_different} of "
                f"{first.n_rows} rows.",
                "Without an id to align by, all parties need the same rows in the same order.",
                "Pass the id column as `on` so that the rows are put into one order.",
            )


def different_rows(left: str, n_left: int, right: str, n_right: int) -> AlignmentError:
    """Build the error for parties whose rows cannot belong together."""
    return AlignmentError(
        f"{left!r} has {n_left} rows but {right!r} has {n_right}.",
        "Vertical methods need the same rows at every party.",
        "Pass the id column as `on`, or keep only the common rows.",
    )


def _parts(
    members: Sequence[VerticalParty], aligned: Aligned, holder: str | None, task: str
) -> Parts:
    rows = aligned.rows
    tables = {
        member.name: _taken(member.table, rows[member.name])
        for member in members
        if member.table is not None
    }
    if not tables:
        raise PartyError(
            "No party has features.",
            "At least one party needs columns besides ids and label.",
            "Add a party with features.",
        )
    target = None
    for member in members:
        if member.labels is not None:
            whole, taken = member.labels, rows[member.name]
            labels = RawColumn(
                whole.name, whole.values[taken], whole.declared_categorical, whole.order
            )
            target = Target.from_values(labels, task, name=_label_text(member))
    parties = tuple(member.name for member in members)
    remarks = tuple(
        f"Party {m.name!r} takes part with {len(rows[m.name])} of {m.n_rows} rows: those that all "
        "parties have."
        for m in members
        if len(rows[m.name]) < m.n_rows
    )
    revealed = aligned.disclosures
    return Parts(tables, parties, holder, target, rows, revealed, remarks, aligned.messages)


def _taken(table: PartyTable, rows: NDArray[np.int64]) -> PartyTable:
    in_place = len(rows) == table.n_rows and bool((rows == np.arange(len(rows))).all())
    return table if in_place else table.take(rows)


def _label_text(member: VerticalParty) -> str:
    return f"label of party {member.name!r}"
