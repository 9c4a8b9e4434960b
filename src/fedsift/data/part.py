# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What one party brings to a joint run: its features, its labels, its ids. It stays at its site.

In a simulation, parties that keep their names to themselves get numbers in the result instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedsift.data import Federation
from fedsift.data.ids import Ids
from fedsift.data.sources import LabelColumn, RawColumn, is_missing, label_columns, read_source
from fedsift.data.table import Column, PartyTable, objects_as_numbers
from fedsift.data.target import Target
from fedsift.data.vertical import read_member
from fedsift.errors import DataError
from fedsift.result import SelectionResult

Codes = NDArray[np.int64]
LABEL = "label"
"""Stands for the label where vocabularies are listed by column; columns have ``column:`` names."""


@dataclass(frozen=True, eq=False)
class Part:
    """One party's data, read and checked.

    Parameters
    ----------
    party : str
    n_rows : int
    table : PartyTable or None
        None for a party that has labels only.
    labels : RawColumn or None
    ids : ndarray of str or None
    has_gaps : bool
        Whether some rows may lack a label; the kind of labels is then that of the others.
    own_names : mapping of str to str
        What only the party knows: the names behind numbers that stand for its features.
    """

    party: str
    n_rows: int
    table: PartyTable | None = None
    labels: RawColumn | None = None
    ids: Ids | None = None
    has_gaps: bool = False
    own_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features; none if there is no table."""
        return () if self.table is None else self.table.feature_names

    def target(self, task: str, *, fewest_classes: int = 2) -> Target | None:
        """The labels as classes or numbers, if there are any."""
        if self.labels is None:
            return None
        labels = self.labels
        if self.has_gaps:
            labels = _taken(labels, np.flatnonzero(~self.unlabelled()))
        name = f"label of party {self.party!r}"
        return Target.from_values(labels, task, name=name, fewest_classes=fewest_classes)

    def unlabelled(self) -> NDArray[np.bool_]:
        """Rows without a label."""
        if self.labels is None:
            return np.ones(self.n_rows, dtype=bool)
        missing: NDArray[np.bool_] = is_missing(objects_as_numbers(self.labels.values))
        return missing

    def select(self, columns: Sequence[str]) -> Part:
        """The same party with these features only; it may be left with none but labels."""
        if self.table is None or not columns:
            return replace(self, table=None)
        return replace(self, table=self.table.select(list(columns)))

    def anonymous(self) -> Part:
        """The same party with numbers instead of names of features, in the order of its table."""
        if self.table is None or self.own_names:
            return self
        numbers = numbered(self.party, self.table.n_columns)
        names = dict(zip(numbers, self.table.feature_names, strict=True))
        columns = tuple(
            replace(column, name=number)
            for number, column in zip(numbers, self.table.columns, strict=True)
        )
        return replace(self, table=replace(self.table, columns=columns), own_names=names)

    def without_labels(self) -> Part:
        """The same party in a job that does not use its labels."""
        return replace(self, labels=None)

    def take(self, rows: Codes) -> Part:
        """The same party with these rows, in this order."""
        labels = None if self.labels is None else _taken(self.labels, rows)
        table = None if self.table is None else self.table.take(rows)
        ids = None if self.ids is None else self.ids[rows]
        return Part(self.party, len(rows), table, labels, ids, self.has_gaps, self.own_names)

    def words(self, target: Target | None) -> dict[str, tuple[str, ...]]:
        """Categories of every categorical column, and the classes."""
        columns = () if self.table is None else self.table.columns
        words = {f"column:{c.name}": c.categories for c in columns if c.kind == "categorical"}
        if target is not None and target.kind == "classes":
            words[LABEL] = target.classes
        return words

    def recoded(self, columns: Sequence[str], codes: dict[str, tuple[Codes, int]]) -> Part:
        """The same party with columns in the common order and common codes of categories."""
        if self.table is None:
            return self
        table = self.table.select(columns)
        changed = tuple(
            _recoded(column, *codes[f"column:{column.name}"])
            if f"column:{column.name}" in codes
            else column
            for column in table.columns
        )
        return replace(self, table=replace(table, columns=changed))


def numbered(party: str, n_features: int) -> tuple[str, ...]:
    """What others see of a party that keeps the names of its features to itself.

    Examples
    --------
    >>> numbered("shop", 2)
    ('shop #1', 'shop #2')
    """
    return tuple(f"{party} #{i + 1}" for i in range(n_features))


def read_part(
    party: str,
    source: Any,
    *,
    ids: Sequence[str] = (),
    label: LabelColumn | None = None,
    columns: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
) -> Part:
    """Read and check one party's data.

    Parameters
    ----------
    party : str
        Name of the party.
    source : anything :meth:`PartyTable.from_any` takes
    ids : sequence of str
        Columns that identify a row.
    label : str, or mapping with ``time`` and ``event``, optional
        The label column or columns, which are no features.
    columns : sequence of str, optional
        The only columns to use as features.
    categorical : sequence of str
        Columns that hold categories although they look like numbers; others may be at other
        parties.

    Returns
    -------
    part : Part
    """
    if columns is not None:
        raw = read_source(source, party=party, text_columns=(*ids, *categorical), index_columns=ids)
        wanted = [*ids, *columns, *label_columns(label)]
        source = raw.only(list(dict.fromkeys(wanted)), party)
    member, _ = read_member(party, source, tuple(ids), label, categorical)
    return Part(party, member.n_rows, member.table, member.labels, member.ids)


def recoded_target(target: Target, codes: Codes, n_classes: int) -> Target:
    """Own classes under common codes; classes of other parties have numbers instead of names."""
    names = _placed(target.classes, codes, n_classes)
    return Target("classes", codes=codes[target.codes], classes=names)


def _taken(whole: RawColumn, rows: Codes) -> RawColumn:
    return RawColumn(whole.name, whole.values[rows], whole.declared_categorical, whole.order)


def _recoded(column: Column, codes: Codes, n_categories: int) -> Column:
    names = _placed(column.categories, codes, n_categories)
    new_codes = np.append(codes, -1)[column.values.astype(np.int64)]
    return Column(column.name, column.kind, new_codes, names)


def _placed(own: tuple[str, ...], codes: Codes, size: int) -> tuple[str, ...]:
    """Own words at their common places; what other parties call the rest is not known here."""
    names = [f"#{place}" for place in range(size)]
    for text, code in zip(own, codes.tolist(), strict=True):
        names[code] = text
    return tuple(names)


def load_anonymous(load: Callable[[], Part]) -> Part:
    """Read a table whose names stay with the party, also those in what may be wrong with it."""
    try:
        return load().anonymous()
    except DataError as error:
        raise DataError(
            "A party's table cannot be used.",
            "The party keeps the names of its columns, so only its own checks say what is wrong.",
            "Have that party check its table, with 'fedsift deploy party' or 'fedsift plan'.",
        ) from error


def anonymised(
    result: SelectionResult, federation: Federation, parties: Iterable[str]
) -> SelectionResult:
    """The result as others may see it: features of these parties by number, such as "shop #3".

    Numbers follow the order of the columns in the party's table, so that the party itself can tell.
    """
    names: dict[str, dict[str, str]] = {}
    for party in parties:
        if party in federation.tables:
            own = federation.tables[party].feature_names
            names[party] = dict(zip(own, numbered(party, len(own)), strict=True))
    if not names:
        return result
    return msgspec.structs.replace(
        result,
        selected={
            party: tuple(names.get(party, {}).get(name, name) for name in chosen)
            for party, chosen in result.selected.items()
        },
        scores=_by_party(result.scores, names),
        ranking=_by_party(result.ranking, names),
        p_values=_by_party(result.p_values, names),
        q_values=_by_party(result.q_values, names),
        history=tuple(_entry(entry, names) for entry in result.history),
        warnings=tuple(_sentence(text, names) for text in result.warnings),
        steps=tuple(anonymised(step, federation, names) for step in result.steps),
    )


def _by_party(values: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {
        party: (
            {names[party].get(name, name): value for name, value in own.items()}
            if party in names and isinstance(own, dict)
            else own
        )
        for party, own in values.items()
    }


def _entry(entry: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    changed = {
        key: _by_party(value, names) if isinstance(value, dict) else value
        for key, value in entry.items()
    }
    party, feature = entry.get("party"), entry.get("feature")
    if isinstance(party, str) and isinstance(feature, str):
        changed["feature"] = names.get(party, {}).get(feature, feature)
    return changed


def _sentence(text: str, names: Mapping[str, Mapping[str, str]]) -> str:
    """Remarks quote names of columns."""
    for own in names.values():
        for name in sorted(own, key=len, reverse=True):
            text = text.replace(repr(name), repr(own[name]))
    return text
