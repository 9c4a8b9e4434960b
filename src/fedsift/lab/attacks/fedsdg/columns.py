# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How a label holder reads the *columns* of other parties from the layer's outputs.

Gates are what gives columns away: an output in which a gate was closed does not depend on that
column. Nobody has to know gates, weights, or a single row.

*Gate axes* is for linear models, best with noisy gates. Outputs of all epochs span the columns'
space, so the columns are known up to one square matrix. That matrix follows from the epochs in
which gates were closed: its rows are the directions whose part in the outputs is zero as often as
possible.

*Thinned gates* works on any network. The label holder writes a job in which open gates cost so much
that they close one after the other, and networks hardly learn. On the way there are epochs with a
single open gate; their outputs lie on a curve, and a row's place on it is its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from fedsift.data import Federation, split_vertical
from fedsift.lab.attacks.fedsdg.views import Recording, record
from fedsift.methods.fedsdg.messages import Params

Floats = npt.NDArray[np.float64]

_ROUNDS = 4
_WIDTHS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-3)
"""How much a direction's part in an epoch still counts as zero, from coarse to fine."""

_NEW = 0.2
"""Smallest singular value of directions that are different from each other."""

_SAME = 0.7
"""Correlation from which two curves are taken for the same column."""


def outputs_by_epoch(run: Recording) -> tuple[npt.NDArray[np.int64], list[Floats]]:
    """Training rows, and the outputs of every batch that had all of them, rows in one order."""
    seen = [view for view in run.labels if view.delta is not None]
    rows = np.sort(seen[0].rows)
    scale = -run.params.numbers.output_bits
    return rows, [
        np.ldexp(view.outputs.astype(np.float64), scale)[np.argsort(view.rows)]
        for view in seen
        if len(view.rows) == len(rows)
    ]


def by_gate_axes(
    outputs: Sequence[Floats], n_columns: int, seed: int, n_starts: int = 12
) -> Floats:
    """Columns up to scale and order, from the outputs of a linear model with gates."""
    left, size, right = np.linalg.svd(np.concatenate(outputs, axis=1), full_matrices=False)
    parts = right[:n_columns].reshape(n_columns, len(outputs), -1).transpose(1, 0, 2)
    energy = parts @ parts.transpose(0, 2, 1)
    rng = np.random.default_rng(seed)
    found = np.empty((0, n_columns))
    while len(found) < n_columns:
        known = np.linalg.qr(found.T)[0].T
        best = min(
            (_next_axis(energy, found, known, rng) for _ in range(n_starts)),
            key=lambda axis: float(_sizes(energy, axis).sum()),
        )
        found = np.vstack([found, best])
    columns: Floats = (left[:, :n_columns] * size[:n_columns]) @ np.linalg.pinv(found)
    return columns


def _next_axis(energy: Floats, found: Floats, known: Floats, rng: np.random.Generator) -> Floats:
    """A direction that is often zero and not among those found."""
    start = rng.normal(size=energy.shape[1])
    away = _settle(energy, start - known.T @ (known @ start), known)
    free = _settle(energy, away, known[:0])
    is_new = np.linalg.svd(np.vstack([found, free]), compute_uv=False)[-1] > _NEW
    return free if is_new else away


def _settle(energy: Floats, axis: Floats, known: Floats) -> Floats:
    """Reweighted least squares: fewer and fewer epochs in which the direction takes part."""
    axis = axis / np.linalg.norm(axis)
    for width in _WIDTHS:
        for _ in range(_ROUNDS):
            weights = 1.0 / np.sqrt(_sizes(energy, axis) ** 2 + width**2 / len(energy))
            whole = np.tensordot(weights, energy, axes=1)
            whole = whole + 10.0 * np.trace(whole) * known.T @ known
            axis = np.linalg.eigh(whole)[1][:, 0]
    return axis


def _sizes(energy: Floats, axis: Floats) -> Floats:
    sizes: Floats = np.sqrt(np.maximum((energy @ axis) @ axis, 0.0))
    return sizes


def by_thinned_gates(outputs: Sequence[Floats], n_columns: int) -> Floats:
    """Curves among the outputs of single epochs, the straightest first, each of them once."""
    curves = []
    for one in outputs:
        centred = one - one.mean(axis=0)
        places, sizes, _ = np.linalg.svd(centred, full_matrices=False)
        if sizes[0] ** 2 > 1e-5 * one.size:
            curves.append((float(sizes[0] ** 2 / (sizes**2).sum()), places[:, 0]))
    chosen: list[Floats] = []
    for _, places in sorted(curves, key=lambda curve: -curve[0]):
        if all(abs(np.corrcoef(places, other)[0, 1]) < _SAME for other in chosen):
            chosen.append(places)
        if len(chosen) == n_columns:
            break
    return np.array(chosen).T.reshape(len(outputs[0]), len(chosen))


def squared_correlations(guess: Floats, truth: Floats) -> Floats:
    """Of every true column with the guess that is matched to it; 0 where there is none."""
    together = np.corrcoef(guess.T, truth.T)[: guess.shape[1], guess.shape[1] :] ** 2
    matched = np.zeros(truth.shape[1])
    guesses, columns = linear_sum_assignment(-together)
    matched[columns] = together[guesses, columns]
    return matched


def attack_gate_axes(
    n_columns: int, seed: int, *, n_holders: int = 1, n_rows: int = 250, **settings: Any
) -> tuple[Floats, Recording]:
    """Squared correlation of every column with the guess that the label holder makes of it."""
    n_classes = 8
    federation, X = make_columns(seed, n_rows, n_columns, n_holders, n_classes)
    chosen = {"max_epochs": max(40, 4 * n_columns), "outputs": n_classes, "sigma": 2.0}
    params = one_batch("linear", seed, n_rows, **(chosen | settings))
    run = record(federation, params)
    rows, outputs = outputs_by_epoch(run)
    return squared_correlations(by_gate_axes(outputs, n_columns, seed), X[rows]), run


def attack_thinned_gates(
    n_columns: int,
    seed: int,
    *,
    n_holders: int = 1,
    n_rows: int = 200,
    n_epochs: int = 80,
    model: str = "network",
) -> tuple[Floats, Recording]:
    """The same, by a job whose price closes gates and whose networks stand still."""
    federation, X = make_columns(seed, n_rows, n_columns, n_holders, 8)
    params = one_batch(
        model,
        seed,
        n_rows,
        max_epochs=n_epochs,
        outputs=8 if model == "linear" else 16,
        init="constant",
        lam=100.0 * n_columns,
        gate_learning_rate=2.0 / n_epochs,
        learning_rate=1e-7,
        layer_learning_rate=0.05,
    )
    run = record(federation, params)
    rows, outputs = outputs_by_epoch(run)
    return squared_correlations(by_thinned_gates(outputs, n_columns), X[rows]), run


def one_batch(model: str, seed: int, n_rows: int, **settings: Any) -> Params:
    """A job that the label holder wrote: all training rows in one batch, and no early end."""
    common: dict[str, Any] = {
        "scheme": "plain",
        "gates": "input",
        "min_epochs": 0,
        "patience": 10**6,
    }
    return Params(model=model, seed=seed, batch_size=n_rows, **(common | settings))


def make_columns(
    seed: int, n_rows: int, n_columns: int, n_holders: int, n_classes: int
) -> tuple[Federation, Floats]:
    """Columns without any relation to the label: all that is found comes from the run."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_rows, n_columns)), rng.integers(0, n_classes, n_rows)
    return split_vertical(X, y, n_holders, label_holder=None, random_state=0), X
