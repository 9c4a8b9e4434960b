"""DCFS's mathematics against its literal form and against what it must be invariant to."""

import numpy as np
import pytest

from fedsift.maths import anchor


def example(n=30, m=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    X[:, :5] += 2 * rng.normal(size=(n, 1))
    return X - X.mean(axis=0)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.01, 100.0), (100.0, 0.01)])
def test_the_small_update_equals_the_literal_one(alpha, beta):
    X = example()
    graph = anchor.neighbour_graph(X, 5)
    rng = np.random.default_rng(1)
    target, h = rng.normal(size=(5, 30)), rng.uniform(0.5, 2, 60)
    small = anchor.update_weights(X, target, graph.laplacian, h, alpha, beta)
    literal = anchor.update_weights_literal(X, target, graph.laplacian, h, alpha, beta)
    assert np.max(np.abs(small - literal)) < 1e-8 * np.max(np.abs(literal))


def test_the_graph_is_a_laplacian():
    graph = anchor.neighbour_graph(example(), 5)
    assert np.allclose(graph.laplacian.sum(axis=1), 0)
    assert np.allclose(graph.laplacian, graph.laplacian.T)
    assert np.linalg.eigvalsh(graph.laplacian).min() > -1e-10


def test_the_projection_is_one_even_with_more_features_than_rows():
    X = example(20, 200)
    graph = anchor.neighbour_graph(X, 5)
    B = anchor.locality_projection(X, graph, 10)
    assert B.shape == (10, 200)
    scale = B @ X.T @ (graph.degrees[:, None] * X) @ B.T
    assert np.allclose(scale, np.eye(10), atol=1e-6)


def test_alignment_maps_every_image_near_the_common_target():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(5, 40))
    images = [rng.normal(size=(10, 5)) @ hidden for _ in range(3)]
    target = anchor.common_target(images, 5)
    assert np.allclose(target @ target.T, np.eye(5))
    for image in images:
        assert np.allclose(anchor.alignment_matrix(target, image) @ image, target, atol=1e-8)


def test_weights_of_zero_rows_stay_finite():
    W = np.zeros((4, 2))
    W[0] = 1.0
    assert np.isfinite(anchor.sparsity_weights(W)).all()
    assert np.isfinite(anchor.sparsity_weights(np.zeros((4, 2)))).all()


def test_the_local_baseline_does_not_collapse_to_zero():
    """Eq. 1 without its constraint has the solution zero; ours ranks the structured columns first."""
    X = example(40, 60)
    scores = anchor.local_selection(X, alpha=1.0, beta=1.0, n_components=5)
    assert scores.max() > 0
    assert set(np.argsort(-scores)[:5]) & set(range(5))


def test_constant_data_gives_zero_scores_not_an_error():
    party = anchor.Collaboration(
        np.zeros((10, 6)), np.ones((3, 6)), alpha=1.0, beta=1.0, n_dimensions=4, k=3
    )
    party.align(anchor.alignment_matrix(np.ones((1, 3)), party.image()))
    assert np.array_equal(party.scores, np.zeros(6))
