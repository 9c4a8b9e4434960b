# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pandas as pd
import pytest

from fedsift.data import Target
from fedsift.errors import ColumnError, ParameterError, ValueProblem


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (["a", "b", "a"], "classes"),
        ([True, False, True], "classes"),
        ([1, 2, 3], "classes"),
        (list(range(51)), "numbers"),
        (list(range(50)), "classes"),
        (list(range(51)) * 2, "classes"),
        ([0.0, 1.0] * 3, "classes"),
        ([0.0, 1.0, 0.0, 1.0], "numbers"),
        ([0.5, 1.0] * 10, "numbers"),
        ([float(v) for v in range(51)] * 3, "numbers"),
        (np.array([0, 1, 1, 0], dtype=object), "classes"),
        (np.array([0.5, 1, 1, 0], dtype=object), "numbers"),
        (pd.Series([1.5, 2.5], dtype="category"), "classes"),
        (pd.Series([1, 2, 2], dtype="Int64"), "classes"),
        (pd.DataFrame({"y": ["a", "b"]}), "classes"),
        (np.array([[0], [1]]), "classes"),
    ],
)
def test_auto_finds_the_kind(y, kind):
    assert Target.from_values(y).kind == kind


def test_classes_are_coded_in_order_of_size_or_letter():
    target = Target.from_values([10.0, 2.0, 2.0, 10.0, 2.0])
    assert target.classes == ("2", "10")
    assert target.codes.tolist() == [1, 0, 0, 1, 0]
    assert target.codes.dtype == np.int64
    assert Target.from_values(["b", "a"]).classes == ("a", "b")
    assert Target.from_values([True, False]).classes == ("False", "True")


def test_task_overrides_the_guess():
    assert Target.from_values([1, 2, 2], task="regression").values.tolist() == [1.0, 2.0, 2.0]
    assert Target.from_values([0.5, 1.5], task="classification").classes == ("0.5", "1.5")


def test_take_keeps_the_classes():
    target = Target.from_values(["a", "b", "c"]).take([2, 0])
    assert (target.classes, target.codes.tolist()) == (("a", "b", "c"), [2, 0])
    assert Target.from_values([0.5, 1.5]).take([1]).values.tolist() == [1.5]


def test_repr_shows_no_labels(secret):
    assert repr(Target.from_values([secret, "b"])) == "Target(classes, 2 rows, 2 classes)"
    assert repr(Target.from_values([0.1, 0.2])) == "Target(numbers, 2 rows)"


@pytest.mark.parametrize("y", [["a", None, "b"], [1.0, np.nan, 2.0], ["a", " ", "b"]])
def test_missing_labels(y, refused):
    with refused(ValueProblem, "1 of 3 rows"):
        Target.from_values(y)


@pytest.mark.parametrize("y", [[1, 1, 1], ["s3cr3t-cell"] * 3, [True, True], [1.0] * 5])
def test_one_class_only(y, refused):
    with refused(ValueProblem, "one class"):
        Target.from_values(y)


@pytest.mark.parametrize("task", ["auto", "regression", "classification"])
def test_infinite_labels(task, refused):
    with refused(ValueProblem, "infinity", "1 of 3"):
        Target.from_values([1.0, np.inf, 98765.4321], task=task)


def test_other_bad_labels(refused, secret):
    with refused(ValueProblem, "no rows"):
        Target.from_values([])
    with refused(ValueProblem, "not numeric"):
        Target.from_values([secret, "b"], task="regression")
    with refused(ValueProblem, "complex"):
        Target.from_values(np.array([1j, 2j]))
    with refused(ColumnError, "dimension"):
        Target.from_values(np.zeros((2, 2)))
    with refused(ParameterError, "'rank'"):
        Target.from_values([0, 1], task="rank")
