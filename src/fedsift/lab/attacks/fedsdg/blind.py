# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on blind trainings, in which nothing of a single row is opened.

The label holder solves openings for cells
Leak      An opened sum is an equation for the cells that it was computed from, and a label holder
          writes the job: with steps too small to move a weight, and gates and batches that are
          drawn again for every pass, every opening weighs rows in another way. Half as many exact
          numbers as there are cells then tell a fifth of what there is to know of every column in
          one job (:func:`by_openings`), and more with every further job. Sums about columns of
          its own tell about others as well: with one such column per row, every opening gives a
          number per row, which falls with the gates of others (:func:`by_own_columns`).
Fix       Batches stay the same throughout a training, there are a tenth as many numbers as
          *others* have cells, and every sum is multiplied by a factor that its receiver does not
          know, of mean 1 and a standard deviation of a quarter. Larger factors hide little more,
          and cost accuracy.
Remains   Sums over all rows tell how a column goes with the label, as scores do.

A feature holder reads labels
Leak      A gradient per row, opened, tells the row's label. Rows for validation are drawn class by
          class: whoever knows the draws has their labels (:func:`area_from_seed`).
Fix       A feature holder has shares, which are uniform (:func:`labels_from`), and private draws
          come from the operating system, whatever seed stands in the job.
Remains   Which of its columns were selected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation, split_vertical
from fedsift.lab.attacks.fedsdg.blind_views import BlindRecording, SharesOfRows, record_blind
from fedsift.methods.fedsdg.blind.numbers import FACTOR_SPREAD
from fedsift.methods.fedsdg.blind.params import BlindParams, most_blocks, most_openings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_FROZEN = 20
"""A rate of 2**-20 per row: weights stay where they start."""

_ROUNDS = 16
_KNOWN_PER_CLASS = 5
_DRAWS = 5


