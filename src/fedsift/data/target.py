# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The target: class labels, numbers or survival times that the features are judged by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsift.data.sources import RawColumn, is_missing, pairs_in, raw_column
from fedsift.data.survival import check_pairs, martingale_residuals
from fedsift.data.table import encode, objects_as_numbers
from fedsift.errors import ColumnError, ParameterError, ValueProblem

TASKS = ("auto", "classification", "regression", "survival")

# Up to this many distinct values, whole numbers are taken for class labels.
_MOST_CLASSES = 50


def _no_numbers() -> NDArray[np.float64]:
    return np.empty(0)


def _no_codes() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """Labels of all rows.

    Parameters
    ----------
    kind : {"classes", "numbers"}
        Classification or regression.
    codes : ndarray of int64 of shape (n_rows,)
        Position in ``classes``; empty for numbers.
    classes : tuple of str
        Class names; empty for numbers.
    values : ndarray of float64 of shape (n_rows,)
        The numbers; empty for classes. Of survival times martingale residuals.
    event, time : ndarray of float64 of shape (n_rows,)
        Of survival times: whether the event came, and when; empty otherwise. They stay with the
        labels and are for evaluation only.

    Examples
    --------
    >>> Target.from_values(["no", "yes", "no"])
    Target(classes, 3 rows, 2 classes)
    """

    kind: Literal["classes", "numbers"]
    codes: NDArray[np.int64] = field(default_factory=_no_codes)
    classes: tuple[str, ...] = ()
    values: NDArray[np.float64] = field(default_factory=_no_numbers)
    event: NDArray[np.float64] = field(default_factory=_no_numbers)
    time: NDArray[np.float64] = field(default_factory=_no_numbers)

    def __post_init__(self) -> None:
        for array in (self.codes, self.values, self.event, self.time):
            array.flags.writeable = False

    @classmethod
    def of_survival(cls, event: ArrayLike, time: ArrayLike) -> Target:
        """Residuals of checked events and times; parties with different rows each have a model."""
        came, when = np.array(event, dtype=np.float64), np.array(time, dtype=np.float64)
        return cls("numbers", values=martingale_residuals(came, when), event=came, time=when)

    @classmethod
    def from_values(
        cls, y: Any, task: str = "auto", *, name: str = "label", fewest_classes: int = 2
    ) -> Target:
        """Check labels and find out whether they are classes or numbers.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The labels. Survival times are a structured array of (event, time), as scikit-survival
            has it, or a frame or dictionary with ``event`` and ``time``.
        task : {"auto", "classification", "regression", "survival"}
            With ``"auto"``, text and booleans are classes; integers are classes unless they have
            more than 50 distinct values in more than half of the rows; other numbers are classes
            only if they are whole, with at most 50 distinct values in fewer than half of the rows.
        name : str
            What to call the labels in error messages.
        fewest_classes : int
            1 for a party whose classes are joined with those of others.

        Returns
        -------
        target : Target
            Every row has a label; classes are at least as many as needed.
        """
        if task not in TASKS:
            raise ParameterError(
                f"task={task!r} is not known.", f"It must be one of {', '.join(TASKS)}.",
                "Leave it at 'auto' if in doubt.",
            )  # fmt: skip
        pairs = pairs_in(y.values if isinstance(y, RawColumn) else y, name)
        if pairs is not None or task == "survival":
            return _survival(pairs, task, name, fewest_classes)
        raw = y if isinstance(y, RawColumn) else raw_column(name, y, "label holder")
        values = objects_as_numbers(raw.values)
        _refuse_missing(values, name)
        if task == "regression" or (task == "auto" and _looks_like_numbers(raw, values)):
            return cls("numbers", values=_numbers(values, name))
        named = RawColumn(name, values, raw.declared_categorical, raw.order)
        return _classes(named, fewest_classes)

    def __repr__(self) -> str:
        classes = f", {self.n_classes} classes" if self.kind == "classes" else ""
        kind = "survival" if self.has_times else self.kind
        return f"Target({kind}, {self.n_rows} rows{classes})"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes) if self.kind == "classes" else len(self.values)

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for numbers."""
        return len(self.classes)

    def take(self, rows: ArrayLike) -> Target:
        """Return the target of these rows, in this order; the list of classes stays."""
        index = np.asarray(rows)
        if self.kind == "classes":
            return Target("classes", codes=self.codes[index], classes=self.classes)
        if self.has_times:
            return Target.of_survival(self.event[index], self.time[index])
        return Target("numbers", values=self.values[index])

    @property
    def has_times(self) -> bool:
        """Whether the numbers are residuals of survival times."""
        return len(self.time) > 0


def _survival(pairs: NDArray[Any] | None, task: str, name: str, fewest: int) -> Target:
    if pairs is None or task not in ("auto", "survival", "regression"):
        found = f"has no times, and task={task!r}" if pairs is None else "has events and times"
        raise ValueProblem(
            f"The {name} {found}.",
            "Survival labels are events and times, with task='survival' or 'auto'.",
            "Give a structured array of (event, time), or name both columns.",
        )
    if not len(pairs):
        _refuse_missing(pairs, name)
    check_pairs(pairs, name, needs_event=fewest > 1)
    return Target.of_survival(pairs["event"], pairs["time"])


def _refuse_missing(values: NDArray[Any], name: str) -> None:
    if len(values) == 0:
        raise ValueProblem(
            f"The {name} has no rows.", "Labels are needed for every row.", "Check the data."
        )
    n_missing = int(is_missing(values).sum())
    if n_missing:
        raise ValueProblem(
            f"The {name} is missing in {n_missing} of {len(values)} rows.",
            "Every row needs a label.",
            "Remove those rows, or fill in the labels.",
        )


def _looks_like_numbers(raw: RawColumn, values: NDArray[Any]) -> bool:
    if raw.declared_categorical or values.dtype.kind not in "iuf":
        return False
    n_rows, n_distinct = len(values), len(np.unique(values))
    if values.dtype.kind in "iu":
        return n_distinct > _MOST_CLASSES and n_distinct > n_rows / 2
    whole = bool(np.isfinite(values).all()) and bool((values == np.round(values)).all())
    return not (whole and n_distinct <= _MOST_CLASSES and n_distinct < n_rows / 2)


def _numbers(values: NDArray[Any], name: str) -> NDArray[np.float64]:
    if values.dtype.kind not in "biuf":
        raise ValueProblem(
            f"The {name} is not numeric.",
            "Regression needs a number in every row.",
            "Convert the labels to numbers, or use task='classification'.",
        )
    numbers = values.astype(np.float64)
    _refuse_infinite(numbers, name)
    return numbers


def _refuse_infinite(values: NDArray[Any], name: str) -> None:
    n_infinite = int(np.isinf(values).sum()) if values.dtype.kind == "f" else 0
    if n_infinite:
        raise ValueProblem(
            f"The {name} contains infinity in {n_infinite} of {len(values)} rows.",
            "Labels must be finite.",
            "Remove those rows, or fix the source of the labels.",
        )


def _classes(raw: RawColumn, fewest: int) -> Target:
    _refuse_infinite(raw.values, raw.name)
    try:
        column = encode(raw, party="label holder", categorical=True)
    except ColumnError as error:
        raise ValueProblem(
            f"The {raw.name} is of type {raw.values.dtype.name}.",
            "Labels are text, booleans or numbers.",
            "Convert the labels.",
        ) from error
    if len(column.categories) < fewest:
        raise ValueProblem(
            f"The {raw.name} has one class only in all {len(raw.values)} rows.",
            "At least two classes are needed to judge features.",
            "Check that the right label is used and that no filter removed the other classes.",
        )
    return Target("classes", codes=column.values.astype(np.int64), classes=column.categories)
