# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Unrolled reconstruction of columns from everything that a blind training opens.

A label holder knows its labels, batches and gates, and how the network learns. It takes columns and
starting weights as unknown, repeats the training, and moves both until sums and losses agree with
those that were opened: the attack that reads columns in the paper's outputs, on what is left.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import split_vertical
from fedsift.lab.attacks.fedsdg.blind import squared_by_column
from fedsift.lab.attacks.fedsdg.blind_views import BlindRecording, record_blind
from fedsift.methods.fedsdg.blind.columns import START
from fedsift.methods.fedsdg.blind.numbers import FACTOR_SPREAD, MOMENTUM_BITS, output_signs
from fedsift.methods.fedsdg.blind.params import BlindParams, most_blocks, most_openings

Floats = npt.NDArray[np.float64]

_STEPS_AT_ONCE = 10
_SMALLEST_NOISE = 1e-3


class _Repeated:
    """A blind training of one output, with columns and weights to guess."""

    def __init__(self, run: BlindRecording, n_columns: int, *, noisy: bool, seed: int) -> None:
        import torch

        self._torch, seen = torch, run.openings
        self._params, self._batches = run.params, seen.batches
        self._targets = torch.tensor(run.targets[:, 0])
        self._signs = torch.tensor(output_signs(run.params.hidden, 1)[0].astype(np.float64))
        self._judged = torch.tensor(run.validation)
        self._means = torch.tensor(np.clip(np.array(seen.means), 0.0, 1.0))
        n_blocks = run.params.blocks_of(len(run.validation))
        self._blocks = [torch.tensor(b) for b in np.array_split(run.validation, n_blocks)]
        sums = np.array(seen.sums)
        # The very sizes of sums tell how inputs were scaled: each column's are taken as they are.
        self._sizes = torch.tensor(np.sqrt((sums**2).mean(axis=0)) + 1e-12)
        self.sums = torch.tensor(sums) / self._sizes
        self.losses = torch.tensor(np.array(seen.losses)[: len(sums)])
        self._noise = FACTOR_SPREAD**2 if noisy else 0.0
        draws = torch.Generator().manual_seed(seed)
        n_rows = len(run.targets)
        self.columns = torch.randn(n_rows, n_columns, generator=draws, dtype=torch.float64)
        spread = START / np.sqrt(n_columns)
        shape = (run.params.hidden, n_columns)
        self.weights = spread * torch.randn(*shape, generator=draws, dtype=torch.float64)
        self.unknown = [self.columns.requires_grad_(), self.weights.requires_grad_()]
        self._spread = spread

    def misfit(self) -> Any:
        """Of sums and losses beside noise, and of columns and weights beside what is usual."""
        sums, losses = self._repeat()
        spread = self._noise * sums.detach() ** 2 + _SMALLEST_NOISE
        off = ((sums - self.sums) ** 2 / spread).sum()
        off = off + (((losses - self.losses) / self.losses) ** 2).sum() / _SMALLEST_NOISE
        usual = (self.columns**2).sum() + ((self.weights / self._spread) ** 2).sum()
        return 0.5 * (off + usual)

    def _repeat(self) -> tuple[Any, Any]:
        torch = self._torch
        weights, bias = self.weights, torch.zeros(len(self.weights), dtype=torch.float64)
        last, last_bias = torch.zeros_like(weights), torch.zeros_like(bias)
        rate, kept = 2.0**-self._params.rate_bits, 1 - 2.0**-MOMENTUM_BITS
        n_openings = len(self.sums)
        sums = [torch.zeros(weights.shape[1], dtype=torch.float64) for _ in range(n_openings)]
        losses, current = [], 0
        for rows, gates, counted, opening in self._batches:
            if opening != current:
                losses.append(self._judge(weights, bias, current))
                current = opening
            part = self.columns[rows]
            hidden = part @ (weights * torch.tensor(gates)).T + bias
            errors = self._outputs(hidden) - self._targets[rows]
            slopes = errors[:, None] * self._signs * (hidden + 1) / 8
            gradient = slopes.T @ part
            sums[opening] = sums[opening] + (weights * gradient).sum(0) * torch.tensor(counted)
            last, last_bias = kept * last + rate * gradient, kept * last_bias + rate * slopes.sum(0)
            weights, bias = weights - last, bias - last_bias
        losses.append(self._judge(weights, bias, current))
        return torch.stack(sums) / self._sizes, torch.stack(losses)

    def _outputs(self, hidden: Any) -> Any:
        return (hidden**2 / 4 + hidden / 2) @ self._signs / 4

    def _judge(self, weights: Any, bias: Any, opening: int) -> Any:
        found = []
        for block in self._blocks:
            hidden = self.columns[block] @ (weights * self._means[opening]).T + bias
            found.append(((self._outputs(hidden) - self._targets[block]) ** 2).sum())
        return self._torch.stack(found)


def by_unrolling_openings(
    run: BlindRecording,
    n_columns: int,
    seed: int,
    *,
    noisy: bool,
    n_starts: int = 2,
    seconds: float = 60.0,
) -> Floats:
    """Columns up to scale, of all rows, in the secret order in which sums come."""
    import torch

    deadline = time.process_time() + seconds
    best, smallest = np.zeros((len(run.targets), n_columns)), np.inf
    for number in range(n_starts):
        made = _Repeated(run, n_columns, noisy=noisy, seed=1000 * seed + number)
        descent = torch.optim.LBFGS(
            made.unknown,
            max_iter=_STEPS_AT_ONCE,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def closure(made: _Repeated = made, descent: Any = descent) -> Any:
            descent.zero_grad()
            loss = made.misfit()
            loss.backward()
            return loss

        before = np.inf
        until = time.process_time() + (deadline - time.process_time()) / (n_starts - number)
        while time.process_time() < until:
            loss = float(descent.step(closure).detach())
            if not loss < before * (1 - 1e-5):
                break
            before = loss
        if before < smallest:
            smallest, best = before, made.columns.detach().numpy().copy()
    return best


def default_job(
    n_rows: int, n_columns: int, seed: int, *, exact: bool, hidden: int = 32
) -> tuple[BlindRecording, Floats]:
    """As many openings as are allowed, and nothing before or after; columns in secret order."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_rows, n_columns)), rng.permutation(np.arange(n_rows) % 2)
    n_validation = n_rows // 5
    sure = n_rows - n_validation - 2
    n_openings = min(n_rows // 2 if exact else most_openings(sure, n_columns, n_columns), 80)
    params = BlindParams(
        scheme="plain",
        seed=seed,
        init="constant",
        hidden=hidden,
        n_openings=n_openings,
        n_blocks=most_blocks(n_validation - 2, n_columns, n_openings + 2),
        batch_size=40,
        rate_bits=8,
        n_settling=0,
    )
    federation = split_vertical(X, y, 1, label_holder=None, random_state=0)
    run = record_blind(federation, params, exact=exact)
    return run, X[:, run.role("party-1")._order]


def attack_default(
    n_rows: int, n_columns: int, seed: int, *, hidden: int = 32, **effort: Any
) -> tuple[Floats, BlindRecording]:
    """Squared correlation of every column's training rows with the guess."""
    run, X = default_job(n_rows, n_columns, seed, exact=False, hidden=hidden)
    guess = by_unrolling_openings(run, n_columns, seed, noisy=True, **effort)
    return squared_by_column(guess[run.training], X[run.training]), run
