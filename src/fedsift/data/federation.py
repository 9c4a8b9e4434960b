# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A federation: parties, the tables they own, and who holds the labels.

What is fine but may not be what the user meant is remarked on, with counts only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsift.data.horizontal import assemble_horizontal
from fedsift.data.ids import unknown_party
from fedsift.data.sources import LabelColumn, missing_column
from fedsift.data.table import Column, PartyTable
from fedsift.data.target import Target
from fedsift.data.vertical import IdColumns, Label, assemble_vertical
from fedsift.errors import UndeclaredFlow
from fedsift.result import Disclosure

__all__ = ["EVERYONE", "Federation", "Target"]

Setting = Literal["vertical", "horizontal"]

# Owner in `Federation.feature_names` of a column that every party has.
EVERYONE = "*"


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Several parties and what each of them owns.

    Build it with `vertical`, `horizontal`, `split_vertical` or `split_horizontal`.

    Parameters
    ----------
    setting : {"vertical", "horizontal"}
        Whether the parties share the rows or the columns.
    tables : dict of str to PartyTable
        Tables in party order; a party of labels only has none.
    parties : tuple of str
        All parties.
    label_holder : str or None
        Who holds the labels of a vertical federation.
    target : Target or None
        The labels of a vertical federation.
    targets : dict of str to Target or None
        The labels of every party of a horizontal federation.
    column_order : dict of str to tuple of int
        For every party the columns of the original table that it owns.
    row_order : dict of str to ndarray of int64
        For every party the rows of its source (or of the table that was split) it uses.
    warnings : tuple of str
        Things a user should know; no values.
    disclosures : tuple of Disclosure
        Who learned what when the rows were aligned.
    messages : tuple of str
        What commits to the messages of the alignment, for the signed record of a run.
    """

    setting: Setting
    tables: dict[str, PartyTable]
    parties: tuple[str, ...]
    label_holder: str | None = None
    target: Target | None = None
    targets: dict[str, Target | None] = field(default_factory=dict)
    column_order: dict[str, tuple[int, ...]] = field(default_factory=dict)
    row_order: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    disclosures: tuple[Disclosure, ...] = ()
    messages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A federation that was not cut out of one table is its own original.
        if not self.column_order:
            object.__setattr__(self, "column_order", self._own_column_order())
        if not self.row_order:
            rows = {name: np.arange(table.n_rows) for name, table in self.tables.items()}
            object.__setattr__(self, "row_order", rows)
        if not self.warnings:
            targets = [self.target] if self.setting == "vertical" else list(self.targets.values())
            object.__setattr__(self, "warnings", remarks_on(self.tables, targets))

    @classmethod
    def vertical(
        cls,
        tables: Mapping[str, Any] | Sequence[tuple[str, Any]],
        label: Label = None,
        on: IdColumns = None,
        task: str = "auto",
        categorical: Sequence[str] = (),
        *,
        alignment: str = "auto",
    ) -> Federation:
        """Join parties that know different things about the same rows.

        Parameters
        ----------
        tables : mapping or sequence of pairs
            Party name to anything `PartyTable.from_any` takes.
        label : (party, column) or (party, array-like), optional
            Where the labels are; of survival times the columns are
            ``{"time": ..., "event": ...}``. A party that has nothing but labels (and ids) holds
            labels only; labels given as an array may belong to a party without a table.
        on : str, list of str, or mapping of party to these, optional
            Id column or columns to align the rows by. Without it all parties need the same
            rows in the same order.
        task : {"auto", "classification", "regression", "survival"}
            What the labels are.
        categorical : list of str
            Columns, at whichever party, that hold categories although they look like numbers.
        alignment : str
            How the rows are aligned by ``on``: ``"psi"`` keeps the common rows and shows no other
            ids (private set intersection), ``"exact"`` wants the same ids everywhere; ``"auto"`` is
            the first where openmined-psi is installed.

        Returns
        -------
        federation : Federation
            All tables in the first party's row order.

        Examples
        --------
        >>> bank = {"id": [1, 2, 3], "income": [10, 20, 15], "default": ["n", "y", "n"]}
        >>> shop = {"id": [3, 1, 2], "visits": [7, 8, 9]}
        >>> fed = Federation.vertical(
        ...     {"bank": bank, "shop": shop}, label=("bank", "default"), on="id"
        ... )
        >>> fed.tables["shop"].column("visits").values.tolist()
        [8.0, 9.0, 7.0]
        """
        parts = assemble_vertical(tables, label, on, task, categorical, alignment)
        return cls(
            setting="vertical",
            tables=parts.tables,
            parties=parts.parties,
            label_holder=parts.label_holder,
            target=parts.target,
            row_order=parts.row_order,
            disclosures=parts.disclosures,
            messages=parts.messages,
            warnings=(*remarks_on(parts.tables, [parts.target]), *parts.remarks),
        )

    @classmethod
    def horizontal(
        cls,
        tables: Mapping[str, Any] | Sequence[tuple[str, Any]],
        label: LabelColumn | None = None,
        task: str = "auto",
        categorical: Sequence[str] = (),
        *,
        ids: str | Sequence[str] | None = None,
    ) -> Federation:
        """Join parties that know the same things about different rows.

        Parameters
        ----------
        tables : mapping or sequence of pairs
            Party name to ``(X, y)``, a data frame, a PartyTable or the path of a file.
        label : str or dict, optional
            Label column of the tables that are not ``(X, y)``; without it they have no labels.
            Survival times have two, ``{"time": ..., "event": ...}``, and every party compares its
            rows with its own rows at risk (a model stratified by party).
        task : {"auto", "classification", "regression", "survival"}
            What the labels are.
        categorical : list of str
            Columns that hold categories although they look like numbers.
        ids : str or list of str, optional
            Id columns, which are no features.

        Returns
        -------
        federation : Federation
            Same columns, category codes and class codes at every party.
        """
        parts = assemble_horizontal(tables, label, ids, task, categorical)
        return cls(
            setting="horizontal",
            tables=parts.tables,
            parties=tuple(parts.tables),
            targets=parts.targets,
        )

    def __repr__(self) -> str:
        return (
            f"Federation({self.setting}, {len(self.parties)} parties, "
            f"{self.n_rows} rows x {self.n_features} features)"
        )

    @property
    def n_rows(self) -> int:
        """Rows that the parties share (vertical) or have together (horizontal)."""
        rows = [table.n_rows for table in self.tables.values()]
        return rows[0] if self.setting == "vertical" else sum(rows)

    @property
    def n_features(self) -> int:
        """Features that the parties have together (vertical) or share (horizontal)."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> tuple[tuple[str, str], ...]:
        """Pairs (party, column) in federation order; the party is ``"*"`` in a horizontal one."""
        if self.setting == "horizontal":
            first = next(iter(self.tables.values()))
            return tuple((EVERYONE, name) for name in first.feature_names)
        return tuple(
            (party, name) for party, table in self.tables.items() for name in table.feature_names
        )

    def columns_of(self, parties: Iterable[str]) -> NDArray[np.bool_]:
        """Mark the features that some parties own.

        Parameters
        ----------
        parties : iterable of str
            Party names.

        Returns
        -------
        mask : ndarray of bool of shape (n_features,)
            In federation order; in a horizontal federation every party owns every feature.
        """
        wanted = set(parties)
        for party in sorted(wanted):
            if party not in self.parties:
                raise unknown_party(party, self.parties)
        if self.setting == "horizontal":
            return np.full(self.n_features, bool(wanted))
        return np.array([party in wanted for party, _ in self.feature_names], dtype=bool)

    def original_support(self, selected: Mapping[str, Sequence[str]]) -> NDArray[np.bool_]:
        """Mark selected features in the column order of the table that was split.

        Parameters
        ----------
        selected : mapping of party to list of column names
            What was selected.

        Returns
        -------
        mask : ndarray of bool of shape (n_features,)
            Support over the original columns; over federation order if nothing was split.
        """
        mask = np.zeros(self.n_features, dtype=bool)
        for party, names in selected.items():
            if party == EVERYONE and self.setting == "horizontal":
                party = self.parties[0]
            if party not in self.parties:
                raise unknown_party(party, self.parties)
            known = self.tables[party].feature_names if party in self.tables else ()
            position = dict(zip(known, self.column_order.get(party, ()), strict=True))
            for name in names:
                if name not in position:
                    raise missing_column(name, known, party)
                mask[position[name]] = True
        return mask

    def describe(self) -> list[str]:
        """Say in a few lines of plain text who has what; no values."""
        lines = [f"{self.setting} federation of {len(self.parties)} parties"]
        lines.extend(f"  {party}: {self._share_of(party)}" for party in self.parties)
        lines.append(f"rows: {self.n_rows}, features: {self.n_features}")
        lines.append(self._describe_target())
        lines.extend(f"note: {remark}" for remark in self.warnings)
        return lines

    def _share_of(self, party: str) -> str:
        if party not in self.tables:
            return "labels only"
        table = self.tables[party]
        n_categorical = sum(column.kind == "categorical" for column in table.columns)
        text = f"{table.n_rows} rows, {table.n_columns} features"
        if n_categorical:
            text += f" ({n_categorical} categorical)"
        holds_labels = party == self.label_holder or self.targets.get(party) is not None
        return text + (", labels" if holds_labels else "")

    def _describe_target(self) -> str:
        held = [t for t in (self.target, *self.targets.values()) if t is not None]
        if not held:
            return "labels: none"
        if held[0].kind == "numbers":
            return "labels: numbers"
        return f"labels: {held[0].n_classes} classes"

    def _own_column_order(self) -> dict[str, tuple[int, ...]]:
        order: dict[str, tuple[int, ...]] = {}
        start = 0
        for party, table in self.tables.items():
            order[party] = tuple(range(start, start + table.n_columns))
            start += table.n_columns if self.setting == "vertical" else 0
        return order


