# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison leaves behind: every cell, and the tables made of them. Plain JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedsift.errors import FileProblem
from fedsift.lab.compare.cases import Case, Copies
from fedsift.lab.compare.cells import KINDS, LOCAL, METHOD, PEER, POOLED, Cell
from fedsift.lab.compare.judge import (
    CLASS_METRICS,
    NUMBER_METRICS,
    guessing,
    precision_and_recall,
)
from fedsift.lab.compare.measures import (
    LeakCheck,
    Mean,
    Stability,
    leak_checks,
    mean_over_splits,
    paired_difference,
    stability,
)
from fedsift.lab.compare.runner import ALL_ROW, pooled_row, random_row_of
from fedsift.result import read_written, write_atomically

FORMAT = "fedsift-comparison/1"
FIRST_FOLD = "secure run of the first fold"
_FEW = 0.005

Scores = Mapping[tuple[int, int], float]


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
        """The main one: accuracy, R2 for numbers, or the concordance index of survival times."""
        return "accuracy" if self.n_classes else next(iter(self.guessing), "r2")

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
        from fedsift.lab.compare.view import render_text

        return render_text(self)

    def to_json(self) -> str:
        """Indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML page built from this comparison alone."""
        from fedsift.lab.compare.view import render_html

        return write_atomically(path, render_html(self))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the comparison as JSON, completely or not at all."""
        return write_atomically(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        """Read a file written by :meth:`save`; one that no page can be made of is refused."""
        from fedsift.lab.compare.view import render_html

        which = "comparison.json that 'fedsift compare' wrote"
        found = read_written(path, cls, "comparison", FORMAT, which)
        try:
            found.text(), render_html(found)
        except (LookupError, TypeError, ValueError, ArithmeticError, StopIteration) as error:
            raise FileProblem(
                f"The parts of the comparison in {os.fspath(path)} do not fit together.",
                f"A complete JSON file of format {FORMAT} is needed.",
                f"Pass the {which}, as it was written.",
            ) from error
        return found


# From cells to the rows of a table


def outcome_of(
    case: Case,
    cells: Sequence[Cell],
    copies: Copies,
    permutations: int,
    test_share: float,
    notes: Sequence[str] = (),
) -> DataOutcome:
    """The table of one data set.

    Parameters
    ----------
    case : Case
    cells : sequence of Cell
        Of this data set.
    copies : Copies
    permutations : int
        First shuffles per split.
    test_share : float
        Test rows by training rows.
    notes : sequence of str
        Methods left out, and why.
    """
    made = _Rows(case, cells, permutations, test_share)
    labels = list(dict.fromkeys(cell.row for cell in cells))
    rows = sorted((made.row(label) for label in labels), key=lambda row: KINDS.index(row.kind))
    target = case.pooled.target
    remarks = [*notes, *(_copies_note(copies, case) or ()), *case.federation.warnings]
    return DataOutcome(
        case.name,
        case.federation.setting,
        tuple(case.federation.parties),
        case.pooled.n_rows,
        case.pooled.n_features,
        0 if target is None else target.n_classes,
        target is not None,
        None if case.truth is None else len(case.truth),
        {} if target is None else guessing(target),
        copies.n_copies,
        copies.shared,
        tuple(rows),
        tuple(remarks),
    )


def _copies_note(copies: Copies, case: Case) -> list[str] | None:
    if not copies.n_copies:
        return None
    text = f"{copies.n_copies} of {copies.n_rows} rows repeat the features of another row"
    if case.copies_together:
        return [f"{text}; copies were kept in the same fold."]
    if copies.shared < _FEW:
        return [f"{text}; {copies.shared:.1%} of the test rows stand in the training rows too."]
    return [
        f"WARNING: {text}: {copies.shared:.1%} of the test rows stand in the training rows too, so "
        "scores are too good. 'copies_together = true' keeps copies in the same fold."
    ]


class _Rows:
    """Makes the rows of one data set."""

    def __init__(
        self, case: Case, cells: Sequence[Cell], permutations: int, test_share: float
    ) -> None:
        self._case, self._cells = case, list(cells)
        self._permutations, self._test_share = permutations, test_share
        self._metric = "accuracy"
        if case.pooled.target is not None and case.pooled.target.kind != "classes":
            self._metric = next(iter(guessing(case.pooled.target)))

    def row(self, label: str) -> Row:
        """One row with everything that is known about it."""
        cells = [cell for cell in self._cells if cell.row == label]
        kind = cells[0].kind
        good = [c for c in cells if not (c.failed or c.permutation or c.verification)]
        chooses = kind in (METHOD, PEER, POOLED)
        costs, cost_of = self._cost(cells, good)
        precision, recall = self._truth(good) if chooses else (None, None)
        return Row(
            label,
            kind,
            scores=self._scores(good),
            differences=self._differences(label, kind, good),
            n_selected=self._mean(good, lambda cell: cell.n_selected),
            precision=precision,
            recall=recall,
            stability=self._stability(good) if chooses else None,
            seconds=self._mean(costs, lambda cell: cell.seconds) if chooses else None,
            cpu_seconds=self._mean(costs, lambda cell: cell.cpu_seconds) if chooses else None,
            n_bytes=self._mean(costs, lambda cell: cell.n_bytes) if kind == METHOD else None,
            messages=self._mean(costs, lambda cell: cell.messages) if kind == METHOD else None,
            cost_of=cost_of if kind == METHOD else "",
            disclosed=tuple(dict.fromkeys(text for cell in costs for text in cell.disclosed)),
            verified=_verified(cells),
            leak=leak_checks(cells, self._permutations),
            failed=tuple(dict.fromkeys(cell.failed for cell in cells if cell.failed)),
        )

    def _cost(self, cells: list[Cell], good: list[Cell]) -> tuple[list[Cell], str]:
        verification = [cell for cell in cells if cell.verification and not cell.failed]
        if verification:
            return verification, FIRST_FOLD
        return good, next((cell.security for cell in good), "")

    def _mean(self, cells: list[Cell], value: Callable[[Cell], float]) -> Mean | None:
        return mean_over_splits([float(value(cell)) for cell in cells], self._test_share)

    def _scores(self, good: list[Cell]) -> dict[str, dict[str, Mean]]:
        found: dict[str, dict[str, Mean]] = {}
        for model in next(iter(cell.scores for cell in good), {}):
            for metric in (*CLASS_METRICS, *NUMBER_METRICS):
                values = [
                    cell.scores[model][metric]
                    for cell in good
                    if metric in cell.scores.get(model, {})
                ]
                mean = mean_over_splits(values, self._test_share)
                if mean is not None:
                    found.setdefault(model, {})[metric] = mean
        return found

    def _truth(self, good: list[Cell]) -> tuple[Mean | None, Mean | None]:
        if self._case.truth is None:
            return None, None
        pairs = [precision_and_recall(cell.selected, self._case.truth) for cell in good]
        right = [precision for precision, _ in pairs if precision is not None]
        found = [recall for _, recall in pairs]
        return mean_over_splits(right, self._test_share), mean_over_splits(found, self._test_share)

    def _stability(self, good: list[Cell]) -> Stability:
        selections = np.zeros((len(good), self._case.pooled.n_features), dtype=bool)
        for number, cell in enumerate(good):
            selections[number, list(cell.selected)] = True
        return stability(selections)

    def _differences(self, label: str, kind: str, good: list[Cell]) -> dict[str, dict[str, Mean]]:
        if kind not in (METHOD, PEER):
            return {}
        against = {"all features": ALL_ROW, "best local": self._best_local()}
        if kind == METHOD:
            against["random"] = random_row_of(label, self._cells)
            against["pooled"] = pooled_row(label)
        found: dict[str, dict[str, Mean]] = {}
        for control, row in against.items():
            for model in next(iter(cell.scores for cell in good), {}):
                difference = paired_difference(
                    self._by_split(label, model), self._by_split(row, model), self._test_share
                )
                if difference is not None:
                    found.setdefault(control, {})[model] = difference
        return found

    def _by_split(self, row: str, model: str) -> Scores:
        return {
            cell.split: cell.scores[model][self._metric]
            for cell in self._cells
            if cell.row == row
            and not (cell.permutation or cell.verification)
            and self._metric in cell.scores.get(model, {})
        }

    def _best_local(self) -> str:
        """The party that does best alone, over all models and splits."""
        rows = list(dict.fromkeys(cell.row for cell in self._cells if cell.kind == LOCAL))

        def worth(row: str) -> float:
            cells = [c for c in self._cells if c.row == row]
            values = [s.get(self._metric, 0.0) for c in cells for s in c.scores.values()]
            return float(np.mean(values)) if values else -np.inf

        return max(rows, key=worth, default="")


def _verified(cells: list[Cell]) -> bool | None:
    """Whether a secure run chose the same as the plain run of its split."""
    for secure in cells:
        if not secure.verification or secure.failed:
            continue
        for plain in cells:
            same_split = plain.split == secure.split and not plain.permutation
            if same_split and not plain.verification and not plain.failed:
                return plain.selected == secure.selected
    return None
