# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Putting a horizontal federation together: the same columns at every party, different rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsift.data.ids import as_pairs
from fedsift.data.sources import LabelColumn, RawColumn, raw_column, read_source, shortened, united
from fedsift.data.table import PartyTable, as_raw
from fedsift.data.target import Target
from fedsift.data.vertical import labels_of
from fedsift.errors import AlignmentError, ColumnError


class HorizontalParts(NamedTuple):
    """What a horizontal federation is made of."""

    tables: dict[str, PartyTable]
    targets: dict[str, Target | None]


def assemble_horizontal(
    tables: Mapping[str, Any] | Sequence[tuple[str, Any]],
    label: LabelColumn | None,
    ids: str | Sequence[str] | None,
    task: str,
    categorical: Sequence[str],
) -> HorizontalParts:
    """Read all tables and make columns, categories and classes agree."""
    read: dict[str, PartyTable] = {}
    labels: dict[str, RawColumn | None] = {}
    for name, source in as_pairs(tables):
        read[name], labels[name] = _read_party(name, source, label, ids, categorical)
    return HorizontalParts(_with_equal_columns(read), united_targets(labels, task))


def united_targets(labels: Mapping[str, RawColumn | None], task: str) -> dict[str, Target | None]:
    """Encode the labels of all parties so that a code means the same class everywhere.

    A single party may have one class only; all together need two.
    """
    held = {name: column for name, column in labels.items() if column is not None}
    targets: dict[str, Target | None] = dict.fromkeys(labels)
    if not held:
        return targets
    pooled = Target.from_values(_pooled(list(held.values())), task, name="label of all parties")
    start = 0
    for name, column in held.items():
        stop = start + len(column.values)
        targets[name] = pooled.take(np.arange(start, stop))
        start = stop
    return targets


def _pooled(columns: Sequence[RawColumn]) -> RawColumn:
    kinds = {column.values.dtype.kind in "biufV" for column in columns}
    arrays = [c.values if kinds == {True} else c.values.astype(object) for c in columns]
    if len({column.values.dtype.names for column in columns}) > 1:
        raise ColumnError(
            "Some parties have survival times as labels, and others do not.",
            "All parties of a horizontal federation need labels of one kind.",
            "Give every party events and times, or none.",
        )
    orders = [column.order for column in columns if column.order is not None]
    return RawColumn(
        columns[0].name,
        np.concatenate(arrays),
        any(column.declared_categorical for column in columns),
        united(orders) if len(orders) == len(columns) else None,
    )


def _read_party(
    name: str,
    source: Any,
    label: LabelColumn | None,
    ids: str | Sequence[str] | None,
    categorical: Sequence[str],
) -> tuple[PartyTable, RawColumn | None]:
    if isinstance(source, tuple) and len(source) == 2:
        features, y = source
        features = _as_table_source(features)
        table = PartyTable.from_any(features, name=name, ids=ids, categorical=categorical)
        return table, None if y is None else _checked_length(y, table)
    if label is None:
        return PartyTable.from_any(source, name=name, ids=ids, categorical=categorical), None
    if isinstance(source, PartyTable):
        labels, rest = labels_of(name, as_raw(source), label)
        kept = list(rest.names)
        narrowed = source.select(kept)
        return PartyTable.from_any(narrowed, name=name, ids=ids, categorical=categorical), labels
    id_names = () if ids is None else (ids,) if isinstance(ids, str) else tuple(ids)
    raw = read_source(
        source, party=name, text_columns=(*id_names, *categorical), index_columns=id_names
    )
    labels, rest = labels_of(name, raw, label)
    return PartyTable.from_any(rest, name=name, ids=ids, categorical=categorical), labels


def _as_table_source(features: Any) -> Any:
    return np.asarray(features) if isinstance(features, list) else features


def _checked_length(y: Any, table: PartyTable) -> RawColumn:
    labels = raw_column("label", y, table.name)
    if len(labels.values) != table.n_rows:
        raise AlignmentError(
            f"Party {table.name!r} has {table.n_rows} rows but {len(labels.values)} labels.",
            "Every row needs one label.",
            "Pass X and y of the same length.",
        )
    return labels


def _with_equal_columns(tables: dict[str, PartyTable]) -> dict[str, PartyTable]:
    """Put all tables into the first one's column order, with common category codes."""
    first = next(iter(tables.values()))
    ordered: dict[str, PartyTable] = {}
    for name, table in tables.items():
        refuse_other_columns(first, table)
        ordered[name] = table.select(first.feature_names)
        _refuse_other_kinds(first, ordered[name])
    return _with_equal_categories(ordered)


def refuse_other_columns(first: PartyTable, table: PartyTable) -> None:
    """Refuse a table whose columns have other names than the first one's, in whatever order."""
    known, own = set(first.feature_names), set(table.feature_names)
    lacking = [column for column in first.feature_names if column not in own]
    extra = [column for column in table.feature_names if column not in known]
    if not lacking and not extra:
        return
    differences = []
    if lacking:
        differences.append(f"lacks {shortened(lacking)}")
    if extra:
        differences.append(f"has {shortened(extra)} on top")
    raise ColumnError(
        f"Party {table.name!r} has other columns than {first.name!r}: it "
        f"{' and '.join(differences)}.",
        "Horizontal methods need the same columns at every party, in any order.",
        "Rename, add or remove columns until the names agree.",
    )


def _refuse_other_kinds(first: PartyTable, table: PartyTable) -> None:
    pairs = zip(first.columns, table.columns, strict=True)
    different = [left.name for left, right in pairs if left.kind != right.kind]
    if different:
        raise different_kinds(first.name, table.name, different)


def different_kinds(first: str, other: str, columns: Sequence[str]) -> ColumnError:
    """Build the error for columns that are numbers at one party and categories at another."""
    return ColumnError(
        f"Parties {first!r} and {other!r} disagree whether these columns are numbers or "
        f"categories: {shortened(columns)}.",
        "A column must be of one kind at every party.",
        "Convert the columns, or list them under `categorical`.",
    )


def _with_equal_categories(tables: dict[str, PartyTable]) -> dict[str, PartyTable]:
    by_position = zip(*(table.columns for table in tables.values()), strict=True)
    lists = [united([column.categories for column in columns]) for columns in by_position]
    return {
        name: PartyTable(
            table.name,
            tuple(
                column.recoded(categories) if column.kind == "categorical" else column
                for column, categories in zip(table.columns, lists, strict=True)
            ),
            table.ids,
            table.id_names,
        )
        for name, table in tables.items()
    }