def frozen_job(
    n_rows: int, n_columns: int, n_own: int, seed: int, *, exact: bool, job: int = 0
) -> tuple[BlindRecording, Floats]:
    """A job that a label holder writes to solve it: one unit, small batches, weights that stay."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_rows, n_columns)), rng.permutation(np.arange(n_rows) % 2)
    federation = _with_own(X, y, n_own)
    n_validation = max(12, n_rows // 5)
    n_training, n_features = n_rows - n_validation, n_columns + n_own
    if exact:
        # The rule of before: half as many numbers as all tables together have cells.
        blocks = max(1, n_validation // 8)
        openings = (n_rows * n_features - 1) // (2 * (n_features + blocks))
    else:
        openings = most_openings(n_training - 2, n_columns, n_features)
        blocks = most_blocks(n_validation - 2, n_columns, openings)
    params = BlindParams(
        scheme="plain",
        init="constant",
        hidden=1,
        n_openings=openings,
        n_blocks=blocks,
        n_settling=0,
        batch_size=16,
        sigma=1.0,
        validation=n_validation / n_rows,
        gate_learning_rate=1e-6,
        rate_bits=_FROZEN,
        seed=seed + 1000 * job,
    )
    run = record_blind(federation, params, exact=exact)
    order = run.role("party-1" if n_own == 0 else "party-2")._order
    return run, X[:, order]


def _with_own(X: Floats, y: Integers, n_own: int) -> Federation:
    """The label holder has one column per row, or none."""
    if not n_own:
        return split_vertical(X, y, 1, label_holder=None, random_state=0)
    own = np.eye(len(X))[:, :n_own]
    names = [list(range(n_own)), list(range(n_own, n_own + X.shape[1]))]
    both = np.concatenate([own, X], axis=1)
    return split_vertical(both, y, names, label_holder="party-1", random_state=0)


# Equations


class _Equations:
    """What frozen weights make of cells: every opened number as a function of ``X * w``."""

    def __init__(self, run: BlindRecording) -> None:
        import torch

        self._torch = torch
        seen, n_steps = run.openings, len(run.openings.batches)
        size, n_features = run.params.batch_size, len(seen.sums[0])
        rows, inside = np.zeros((n_steps, size), dtype=np.int64), np.zeros((n_steps, size))
        gates, counted = np.zeros((2, n_steps, n_features))
        for i, (some, drawn, counts, _) in enumerate(seen.batches):
            rows[i, : len(some)], inside[i, : len(some)] = some, 1.0
            gates[i], counted[i] = drawn, counts
        self._rows, self._inside = torch.tensor(rows), torch.tensor(inside)
        self._gates, self._counted = torch.tensor(gates), torch.tensor(counted)
        self._opening = torch.tensor([batch[3] for batch in seen.batches])
        self._targets = torch.tensor(run.targets[:, 0])
        self._judged = torch.tensor(run.validation)
        parts = np.array_split(run.validation, run.params.blocks_of(len(run.validation)))
        numbers = np.concatenate([np.full(len(part), i) for i, part in enumerate(parts)])
        self._block, self._n_blocks = torch.tensor(numbers), len(parts)
        self._means = torch.tensor(np.array(seen.means))
        sums, losses = np.array(seen.sums), np.array(seen.losses)
        self._scale = np.sqrt((sums**2).mean()), losses.mean()
        self.opened = np.concatenate([(sums / self._scale[0]).ravel(), self._flat(losses)])
        self.n_sums = sums.size

    def _flat(self, losses: Floats) -> Floats:
        return np.asarray((losses / self._scale[1]).ravel())

    def predict(self, cells: Any) -> Any:
        """All opened numbers, sums first."""
        torch = self._torch
        part = cells[self._rows] * self._inside[:, :, None]
        hidden = (part * self._gates[:, None, :]).sum(2)
        errors = self._output(hidden) - self._targets[self._rows]
        slopes = -errors * self._inside * (hidden + 1) / 8
        by_batch = (part * slopes[:, :, None]).sum(1) * self._counted
        sums = torch.zeros(len(self._means), by_batch.shape[1], dtype=cells.dtype)
        sums = sums.index_add(0, self._opening, by_batch) / self._scale[0]
        hidden = (cells[self._judged][None] * self._means[:, None, :]).sum(2)
        squares = (self._output(hidden) - self._targets[self._judged]) ** 2
        losses = torch.zeros(len(self._means), self._n_blocks, dtype=cells.dtype)
        losses = losses.index_add(1, self._block, squares) / self._scale[1]
        return torch.cat([sums.reshape(-1), losses.reshape(-1)])

    @staticmethod
    def _output(hidden: Any) -> Any:
        return -(hidden**2 / 4 + hidden / 2) / 4

    def slopes(self, cells: Any) -> Any:
        """Derivatives of all opened numbers by all cells."""
        found = self._torch.func.jacrev(self.predict, chunk_size=64)(cells)
        return found.reshape(len(self.opened), -1)


def by_openings(
    run: BlindRecording, n_columns: int, seed: int, *, noisy: bool, n_starts: int = 2
) -> Floats:
    """Cells up to the scale of each column: Gauss and Newton, from a few starts."""
    import torch

    equations = _Equations(run)
    size = 1.0 / np.sqrt(n_columns)
    n_rows = len(run.training) + len(run.validation)
    variance = FACTOR_SPREAD**2 if noisy else 0.0
    opened = torch.tensor(equations.opened)

    def noise_of(predicted: Any) -> Any:
        """A factor of this variance beside a mean of 1; sums are of mean square 1."""
        spread = torch.full_like(opened, 1e-6)
        scale = (predicted[: equations.n_sums] ** 2).clamp(min=0.1, max=4.0)
        spread[: equations.n_sums] += variance * scale
        return spread

    best, smallest = np.zeros((n_rows, n_columns)), np.inf
    for start in range(n_starts):
        generator = torch.Generator().manual_seed(1000 * seed + start)
        cells = 0.3 * size * torch.randn(n_rows, n_columns, generator=generator).double()
        for number in range(_ROUNDS):
            slopes = equations.slopes(cells) * size
            predicted = equations.predict(cells)
            rest = opened - predicted + slopes @ (cells.reshape(-1) / size)
            loose = torch.clamp(noise_of(predicted), min=(0.3 * 0.5**number) ** 2)
            solved = slopes.T @ torch.linalg.solve(slopes @ slopes.T + torch.diag(loose), rest)
            step = 0.5 if number < _ROUNDS - 3 else 1.0
            cells = (1 - step) * cells + step * size * solved.reshape(n_rows, n_columns)
        predicted = equations.predict(cells)
        spread = torch.clamp(noise_of(predicted), min=1e-4)
        misfit = float(((opened - predicted) ** 2 / spread + torch.log(spread)).sum())
        misfit += float(((cells / size) ** 2).sum())
        if misfit < smallest:
            best, smallest = cells.numpy().copy(), misfit
    return best


def by_own_columns(run: BlindRecording, n_columns: int, n_own: int) -> Floats:
    """Cells of rows that the label holder has a column for: how sums go with others' gates.

    Where openings are too few to solve for a row, its numbers are held against those of other
    rows: gates of which columns were open when a number was large.
    """
    seen = run.openings
    sums = np.array(seen.sums)
    found = np.zeros((len(run.targets), n_columns))
    where: dict[int, list[tuple[int, Floats]]] = {}
    for rows, gates, counted, opening in seen.batches:
        for row in rows:
            if row < n_own and counted[row]:
                where.setdefault(int(row), []).append((opening, gates))
    few = {}
    for row, met in where.items():
        gates = np.array([drawn for _, drawn in met])
        numbers = sums[[opening for opening, _ in met], row]
        target = run.targets[row, 0]
        if len(met) < n_columns + 3:
            few[row] = numbers / target, gates[:, n_own:]
            continue
        own = gates[:, row]
        factors = np.c_[np.ones(len(met)), own, own**2, gates[:, n_own:]]
        solved = np.linalg.lstsq(factors, numbers, rcond=1e-3)[0]
        # The slope by a hidden value, of (output - target) * (hidden + 1), beside its value at 0.
        found[row] = solved[3:] / solved[0] / ((0.125 - target) / -target)
    if few:
        usual = np.mean(np.concatenate([numbers for numbers, _ in few.values()]))
        half = np.mean(np.concatenate([gates for _, gates in few.values()]), axis=0)
        for row, (numbers, gates) in few.items():
            found[row] = (numbers - usual) @ (gates - half) / abs(usual) / len(numbers)
    return np.clip(found, -3.0, 3.0)


def by_regression(run: BlindRecording) -> Floats:
    """Cells as if outputs were small: each sum is one of rows of a batch, by their targets."""
    seen = run.openings
    sums = np.array(seen.sums)
    found = np.zeros((len(run.targets), sums.shape[1]))
    factors = np.zeros((*sums.shape[::-1], len(run.targets)))
    for rows, _, counted, opening in seen.batches:
        met = np.flatnonzero(counted)
        factors[met[:, None], opening, rows[None]] += run.targets[rows, 0]
    for j, part in enumerate(factors):
        square = part @ part.T
        loose = 0.1 * np.trace(square) / len(square) * np.eye(len(square))
        found[:, j] = part.T @ np.linalg.solve(square + loose, sums[:, j])
    return found


def squared_by_column(guess: Floats, truth: Floats) -> Floats:
    """Squared correlation of every column with its guess."""
    found = np.zeros(truth.shape[1])
    for j in range(truth.shape[1]):
        if guess[:, j].std() > 0:
            found[j] = np.corrcoef(guess[:, j], truth[:, j])[0, 1] ** 2
    return found


def attack_openings(
    n_rows: int, n_columns: int, seed: int, *, exact: bool, n_starts: int = 2
) -> tuple[Any, ...]:
    """Squared correlations of training and of validation rows, by column; and the run."""
    run, X = frozen_job(n_rows, n_columns, 0, seed, exact=exact)
    guess = by_openings(run, n_columns, seed, noisy=not exact, n_starts=n_starts)
    parts = (run.training, run.validation)
    return (*(squared_by_column(guess[rows], X[rows]) for rows in parts), run)


def attack_own_columns(
    n_rows: int, n_columns: int, seed: int, *, exact: bool, n_own: int | None = None
) -> tuple[Any, ...]:
    """The same, with columns of the label holder's for every row, or for so many of them.

    Fewer columns of its own leave more openings within the limits. Of marked rows alone, all cells
    count as one column: a few rows go with anything by chance.
    """
    n_own = n_rows if n_own is None else n_own
    run, X = frozen_job(n_rows, n_columns, n_own, seed, exact=exact)
    guess = by_own_columns(run, n_columns, n_own)
    marked = run.training[run.training < n_own]
    if n_own == n_rows:
        return squared_by_column(guess[marked], X[marked]), run
    return squared_by_column(guess[marked].reshape(-1, 1), X[marked].reshape(-1, 1)), run


# Labels


def labels_from(
    points: Floats, codes: Integers, seed: int, known_per_class: int = _KNOWN_PER_CLASS
) -> float:
    """Area under the ROC curve of a guess from a few known labels, mean over classes and draws."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng, areas = np.random.default_rng(seed), []
    for _ in range(_DRAWS):
        drawn = [
            rng.permutation(np.flatnonzero(codes == c))[:known_per_class] for c in np.unique(codes)
        ]
        known = np.concatenate(drawn)
        others = np.setdiff1d(np.arange(len(codes)), known)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        shares = model.fit(points[known], codes[known]).predict_proba(points[others])
        if shares.shape[1] == 2:
            areas.append(roc_auc_score(codes[others], shares[:, 1]))
        else:
            areas.append(roc_auc_score(codes[others], shares, multi_class="ovr"))
    return float(np.mean(areas))


