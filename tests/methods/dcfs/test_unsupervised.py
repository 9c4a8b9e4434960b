"""The local baseline of DCFS against its literal form, and ranks joined over parties."""

import numpy as np
import pytest
from scipy.linalg import eigh

from benchmarks.baselines import oracles
from fedsift.methods.dcfs import anchor, unsupervised


def example(n, m, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    X[:, :5] += 2 * rng.normal(size=(n, 1))
    return X - X.mean(axis=0)


def literal(X, alpha, beta, n_components=5, n_iterations=5):
    """Eq. 1 with Y Y^T = I, by an m x m inverse and all eigenvectors."""
    laplacian = anchor.neighbour_graph(X, 5).laplacian
    h = np.ones(X.shape[1])
    for _ in range(n_iterations):
        back = np.linalg.solve(np.diag(alpha * h) + X.T @ X, X.T)
        form = beta * laplacian + np.eye(len(X)) - X @ back
        _, vectors = eigh((form + form.T) / 2)
        W = back @ vectors[:, :n_components]
        h = anchor.sparsity_weights(W)
    return anchor.row_norms(W)


@pytest.mark.parametrize(("n", "m"), [(25, 60), (60, 25), (420, 40)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.1, 10.0), (10.0, 0.1)])
def test_it_is_the_literal_solution_by_rows_by_columns_and_by_inverse_iteration(n, m, alpha, beta):
    X = example(n, m)
    found = unsupervised.local_selection(X, alpha=alpha, beta=beta)
    wanted = literal(X, alpha, beta)
    assert np.abs(found - wanted).max() < 1e-6 * wanted.max()


def test_it_does_not_collapse_to_zero():
    """Eq. 1 without its constraint has the solution zero; ours ranks the structured columns first."""
    scores = unsupervised.local_selection(example(40, 60))
    assert scores.max() > 0
    assert set(np.argsort(-scores)[:5]) & set(range(5))


def test_equal_data_give_equal_scores():
    X = example(420, 30)
    one, other = (unsupervised.local_selection(X) for _ in range(2))
    assert np.array_equal(one, other)


def test_more_components_than_rows_are_cut():
    assert unsupervised.local_selection(example(4, 10), n_components=9).shape == (10,)


def test_ranks_and_their_means():
    assert unsupervised.ranks_of(np.array([0.1, 0.9, 0.5, 0.5])).tolist() == [4, 1, 2, 3]
    joint = oracles.borda([np.array([3.0, 2, 1]), np.array([30.0, 1, 2])])
    assert joint.tolist() == [1.0, 0.25, 0.25]
