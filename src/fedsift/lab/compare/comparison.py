# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison leaves behind: every cell, and the table made of them. Plain JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from fedsift.lab.compare.cells import Cell
from fedsift.lab.compare.leak_check import LeakCheck
from fedsift.lab.compare.stability import Stability
from fedsift.lab.compare.summary import Mean
from fedsift.result import read_written, write_atomically

FORMAT = "fedsift-comparison/1"


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of the table.

    Attributes
    ----------
    label, kind : str
        Name of the row; method, peer, all, random, local or pooled.
    scores : dict of model -> metric -> Mean
        On the test rows, with true labels.
    differences : dict of control -> model -> Mean
        How much better this row is than a control, split by split.
    n_selected : Mean or None
    precision, recall : Mean or None
        Where the features that matter are known.
    stability : Stability or None
    seconds, cpu_seconds, n_bytes, messages : Mean or None
        Cost of one selection. Of a method that ran plain, the cost of its secure run, if there was
        one; ``cost_of`` says so.
    cost_of : str
        ``secure``, ``plain``, ``secure run of the first fold``, or empty.
    disclosed : tuple of str
        Who learned what, each once.
    verified : bool or None
        Whether the secure run selected the same features as the plain one; None if not compared.
    leak : dict of model -> LeakCheck
        Outcome with shuffled labels.
    failed : tuple of str
        Why cells are missing, each reason once.
    """

    label: str
    kind: str
    scores: dict[str, dict[str, Mean]] = {}
    differences: dict[str, dict[str, Mean]] = {}
    n_selected: Mean | None = None
    precision: Mean | None = None
    recall: Mean | None = None
    stability: Stability | None = None
    seconds: Mean | None = None
    cpu_seconds: Mean | None = None
    n_bytes: Mean | None = None
    messages: Mean | None = None
    cost_of: str = ""
    disclosed: tuple[str, ...] = ()
    verified: bool | None = None
    leak: dict[str, LeakCheck] = {}
    failed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool | None:
        """Whether shuffled labels gave chance for every model; None if that was not tried."""
        return all(check.passed for check in self.leak.values()) if self.leak else None


class DataOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The table of one data set.

    Attributes
    ----------
    name, setting : str
    parties : tuple of str
    n_rows, n_features, n_classes : int
        No classes for numbers.
    labelled : bool
        Without labels, selections have no scores.
    truth : int or None
        Number of features known to matter.
    guessing : dict of metric -> value
        What a model reaches that knows nothing.
    n_copies : int
        Rows that repeat the features of another.
    shared : float
        Share of test rows whose features are among the training rows.
    rows : tuple of Row
    notes : tuple of str
        Warnings, and methods left out.
    """

    name: str
    setting: str
    parties: tuple[str, ...]
    n_rows: int
    n_features: int
    n_classes: int = 0
    labelled: bool = True
    truth: int | None = None
    guessing: dict[str, float] = {}
    n_copies: int = 0
    shared: float = 0.0
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """The main one: accuracy, or R2 for numbers."""
        return "accuracy" if self.n_classes else "r2"

    @property
    def models(self) -> list[str]:
        """Models of the table, in their order."""
        return list(dict.fromkeys(model for row in self.rows for model in row.scores))

    def row(self, label: str) -> Row:
        """One row by its name."""
        return next(row for row in self.rows if row.label == label)


class Comparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of :func:`fedsift.lab.compare.compare`, and the JSON of ``fedsift compare``.

    Attributes
    ----------
    data : tuple of DataOutcome
    settings : dict
        Folds, seeds, models, security, shuffles.
    cells : tuple of Cell
        Everything the tables were made of.
    seconds, cpu_seconds : float
        Of the whole comparison; cells that were used again cost nothing.
    reused : int
        Cells taken from an interrupted comparison.
    interrupted : bool
        Whether Ctrl-C ended it early.
    """

    data: tuple[DataOutcome, ...]
    settings: dict[str, Any]
    cells: tuple[Cell, ...] = ()
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    reused: int = 0
    interrupted: bool = False
    versions: dict[str, str] = {}
    format: str = FORMAT

    @property
    def passed(self) -> bool:
        """Whether no row did better than chance on shuffled labels."""
        return all(row.passed is not False for data in self.data for row in data.rows)

    @property
    def failures(self) -> list[str]:
        """Cells that failed, as text."""
        return [
            f"{data.name}, {row.label}: {reason}"
            for data in self.data
            for row in data.rows
            for reason in row.failed
        ]

    def text(self) -> str:
        """Tables in plain text."""
        from fedsift.lab.compare.text import render

        return render(self)

    def to_json(self) -> str:
        """Indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML page built from this comparison alone."""
        from fedsift.lab.compare.html import render

        return write_atomically(path, render(self))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the comparison as JSON, completely or not at all."""
        return write_atomically(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        """Read a file written by :meth:`save`."""
        which = "comparison.json that 'fedsift compare' wrote"
        return read_written(path, cls, "comparison", FORMAT, which)
