# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS: what a feature holder reads about labels in the gradients it is given.

Method    fedsdg (paper 000), and split learning at large.
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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.lab.attacks.fedsdg.layer_views import Recording

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

KNOWN_PER_CLASS = 5
_KNOWN_DRAWS = 5


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
        return _area(codes == codes.max(), _main_directions(gradients, 1)[:, 0])
    return by_clusters(gradients, codes)


def by_clusters(gradients: RowGradients, codes: Integers) -> float:
    """Share of rows whose class is right when directions are sorted into as many clusters."""
    from sklearn.cluster import KMeans

    n_classes = len(np.unique(codes))
    points = _main_directions(gradients, max(1, n_classes - 1))
    clusters = KMeans(n_classes, n_init=10, random_state=0).fit_predict(points)
    return _best_naming(clusters, codes)


def with_known_labels(gradients: RowGradients, codes: Integers, seed: int = 0) -> float:
    """Share of right guesses for the other rows, once the labels of a few rows are known."""
    n_classes = len(np.unique(codes))
    return _few_shot(_main_directions(gradients, n_classes), codes, seed)


def without_gradients(inputs: Floats, codes: Integers, seed: int = 0) -> float:
    """The same guess from the feature holder's own columns alone: what it knows anyway."""
    return _few_shot(inputs, codes, seed)


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


def _main_directions(gradients: RowGradients, n_directions: int) -> Floats:
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


def _few_shot(points: Floats, codes: Integers, seed: int) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(_KNOWN_DRAWS):
        known = np.concatenate(
            [
                rng.permutation(np.flatnonzero(codes == c))[:KNOWN_PER_CLASS]
                for c in np.unique(codes)
            ]
        )
        others = np.setdiff1d(np.arange(len(codes)), known)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        model.fit(points[known], codes[known])
        shares.append(float((model.predict(points[others]) == codes[others]).mean()))
    return float(np.mean(shares))
