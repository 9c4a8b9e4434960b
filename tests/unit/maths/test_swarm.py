"""The swarm finds what is there, and its fitness equals scikit-learn's cross-validation."""

import numpy as np
import pytest
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from fedsift.maths import swarm


def task(n=80, d=12, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2 * y
    X[:, 1] -= 2 * (y == 1)
    return X, y


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("table", [True, False])
def test_fitness_equals_scikit_learn_fold_by_fold(k, table, monkeypatch):
    if not table:
        monkeypatch.setattr(swarm, "_CACHE_BYTES", 0)
    X, y = task()
    rng = np.random.default_rng(1)
    folds = swarm.inner_folds(y, 5, rng)
    masks = rng.random((15, 12)) < 0.4
    masks[0] = False
    found = swarm.KnnFitness(X, y, folds, k).correct(masks)
    Z = swarm.scaled(X)
    for count, mask in zip(found, masks, strict=True):
        if not mask.any():
            assert count == 0
            continue
        model = KNeighborsClassifier(k, algorithm="brute")
        predicted = cross_val_predict(model, Z[:, mask], y, cv=PredefinedSplit(folds))
        assert count == (predicted == y).sum()


def test_folds_are_stratified():
    _, y = task(90)
    folds = swarm.inner_folds(y, 5, np.random.default_rng(0))
    counts = np.array([[((y == c) & (folds == f)).sum() for f in range(5)] for c in range(3)])
    assert np.ptp(counts, axis=1).max() <= 1


def test_known_subsets_are_not_evaluated_again():
    X, y = task()
    fitness = swarm.KnnFitness(X, y, swarm.inner_folds(y, 5, np.random.default_rng(0)), 3)
    masks = np.eye(12, dtype=bool)
    first = fitness.correct(masks)
    assert np.array_equal(fitness.correct(masks), first)
    assert fitness.n_hits == 12


def test_the_swarm_finds_the_informative_features():
    X, y = task(120)
    fitness = swarm.KnnFitness(X, y, swarm.inner_folds(y, 5, np.random.default_rng(0)), 3)
    best = swarm.search(swarm.Swarm(12, 20, np.random.default_rng(0)), fitness.correct, 25)
    assert best.mask[0]
    assert best.fitness >= fitness.correct(np.ones((1, 12), bool))[0]


def test_the_same_seed_gives_the_same_subset():
    X, y = task()
    fitness = swarm.KnnFitness(X, y, swarm.inner_folds(y, 5, np.random.default_rng(0)), 3)
    both = [
        swarm.search(swarm.Swarm(12, 10, np.random.default_rng(4)), fitness.correct, 10).mask
        for _ in range(2)
    ]
    assert np.array_equal(*both)


def test_subsets_are_never_empty_and_respect_a_cap():
    particles = swarm.Swarm(6, 5, np.random.default_rng(0), max_features=2)
    particles.positions[:] = 0.1
    particles.positions[1:] = 0.9
    sizes = particles.masks().sum(axis=1)
    assert sizes[0] == 1
    assert (sizes[1:] == 2).all()


def test_guidance_pulls_towards_the_global_subset():
    mask = np.array([True] * 4 + [False] * 16)
    local = np.array([False] * 15 + [True] * 5)
    for mine in (None, local):
        particles = swarm.Swarm(20, 20, np.random.default_rng(0))
        particles.guide(mask, mine)
        guided = particles.positions[: swarm.GUIDED_PARTICLES]
        assert guided[:, :4].min() >= 0.8
        assert guided[:, 4:15].max() <= 0.2 + 1e-12
        # Features that only the party's own subset has are left to chance.
        assert (guided[:, 15:].max() > 0.5) == (mine is not None)


def test_fewer_features_win_a_tie():
    small, large = np.array([True, False]), np.array([True, True])
    assert swarm.Best(small, 5).beats(swarm.Best(large, 5))
    assert not swarm.Best(large, 5).beats(swarm.Best(small, 5))
    assert swarm.Best(large, 6).beats(swarm.Best(small, 5))


def test_any_classifier_counts_the_same_way():
    X, y = task(60)
    folds = swarm.inner_folds(y, 5, np.random.default_rng(0))
    masks = np.random.default_rng(2).random((6, 12)) < 0.5
    masks[0] = False
    slow = swarm.ClassifierFitness(X, y, folds, KNeighborsClassifier(3, algorithm="brute"))
    fast = swarm.KnnFitness(X, y, folds, 3)
    assert np.array_equal(slow.correct(masks), fast.correct(masks))
