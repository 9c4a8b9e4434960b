# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site knows of data that is somewhere else: that it is there, and as much as was told.

Every site of a joint run builds a federation in which its own table is real and the others are
outlines. Whoever touches a value behind an outline gets an error, not a made-up number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsift.data.federation import Federation
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import UndeclaredFlow

T = TypeVar("T", PartyTable, Target)


class RemoteTable(PartyTable):
    """A table at another site.

    Parameters
    ----------
    name : str
        The party.
    feature_names : sequence of str
        Names that this site was told; empty if it needs none.
    n_rows : int
        Rows that take part; 0 if this site was not told.

    Examples
    --------
    >>> RemoteTable("shop", ["visits"], 40)
    RemoteTable('shop', 40 rows x 1 columns)
    """

    def __init__(self, name: str, feature_names: Sequence[str] = (), n_rows: int = 0) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_told", (tuple(feature_names), n_rows))

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r}, {self.n_rows} rows x {self.n_columns} columns)"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names as far as this site was told."""
        names: tuple[str, ...] = self._told[0]  # type: ignore[attr-defined]
        return names

    @property
    def n_columns(self) -> int:
        """Number of columns as far as this site was told."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Rows as far as this site was told."""
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
    """Labels at another site: classes or numbers, and how many classes if that was told."""

    def __init__(self, kind: Literal["classes", "numbers"], n_classes: int = 0) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "_n_classes", n_classes)

    def __repr__(self) -> str:
        return f"TargetOutline({self.kind})"

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 if this site was not told."""
        return int(self._n_classes)  # type: ignore[attr-defined]

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
        Features of all parties, also where their names were not told.
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
    return isinstance(value, (RemoteTable, TargetOutline))


def local_only(values: Mapping[str, T]) -> dict[str, T]:
    """The tables or targets whose values are here."""
    return {party: value for party, value in values.items() if not is_remote(value)}


def _elsewhere(what: str) -> UndeclaredFlow:
    return UndeclaredFlow(
        f"{what} are at another site.",
        "A site computes with its own data and with messages.",
        "Report this: a method has read what no party sent it.",
    )
