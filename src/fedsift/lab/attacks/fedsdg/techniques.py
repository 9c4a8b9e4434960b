# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS: what curious parties work out of what they decrypt (paper 000, Algorithms 2 and 3).

The label holder solves the interactive layer for a feature holder's embedding
Leak      The label holder sees z = g W. If it knows W, g is a regression away. In the paper noise
          on the weights starts with the second batch; the first batch gives g away, g gives the
          step of W, and so on: one batch without noise is all of them (:func:`follow_embeddings`).
Fix       W = V - E with uniform E from the first batch on, and half of the starting weights drawn
          by the feature holder. What the label holder has of W is V, which is uniform, and its own
          half of the start (:func:`follow_embeddings` from there leads nowhere).
          Outputs are summed over feature holders, and blurred at the size of what rounding g does
          to them anyway: exact sums of integers would give columns away
          (``benchmarks/suites/fedsdg/small_factors.py``).
Remains   Outputs are the embedding up to an unknown linear map. Somebody who knows the embedding of
          about as many rows as it has columns fits that map (:func:`fit_map`); summed outputs of
          several feature holders fit less well. With one embedding column and one feature holder
          each output is one embedding column up to a factor.

A feature holder works out the interactive weights
Leak      A feature holder decrypts g V + r, g^T delta + r' and delta W^T, and knows g and E. With
          weak masks it regresses V, and with it W = V - E (:func:`regress_share`). If it has drawn
          the starting weights itself, it undoes the first gradient, then knows the layer's step,
          and so on (:func:`follow_weights`): every delta, and every label with it.
Fix       Masks are uniform in Z_t, which leaves a regression nothing; the label holder draws half
          of the starting weights.
Remains   delta has exact zeros where the top network's activation is off, so the rows of delta W^T
          without an output unit lie in a hyperplane, which sampling finds
          (:func:`isolate_units`): that unit's gradient, up to a factor. ``label_noise`` fills the
          zeros and ends it.

A feature holder reads labels in the gradients it is given, as in split learning at large
Leak      A feature holder decrypts dL/dg of each of its rows. A row's gradient is longer the worse
          it is predicted (:func:`by_norm`), and rows of one class point the same way
          (:func:`by_direction`). A row is seen once per epoch, so whatever is drawn afresh in
          every batch averages out: the attacks look at all epochs together.
Remains   This is no mistake that could be mended: the gradient is what a feature holder learns
          from. It is declared as ``embedding-gradients``. Noise (``label_noise``) makes it tell
          less and the model learn less; how much, ``python -m benchmarks.suites.fedsdg.leaks``
          measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.lab.attacks.fedsdg.views import FeatureHolderView, LabelHolderView, Recording

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SAMPLES_AT_ONCE = 2000
_LEAST_ZEROS = 0.3
_ZERO = 0.01
"""Of a row's length: what rounding leaves of a zero."""


def explained(guess: npt.ArrayLike, truth: npt.ArrayLike, *, by_column: bool = False) -> float:
    """Coefficient of determination over all entries: 1 exact, 0 as good as knowing the mean.

    ``by_column`` is the mean over columns that vary.
    """
    g, t = (np.asarray(part, dtype=np.float64) for part in (guess, truth))
    if not by_column:
        g, t = g.reshape(-1, 1), t.reshape(-1, 1)
    spread = ((t - t.mean(axis=0)) ** 2).sum(axis=0)
    left = ((g - t) ** 2).sum(axis=0)
    varies = spread > 0
    return float(np.mean(1 - left[varies] / spread[varies]))


# Embeddings behind outputs


def follow_embeddings(start: Integers, views: Sequence[LabelHolderView]) -> Iterator[Floats]:
    """The embedding of every batch, from a belief about the starting weights; least squares.

    Every solved batch tells the layer's next step, since the attacker sent the gradient itself:
    one feature holder, as many outputs as embedding columns.
    """
    weights = start.astype(np.float64)
    for view in views:
        outputs = view.outputs.T.astype(np.float64)
        embedding: Floats = np.asarray(
            np.linalg.lstsq(weights.T, outputs, rcond=None)[0].T, dtype=np.float64
        )
        yield embedding
        if view.delta is not None:
            weights = weights - np.rint(embedding).T @ view.delta


def fit_map(
    known: npt.ArrayLike,
    known_outputs: npt.ArrayLike,
    outputs: npt.ArrayLike,
    *,
    penalised: bool = False,
) -> Floats:
    """Embeddings of all rows from the embeddings of a few, by the linear map that fits those.

    For one feature holder the map is exact. For sums over several it is not; then a penalty, the
    one that does best when one known row is left out, makes more of few known rows.
    """
    seen, hidden, wanted = (
        np.asarray(part, dtype=np.float64) for part in (known_outputs, known, outputs)
    )
    if not penalised:
        return np.asarray(wanted @ np.linalg.lstsq(seen, hidden, rcond=None)[0])
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-12, 3, 31)))
    return np.asarray(model.fit(seen, hidden).predict(wanted))


# Weights behind masks


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


def follow_weights(
    start: Integers, views: Sequence[FeatureHolderView]
) -> Iterator[tuple[Floats, Floats]]:
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


