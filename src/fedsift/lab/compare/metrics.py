# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How good predictions are, and how good a selection is where the truth is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import r2_score, roc_auc_score

from fedsift.lab.compare.cases import Floats, Integers

CLASS_METRICS = ("accuracy", "balanced_accuracy", "auc")
NUMBER_METRICS = ("r2",)
LABELS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "r2": "R2",
}


def class_scores(codes: Integers, predicted: Integers, shares: Floats | None) -> dict[str, float]:
    """Accuracy, mean recall of the classes, and area under the curve.

    Parameters
    ----------
    codes, predicted : ndarray of int of shape (n_rows,)
    shares : ndarray of shape (n_rows, n_classes) or None
        How much a model believes in every class; AUC is the mean over classes, each against the
        others.

    Examples
    --------
    >>> class_scores(np.array([0, 0, 1]), np.array([0, 1, 1]), None)["balanced_accuracy"]
    0.75
    """
    present = np.unique(codes)
    recalls = [float((predicted[codes == code] == code).mean()) for code in present]
    found = {
        "accuracy": float((predicted == codes).mean()),
        "balanced_accuracy": float(np.mean(recalls)),
    }
    if shares is not None and len(present) > 1:
        areas = [roc_auc_score(codes == code, shares[:, code]) for code in present]
        found["auc"] = float(np.mean(areas))
    return found


def number_scores(values: Floats, predicted: Floats) -> dict[str, float]:
    """Share of the variance that is explained."""
    return {"r2": float(r2_score(values, predicted))} if len(values) > 1 else {}


def variance_of_guessing(codes: Integers, predicted: Integers) -> float:
    """Variance of balanced accuracy if the predictions had nothing to do with the labels.

    Recalls of the classes are then shares of rows drawn with the frequency of each prediction.
    """
    present, sizes = np.unique(codes, return_counts=True)
    rates = np.array([float((predicted == code).mean()) for code in present])
    return float((rates * (1 - rates) / sizes).sum()) / len(present) ** 2


def precision_and_recall(
    selected: Collection[int], truth: Collection[int]
) -> tuple[float | None, float]:
    """Share of the selected features that matter, and of those that matter which were selected.

    Examples
    --------
    >>> precision_and_recall([1, 2, 3, 4], [3, 4, 5])
    (0.5, 0.6666666666666666)
    """
    hits = len(set(selected) & set(truth))
    return (hits / len(selected) if selected else None), hits / len(truth)


def guessing(y: npt.NDArray[Any], is_classes: bool) -> dict[str, float]:
    """What a model reaches that knows nothing: the most frequent class, or the mean."""
    if not is_classes:
        return {"r2": 0.0}
    _, sizes = np.unique(y, return_counts=True)
    return {
        "accuracy": float(sizes.max() / sizes.sum()),
        "balanced_accuracy": 1 / len(sizes),
        "auc": 0.5,
    }
