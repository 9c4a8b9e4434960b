# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Unrolled reconstruction: columns from the outputs of a layer that trains.

A label holder knows every gradient that it sent and every output that came back. It takes columns,
weights of the embedding, starting weights of the layer and gates as unknown, repeats the training
with them, Adam included, and moves all of them by gradient descent until the outputs agree. No row
has to be known. Several feature holders are one with blocks of columns: outputs come as a sum.

What makes it work is where the descent starts. Outputs of all epochs span few directions: those of
a linear model exactly the columns' own, so that one small square matrix is left of them; those of a
network nearly the same ones (:mod:`fedsift.lab.attacks.fedsdg.repeated_training`). And Adam, whose
first steps have a fixed length, comes in gradually: at first large steps are damped, then less so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.lab.attacks.fedsdg.columns import make_columns, one_batch, squared_correlations
from fedsift.lab.attacks.fedsdg.repeated_training import Guess, LinearGuess, NetworkGuess, Seen
from fedsift.lab.attacks.fedsdg.views import Recording, record

Floats = npt.NDArray[np.float64]

_STAGES: tuple[tuple[float | None, int], ...] = (
    (None, 300), (0.3, 300), (0.05, 300), (0.005, 300), (0.0005, 500),
)  # fmt: skip
"""What damps Adam, relative to a gradient, and at most so many steps; None: no Adam at all."""

_STEPS_AT_ONCE = 25
_SOLVED = 1e-3
"""A share of the outputs' variance that is left to explain, from which no other start is tried."""


def seen_by_label_holder(run: Recording) -> tuple[npt.NDArray[np.int64], Seen]:
    """Training rows, and what there is of every batch that had all of them, rows in one order."""
    views = [view for view in run.labels if view.delta is not None]
    rows = np.sort(views[0].rows)
    scale = run.params.numbers
    outputs, gradients = [], []
    for view in views:
        order = np.argsort(view.rows)
        outputs.append(np.ldexp(view.outputs.astype(np.float64), -scale.output_bits)[order])
        assert view.delta is not None  # noqa: S101 - chosen above
        gradients.append(np.ldexp(view.delta.astype(np.float64), -scale.gradient_bits)[order])
    sizes = tuple(role._table.n_columns for role in _feature_holders(run))
    return rows, Seen(np.array(outputs), np.array(gradients), sizes, run.params)


def _feature_holders(run: Recording) -> list[Any]:
    return [run.stage.nodes[party][0] for party in run.features]


def by_unrolling(
    seen: Seen,
    seed: int,
    *,
    n_starts: int = 3,
    seconds: float = 60.0,
    stages: Sequence[tuple[float | None, int]] = _STAGES,
) -> Floats:
    """Columns up to sign, scale and order.

    Parameters
    ----------
    n_starts : int
        At most; no other one follows a start that explains the outputs.
    seconds : float
        Of processor time, after which to stop with what there is.
    """
    deadline = time.process_time() + seconds
    made: type[Guess] = LinearGuess if seen.params.model == "linear" else NetworkGuess
    best, smallest = np.zeros((seen.outputs.shape[1], sum(seen.sizes))), np.inf
    for number in range(n_starts):
        guess = made(seen, 1000 * seed + number)
        loss = _descend(guess, stages, deadline)
        if loss < smallest:
            smallest, best = loss, guess.found()
        if smallest < _SOLVED or time.process_time() > deadline:
            break
    return best


def _descend(guess: Guess, stages: Sequence[tuple[float | None, int]], deadline: float) -> float:
    """Move everything that is unknown; returns the share of the outputs' variance that is left."""
    import torch

    def loss_of(damping: float | None) -> Any:
        return ((guess.outputs(damping) - guess.wanted) ** 2).mean() / guess.variance

    for damping, n_steps in stages:
        descent = torch.optim.LBFGS(
            guess.unknown,
            max_iter=_STEPS_AT_ONCE,
            history_size=30,
            line_search_fn="strong_wolfe",
            tolerance_grad=1e-12,
            tolerance_change=1e-14,
        )

        def closure(damping: float | None = damping, descent: Any = descent) -> Any:
            descent.zero_grad()
            loss = loss_of(damping) + guess.penalty()
            loss.backward()
            return loss

        before = np.inf
        for _ in range(n_steps // _STEPS_AT_ONCE):
            loss = float(descent.step(closure).detach())
            if time.process_time() > deadline or not loss < before:
                break
            before = loss
    with torch.no_grad():
        return float(loss_of(stages[-1][0]))


def attack_unrolled(
    n_columns: int,
    seed: int,
    *,
    model: str = "linear",
    n_holders: int = 1,
    n_rows: int = 300,
    n_epochs: int = 20,
    settings: dict[str, Any] | None = None,
    **effort: Any,
) -> tuple[Floats, Recording]:
    """Squared correlation of every column with the guess that the label holder makes of it.

    Parameters
    ----------
    settings : dict, optional
        Of the job, beside what the attack needs.
    effort : dict
        Starts and processor seconds of :func:`by_unrolling`.
    """
    n_outputs = 16
    federation, X = make_columns(seed, n_rows, n_columns, n_holders, n_outputs)
    job = {"max_epochs": n_epochs, "outputs": n_outputs, **(settings or {})}
    run = record(federation, one_batch(model, seed, n_rows, **job))
    rows, seen = seen_by_label_holder(run)
    return squared_correlations(by_unrolling(seen, seed, **effort), X[rows]), run