def numbers_by_row(views: list[SharesOfRows], rows: Integers) -> Floats:
    """All numbers of each row: of the first two passes as they came, and means over all passes."""
    seen: dict[int, list[Floats]] = {int(row): [] for row in rows}
    for view in views:
        for row, numbers in zip(view.rows, view.numbers, strict=True):
            if int(row) in seen:
                seen[int(row)].append(numbers)
    width = min(len(one) for numbers in seen.values() for one in numbers)
    passes = min(len(numbers) for numbers in seen.values())
    table = [np.array([one[:width] for one in seen[int(row)][:passes]]) for row in rows]
    early = [np.concatenate(list(numbers[:2])) for numbers in table]
    means = [numbers.mean(axis=0) for numbers in table]
    return np.concatenate([np.array(early), np.array(means)], axis=1)


def areas_of_labels(
    run: BlindRecording, party: str, columns: Floats, codes: Integers, seed: int
) -> dict[str, float]:
    """What a feature holder finds from all it has, and from its columns and their selection alone.

    Parameters
    ----------
    columns : ndarray of shape (n_rows, n_columns)
        The party's own, in the order of its table.
    """
    rows = run.training
    own, chosen, known = columns[rows], columns[rows][:, run.role(party)._features], codes[rows]
    received = numbers_by_row(run.features[party], rows)
    strong = _main_parts(received, 5)
    guess: Callable[[Floats], float] = lambda points: labels_from(points, known, seed)  # noqa: E731
    alone = [own] + ([chosen] if chosen.shape[1] else [])
    all_of_it = [received, strong, *(np.c_[part, strong] for part in alone)]
    return {
        "alone": max(map(guess, alone)),
        "received": max(map(guess, [received, strong])),
        "found": max(map(guess, [*alone, *all_of_it])),
    }


def area_from_seed(
    run: BlindRecording, label_holder: str, job: BlindParams, codes: Integers
) -> float:
    """Area under the ROC curve of the validation rows' labels, drawn again from a job's seed.

    Validation rows are drawn class by class and then shuffled. Whoever knows the seed undoes that,
    and has the rows sorted by class; sizes of classes are told for its benefit.
    """
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng([job.seed or 0, *f"{label_holder} (labels)".encode()])
    sizes = np.bincount(codes)
    for size in sizes:
        rng.permutation(size)
    counts = [min(round(job.validation * size), size - 1) for size in sizes]
    drawn = rng.permutation(np.repeat(np.arange(len(sizes)), counts))
    true = codes[run.validation[: len(drawn)]]
    areas = [roc_auc_score(true == c, drawn == c) for c in np.unique(true)]
    return float(np.mean(areas))


def _main_parts(points: Floats, n_parts: int) -> Floats:
    centred = points - points.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, :n_parts] * sizes[:n_parts])
