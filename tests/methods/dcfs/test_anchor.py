"""DCFS's mathematics against its literal form and against what it must be invariant to."""

import numpy as np
import pytest
from scipy.linalg import eigh

from benchmarks.baselines import oracles
from fedsift.errors import ParameterError
from fedsift.methods.dcfs import anchor


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
    literal = oracles.update_weights_literal(X, target, graph.laplacian, h, alpha, beta)
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


@pytest.mark.parametrize(("n", "m"), [(20, 200), (90, 30)])
def test_the_projection_is_that_of_a_singular_value_decomposition(n, m):
    """Gram matrices save time, not digits that matter."""
    X = example(n, m)
    graph = anchor.neighbour_graph(X, 5)
    left, singular, right = np.linalg.svd(X, full_matrices=False)
    kept = singular > 1e-7 * singular[0]
    reduced = left[:, kept] * singular[kept]
    scale = reduced.T @ (graph.degrees[:, None] * reduced)
    scale += 1e-8 * np.trace(scale) / kept.sum() * np.eye(kept.sum())
    _, vectors = eigh(reduced.T @ graph.laplacian @ reduced, scale)
    wanted = vectors[:, :6].T @ right[kept]
    found = anchor.locality_projection(X, graph, 6)
    signs = np.sign((wanted * found).sum(axis=1))
    assert np.allclose(found, signs[:, None] * wanted, atol=1e-6 * np.abs(wanted).max())


def loss(images, target):
    """Eq. 6 with the best alignment of every party."""
    return sum(
        float(((target - anchor.alignment_matrix(target, image) @ image) ** 2).sum())
        for image in images
    )


def collaborations(target, seed=0, n_anchors=40):
    rng = np.random.default_rng(seed)
    anchors = rng.uniform(-3, 3, (n_anchors, 60))
    options = {"alpha": 1.0, "beta": 1.0, "n_dimensions": 10, "k": 5}
    return [
        anchor.Collaboration(example(30, 60, s), anchors, target=target, **options)
        for s in (seed, seed + 1)
    ]


def test_the_exact_target_minimises_what_the_printed_one_approximates():
    printed = [state.image() for state in collaborations("paper")]
    bases = [state.image() for state in collaborations("exact")]
    approximate = loss(printed, anchor.common_target(printed, 5))
    exact = loss(printed, anchor.common_target(bases, 5))
    assert exact < 0.99 * approximate
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = np.linalg.qr(rng.normal(size=(40, 5)))[0].T
        assert exact <= loss(printed, other)


def test_the_exact_image_is_a_basis_that_tells_no_lengths():
    (party, _) = collaborations("exact")
    image = party.image()
    assert np.allclose(image @ image.T, np.eye(len(image)))
    assert np.allclose(image, party.projection @ party._anchors.T)


def test_scores_do_not_depend_on_the_coordinates_of_the_first_projection():
    rng = np.random.default_rng(2)
    parts = [example(30, 60, s) for s in (0, 1)]
    anchors = rng.uniform(-3, 3, (40, 60))
    starts = [anchor.starting_point(part, 10, 5) for part in parts]
    mixed = [
        anchor.Start(s.graph, (rng.normal(size=(10, 10)) + 5 * np.eye(10)) @ s.projection)
        for s in starts
    ]
    plain = oracles.collaborate(parts, anchors, starts=starts)
    turned = oracles.collaborate(parts, anchors, starts=mixed)
    for one, other in zip(plain, turned, strict=True):
        assert np.allclose(one, other, atol=1e-7)


def test_few_anchors_leave_room_for_spaces_to_differ():
    (party, _) = collaborations("exact", n_anchors=8)
    assert party.image().shape == (4, 8)


@pytest.mark.parametrize("shape", [(5, 59), (5, 61), (0, 60), (60,)])
def test_anchors_of_the_wrong_width(shape):
    with pytest.raises(ParameterError, match="60 numbers each") as caught:
        anchor.Collaboration(example(), np.zeros(shape), alpha=1.0, beta=1.0, n_dimensions=4, k=3)
    assert caught.value.action


def test_an_alignment_for_another_projection():
    (party, _) = collaborations("paper")
    party.image()
    with pytest.raises(ParameterError, match="10 columns"):
        party.align(np.zeros((5, 9)))


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


@pytest.mark.parametrize("target", ["exact", "paper"])
def test_constant_data_gives_zero_scores_not_an_error(target):
    party = anchor.Collaboration(
        np.zeros((10, 6)), np.ones((3, 6)), alpha=1.0, beta=1.0, n_dimensions=4, k=3, target=target
    )
    party.align(anchor.alignment_matrix(np.ones((1, 3)), party.image()))
    assert np.array_equal(party.scores, np.zeros(6))