# Labels in gradients


@dataclass(frozen=True, eq=False)
class RowGradients:
    """All gradients of one feature holder, by row.

    Parameters
    ----------
    rows : ndarray of shape (n_rows,)
        Training rows, by number.
    values : ndarray of shape (n_rows, n_epochs, width)
        Zero where a row was left out of an epoch.
    """

    rows: Integers
    values: Floats

    def first(self, n_epochs: int) -> RowGradients:
        """The same rows after fewer epochs."""
        return RowGradients(self.rows, self.values[:, :n_epochs])


def gradients_of(recording: Recording, party: str) -> RowGradients:
    """Sort what a feature holder decrypted by row and epoch."""
    batches = recording.training_batches()
    seen: dict[int, list[Floats]] = {}
    epoch_of: dict[int, list[int]] = {}
    epoch = 0
    for number, batch in enumerate(batches):
        # Validation lies between two epochs, so batch numbers jump there.
        epoch += number > 0 and batch != batches[number - 1] + 1
        gradient = recording.features[party][batch].gradient
        assert gradient is not None  # noqa: S101 - it is a training batch
        for row, values in zip(recording.labels[batch].rows, gradient, strict=True):
            seen.setdefault(int(row), []).append(values.astype(np.float64))
            epoch_of.setdefault(int(row), []).append(epoch)
    rows = np.array(sorted(seen))
    width = len(next(iter(seen.values()))[0])
    table = np.zeros((len(rows), epoch + 1, width))
    for i, row in enumerate(rows):
        table[i, epoch_of[int(row)]] = seen[int(row)]
    return RowGradients(rows, table)


def by_norm(gradients: RowGradients, codes: Integers) -> float:
    """Area under the ROC curve of the rows' gradient lengths; for several classes, their mean.

    Which of two classes has the longer gradients is taken as known, so 0.5 is the least.
    """
    lengths = np.linalg.norm(gradients.values, axis=2)
    # Lengths fall from epoch to epoch; ranks within an epoch can be added up.
    ranks = lengths.argsort(axis=0).argsort(axis=0).sum(axis=1)
    classes = np.unique(codes)
    chosen = classes[1:] if len(classes) == 2 else classes
    return float(np.mean([_area(codes == c, ranks) for c in chosen]))


def by_direction(gradients: RowGradients, codes: Integers) -> float:
    """Area under the ROC curve of the main direction of the gradients; several classes: clusters.

    With more than two classes the share of rows in the right one of as many clusters is returned
    instead. Names of classes are taken as known; see :func:`chance_of_clusters`.
    """
    if len(np.unique(codes)) == 2:
        return _area(codes == codes.max(), main_directions(gradients, 1)[:, 0])
    return by_clusters(gradients, codes)


def by_clusters(gradients: RowGradients, codes: Integers) -> float:
    """Share of rows whose class is right when directions are sorted into as many clusters."""
    from sklearn.cluster import KMeans

    n_classes = len(np.unique(codes))
    points = main_directions(gradients, max(1, n_classes - 1))
    clusters = KMeans(n_classes, n_init=10, random_state=0).fit_predict(points)
    return _best_naming(clusters, codes)


def chance_of_clusters(codes: Integers, seed: int = 0) -> float:
    """What :func:`by_direction` finds in directions that are pure noise."""
    rng = np.random.default_rng(seed)
    n_classes = len(np.unique(codes))
    found = [_best_naming(rng.integers(0, n_classes, len(codes)), codes) for _ in range(20)]
    return float(np.mean(found))


def strongest(
    attack: Callable[[RowGradients, Integers], float], gradients: RowGradients, codes: Integers
) -> float:
    """An attack after the number of epochs that suits it best, for the attacker's benefit.

    Early gradients tell most about labels; later ones may drown them or sharpen the picture.
    """
    n_epochs = gradients.values.shape[1]
    stops = sorted({min(n, n_epochs) for n in (1, 2, 5, 10, 20, 40, n_epochs)})
    return max(attack(gradients.first(n), codes) for n in stops)


def main_directions(gradients: RowGradients, n_directions: int) -> Floats:
    """Rows along what most of their mean directions over the epochs have in common.

    The interactive layer moves slowly, so a class keeps its direction for many epochs while fresh
    noise averages out. Lengths are left out: well-predicted rows would hardly count.
    """
    lengths = np.linalg.norm(gradients.values, axis=2, keepdims=True)
    mean = (gradients.values / np.where(lengths > 0, lengths, 1.0)).mean(axis=1)
    left, sizes, _ = np.linalg.svd(mean - mean.mean(axis=0), full_matrices=False)
    return np.asarray(left[:, :n_directions] * sizes[:n_directions])


def _area(positive: npt.NDArray[np.bool_], scores: npt.ArrayLike) -> float:
    from sklearn.metrics import roc_auc_score

    area = float(roc_auc_score(positive, scores))
    return max(area, 1 - area)


def _best_naming(clusters: Integers, codes: Integers) -> float:
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((clusters.max() + 1, codes.max() + 1))
    np.add.at(table, (clusters, codes), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(codes))