T = TypeVar("T", PartyTable, Target)


class RemoteTable(PartyTable):
    """A table at another site.

    Parameters
    ----------
    name : str
        The party.
    feature_names : sequence of str
        Names that this site knows; empty if it needs none.
    n_rows : int
        Rows that take part; 0 if this site does not know.
    """

    at_another_site: ClassVar[bool] = True

    def __init__(self, name: str, feature_names: Sequence[str] = (), n_rows: int = 0) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_told", (tuple(feature_names), n_rows))

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r}, {self.n_rows} rows x {self.n_columns} columns)"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names as far as this site knows them."""
        names: tuple[str, ...] = self._told[0]  # type: ignore[attr-defined]
        return names

    @property
    def n_columns(self) -> int:
        """Number of columns as far as this site knows."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Rows as far as this site knows."""
        return int(self._told[1])  # type: ignore[attr-defined]

    @property
    def columns(self) -> NoReturn:
        """Values are not here."""
        raise _elsewhere(f"The columns of party {self.name!r}")

    @property
    def ids(self) -> NoReturn:
        """Ids are not here."""
        raise _elsewhere(f"The ids of party {self.name!r}")


class TargetOutline(Target):
    """Labels at another site: classes, as many as is known, or numbers, perhaps of times."""

    at_another_site: ClassVar[bool] = True

    def __init__(self, kind: str, n_classes: int = 0, task: str = "auto") -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "_told", (n_classes, task))

    def __repr__(self) -> str:
        return f"TargetOutline({self.kind})"

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 if this site does not know."""
        return int(self._told[0])  # type: ignore[attr-defined]

    @property
    def has_times(self) -> bool:
        """Whether the job says that labels are survival times."""
        return bool(self._told[1] == "survival")  # type: ignore[attr-defined]

    @property
    def codes(self) -> NDArray[np.int64]:
        """Labels are not here."""
        raise _elsewhere("The labels")

    @property
    def values(self) -> NDArray[np.float64]:
        """Labels are not here."""
        raise _elsewhere("The labels")

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names are not here."""
        raise _elsewhere("The class names")


