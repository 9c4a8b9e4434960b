# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""From cells to the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedsift.lab.compare.cases import Case
from fedsift.lab.compare.cells import KINDS, LOCAL, METHOD, PEER, POOLED, Cell
from fedsift.lab.compare.comparison import DataOutcome, Row
from fedsift.lab.compare.metrics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    guessing,
    precision_and_recall,
)
from fedsift.lab.compare.runner import ALL_ROW, pooled_row, random_row_of
from fedsift.lab.compare.shuffles import leak_checks
from fedsift.lab.compare.splits import Copies
from fedsift.lab.compare.stability import Stability, stability
from fedsift.lab.compare.summary import Mean, mean_over_splits, paired_difference

FIRST_FOLD = "secure run of the first fold"
_FEW = 0.005

Scores = Mapping[tuple[int, int], float]


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
        {} if target is None else guessing(case.pooled.y, target.kind == "classes"),
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
            self._metric = "r2"

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
