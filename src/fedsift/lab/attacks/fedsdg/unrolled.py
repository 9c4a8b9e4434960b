# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Unrolled reconstruction: columns from the outputs of a layer that trains.

A label holder knows every gradient that it sent and every output that came back. It takes columns,
starting weights and gates as unknown, repeats the training with them, and moves all of them by
gradient descent until the outputs agree.

    Z_t = (X * s_t) W_t          W_(t+1) = W_t - (X * s_t)^T delta_t

``X`` are the columns of a linear model, or what a network makes of them (its embedding, which then
is as far as this attack gets: the embedding itself changes with every step). Several feature
holders only see their outputs summed up: that is one feature holder with all columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.lab.attacks.fedsdg.columns import make_columns, one_batch, squared_correlations
from fedsift.lab.attacks.fedsdg.views import Recording, record

Floats = npt.NDArray[np.float64]


def known_batches(run: Recording) -> tuple[Any, Floats, Floats]:
    """Training rows; outputs and gradients of every batch of all of them, rows in one order."""
    seen = [view for view in run.labels if view.delta is not None]
    rows = np.sort(seen[0].rows)
    scale = run.params.numbers
    outputs, gradients = [], []
    for view in seen:
        order = np.argsort(view.rows)
        outputs.append(np.ldexp(view.outputs.astype(np.float64), -scale.output_bits)[order])
        assert view.delta is not None  # noqa: S101 - chosen above
        gradients.append(view.delta.astype(np.float64)[order])
    return rows, np.array(outputs), np.array(gradients)


def by_unrolling(
    outputs: Floats,
    gradients: Floats,
    n_columns: int,
    seed: int,
    *,
    n_steps: int = 1200,
    n_starts: int = 2,
) -> Floats:
    """Columns up to scale and order.

    Parameters
    ----------
    outputs, gradients : ndarray of shape (n_epochs, n_rows, n_outputs)
        Gradients at the scale of the layer's step: what a unit input takes off the weights.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    wanted = torch.tensor(outputs, dtype=torch.float32)
    sent = torch.tensor(gradients, dtype=torch.float32)
    n_epochs, n_rows, width = outputs.shape
    best, smallest = np.zeros((n_rows, n_columns)), np.inf
    scale = float(wanted.std())
    for _ in range(n_starts):
        columns = torch.randn(n_rows, n_columns, generator=generator).requires_grad_()
        start = (0.3 * torch.randn(n_columns, width, generator=generator)).requires_grad_()
        gates = torch.zeros(n_epochs, n_columns).requires_grad_()
        optimiser = torch.optim.Adam([columns, start, gates], lr=0.03)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, n_steps, 3e-4)
        loss = torch.tensor(np.inf)
        for _ in range(n_steps):
            weights, loss = start, torch.zeros(())
            for epoch in range(n_epochs):
                # From 0 to 1, and flat at both ends only in the limit: closed gates can open.
                gated = columns * (torch.sigmoid(4 * gates[epoch]))
                loss = loss + ((gated @ weights - wanted[epoch]) ** 2).mean()
                weights = weights - gated.T @ sent[epoch]
            loss = loss / n_epochs / scale**2
            optimiser.zero_grad()
            (loss + 1e-4 * ((columns**2).mean() - 1.0) ** 2).backward()
            optimiser.step()
            schedule.step()
        if float(loss.detach()) < smallest:
            smallest, best = float(loss.detach()), columns.detach().numpy().astype(np.float64)
    return best


def attack_unrolled(
    n_columns: int,
    seed: int,
    *,
    model: str = "linear",
    n_holders: int = 1,
    n_rows: int = 200,
    n_epochs: int = 20,
    **effort: Any,
) -> tuple[Floats, Recording]:
    """Squared correlation of every column with the guess that the label holder makes of it."""
    federation, X = make_columns(seed, n_rows, n_columns, n_holders, 8)
    width = 8 if model == "linear" else 16
    params = one_batch(model, seed, n_rows, max_epochs=n_epochs, outputs=width)
    run = record(federation, params)
    rows, outputs, gradients = known_batches(run)
    numbers = run.params.numbers
    step = np.ldexp(gradients, -numbers.gradient_bits - numbers.step_bits)
    guess = by_unrolling(outputs, step, n_columns, seed, **effort)
    return squared_correlations(guess, X[rows]), run