@dataclass(frozen=True, eq=False, repr=False)
class JointFederation(Federation):
    """A federation as one site knows it; remarks on the data are exchanged, not looked up.

    Parameters
    ----------
    total_features : int
        Features of all parties, also where their names are not known.
    """

    total_features: int = 0

    def __post_init__(self) -> None:
        if not self.column_order:
            object.__setattr__(self, "column_order", self._own_column_order())

    @property
    def n_features(self) -> int:
        """Features that the parties have together (vertical) or share (horizontal)."""
        return self.total_features


def is_remote(value: Any) -> bool:
    """Whether a table or target is at another site."""
    return getattr(value, "at_another_site", False)


def local_only(values: Mapping[str, T]) -> dict[str, T]:
    """The tables or targets whose values are here."""
    return {party: value for party, value in values.items() if not is_remote(value)}


def _elsewhere(what: str) -> UndeclaredFlow:
    return UndeclaredFlow(
        f"{what} are at another site.",
        "A site computes with its own data and with messages.",
        "Report this: a method has read what no party sent it.",
    )


_RARE_CLASS_ROWS = 5
_MOSTLY = 0.5


def remarks_on(
    tables: Mapping[str, PartyTable], targets: Sequence[Target | None]
) -> tuple[str, ...]:
    """List constant, mostly missing and id-like columns and rare classes; counts only.

    Parameters
    ----------
    tables : mapping of str to PartyTable
        Checked tables.
    targets : sequence of Target or None
        The labels of all parties.

    Returns
    -------
    remarks : tuple of str
        One sentence each.
    """
    remarks = [remark for table in tables.values() for remark in _on_table(table)]
    return (*remarks, *_on_targets([target for target in targets if target is not None]))


def _on_table(table: PartyTable) -> list[str]:
    checks = (
        (_is_constant, "have the same value in every row"),
        (_is_mostly_missing, "are missing in more than half of the rows"),
        (_is_like_an_id, "have a different category in every row, like an id"),
    )
    remarks = []
    for check, text in checks:
        n_found = sum(check(column) for column in table.columns)
        if n_found:
            remarks.append(f"{n_found} of {table.n_columns} columns of {table.name!r} {text}.")
    return remarks


def _is_constant(column: Column) -> bool:
    if column.missing.any():
        return False
    return bool((column.values == column.values[0]).all())


def _is_mostly_missing(column: Column) -> bool:
    return float(column.missing.mean()) > _MOSTLY


def _is_like_an_id(column: Column) -> bool:
    n_rows = len(column.values)
    return column.kind == "categorical" and n_rows > 1 and len(column.categories) >= n_rows


def _on_targets(targets: Sequence[Target]) -> list[str]:
    if not targets:
        return []
    if targets[0].kind == "numbers":
        values = np.concatenate([target.values for target in targets])
        return ["The label is the same number in every row."] if np.ptp(values) == 0 else []
    codes = np.concatenate([target.codes for target in targets])
    sizes = np.bincount(codes, minlength=targets[0].n_classes)
    n_rare = int((sizes < _RARE_CLASS_ROWS).sum())
    if not n_rare:
        return []
    return [f"{n_rare} of {len(sizes)} classes have fewer than {_RARE_CLASS_ROWS} rows."]
