# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS: a feature holder works out the interactive weights from what it decrypts.

Method    fedsdg (paper 000, Algorithms 2 and 3).
Leak      A feature holder decrypts g V + r, g^T delta + r' and delta W^T, and knows g and E. With
          weak masks it regresses V, and with it W = V - E (:func:`regress_share`). If it has drawn
          the starting weights itself, it undoes the first gradient, then knows the layer's step,
          and so on (:func:`follow`): every delta, and every label with it.
Fix       Masks are uniform in Z_t, which leaves a regression nothing; the label holder draws half
          of the starting weights.
Remains   delta has exact zeros where the top network's activation is off, so the rows of delta W^T
          without an output unit lie in a hyperplane, which sampling finds
          (:func:`isolate_units`): that unit's gradient, up to a factor. ``label_noise`` fills the
          zeros and ends it. The labels themselves:
          :mod:`fedsift.lab.attacks.fedsdg.gradient_labels`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.lab.attacks.fedsdg.layer_views import FeatureHolderView

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SAMPLES_AT_ONCE = 2000
_LEAST_ZEROS = 0.3
_ZERO = 0.01
"""Of a row's length: what rounding leaves of a zero."""


def regress_share(embedding: Integers, opened: npt.ArrayLike, modulus: int) -> Integers | None:
    """V from g V + r, under the belief that r is zero: a linear system in Z_t.

    Returns
    -------
    ndarray of shape (n_inputs, n_outputs), nearest to zero, or None
        None if the rows contradict each other, so that the belief is wrong. Rows of V that only
        meet closed embedding columns are zero: nothing tells about them.
    """
    right = np.asarray(opened)[: len(embedding)].astype(object)
    met = np.flatnonzero(embedding.any(axis=0))
    system = np.concatenate([embedding[:, met].astype(object), right], axis=1) % modulus
    for column in range(len(met)):
        usable = np.flatnonzero(system[column:, column])
        if not len(usable):
            return None
        pivot = column + int(usable[0])
        system[[column, pivot]] = system[[pivot, column]]
        system[column] = system[column] * pow(int(system[column, column]), -1, modulus) % modulus
        factors = system[:, column].copy()
        factors[column] = 0
        system = (system - factors[:, None] * system[column]) % modulus
    if system[len(met) :, len(met) :].any():
        return None
    half = modulus // 2
    share = np.zeros((embedding.shape[1], right.shape[1]), dtype=np.int64)
    share[met] = (system[: len(met), len(met) :] + half) % modulus - half
    return share


def follow(start: Integers, views: Sequence[FeatureHolderView]) -> Iterator[tuple[Floats, Floats]]:
    """Weights and output gradients of every training batch, from a belief about the start.

    The layer's step is a function of what the attacker knows: W <- W - g^T delta.
    """
    weights = start.astype(np.float64)
    for view in views:
        if view.gradient is None:
            continue
        solved = np.linalg.lstsq(weights, view.gradient.T.astype(np.float64), rcond=None)[0]
        delta: Floats = np.asarray(solved.T, dtype=np.float64)
        yield weights, delta
        weights = weights - view.embedding.T @ np.rint(delta)


def isolate_units(gradient: Integers, rng: np.random.Generator, n_samples: int = 20_000) -> Floats:
    """Directions a with many exact zeros in gradient @ a: single output units, up to a factor.

    Parameters
    ----------
    gradient : ndarray of shape (n_rows, width)
        delta W^T of one batch.

    Returns
    -------
    ndarray of shape (n_rows, n_found)
        What is left of each gradient in those directions; a column of delta, if it is right.
    """
    rows = gradient.astype(np.float64)
    alive = np.linalg.norm(rows, axis=1) > 0
    if alive.sum() <= rows.shape[1]:
        return np.empty((len(rows), 0))
    _, sizes, right = np.linalg.svd(rows[alive], full_matrices=False)
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    whitened = rows @ (right[:rank].T / sizes[:rank])
    lengths = np.linalg.norm(whitened, axis=1, keepdims=True)
    unit = (whitened / np.where(lengths > 0, lengths, 1.0))[alive]
    found: list[tuple[float, Floats]] = []
    for _ in range(0, n_samples, _SAMPLES_AT_ONCE):
        chosen = rng.random((_SAMPLES_AT_ONCE, len(unit))).argpartition(rank, axis=1)[:, : rank - 1]
        normals = np.linalg.svd(unit[chosen])[2][:, -1]
        zeros = (np.abs(normals @ unit.T) < _ZERO).mean(axis=1)
        found += [(float(zeros[i]), normals[i]) for i in np.flatnonzero(zeros > _LEAST_ZEROS)]
    kept = _different([(zeros, _refined(normal, unit)) for zeros, normal in found], rank)
    return np.asarray(whitened @ np.array(kept).T) if kept else np.empty((len(rows), 0))


def units_found(guesses: Floats, delta: Integers) -> float:
    """Share of the output units, of those that are ever active, whose gradient a guess matches."""
    active = delta[:, delta.any(axis=0)].astype(np.float64)
    if not guesses.shape[1]:
        return 0.0
    normal = [part / np.linalg.norm(part, axis=0) for part in (guesses, active)]
    return float((np.abs(normal[0].T @ normal[1]).max(axis=0) > 0.99).mean())


def explained(guess: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Coefficient of determination over all entries: 1 exact, 0 as good as knowing the mean."""
    g, t = (np.asarray(part, dtype=np.float64).ravel() for part in (guess, truth))
    return float(1 - ((g - t) ** 2).sum() / ((t - t.mean()) ** 2).sum())


def label_agreement(delta: Floats, codes: Integers) -> float:
    """How well the sign of the main direction of the gradients tells two classes apart."""
    main = np.linalg.svd(delta, full_matrices=False)[2][0]
    agreement = float(((delta @ main > 0) == (codes == codes.max())).mean())
    return max(agreement, 1 - agreement)


def _refined(normal: Floats, unit: Floats) -> Floats:
    """The hyperplane that fits all rows close to a sampled one, not just those it went through."""
    close = np.abs(unit @ normal) < _ZERO
    return np.asarray(np.linalg.svd(unit[close], full_matrices=False)[2][-1])


def _different(found: list[tuple[float, Any]], limit: int) -> list[Floats]:
    """The most frequent zeros first; every direction once."""
    kept: list[Floats] = []
    for _, normal in sorted(found, key=lambda pair: -pair[0]):
        if all(abs(float(normal @ other)) < 0.99 for other in kept):
            kept.append(normal)
        if len(kept) == 4 * limit:
            break
    return kept
