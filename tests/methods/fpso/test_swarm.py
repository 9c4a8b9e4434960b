"""The swarm finds what is there, keeps to its cap, and follows its seed."""

import numpy as np
import pytest

from fedsift.methods.fpso import subset_fitness, swarm


def task(n=80, d=12, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2 * y
    X[:, 1] -= 2 * (y == 1)
    return X, y


@pytest.mark.parametrize("decoding", ["threshold", "random"])
def test_the_swarm_finds_the_informative_features(decoding):
    X, y = task(120)
    fitness = subset_fitness.KnnFitness(
        X, y, subset_fitness.stratified_folds(y, 5, np.random.default_rng(0)), 3
    )
    course = swarm.search(
        swarm.Swarm(12, 20, np.random.default_rng(0), decoding=decoding), fitness.correct, 25
    )
    best = course[-1]
    assert best.mask[0]
    assert best.fitness == fitness.correct(best.mask[None])[0]
    assert best.fitness >= fitness.correct(np.ones((1, 12), bool))[0]
    reached = [step.fitness for step in course]
    assert len(reached) == 25
    assert reached == sorted(reached)


@pytest.mark.parametrize("decoding", ["threshold", "random"])
def test_the_same_seed_gives_the_same_subset(decoding):
    X, y = task()
    fitness = subset_fitness.KnnFitness(
        X, y, subset_fitness.stratified_folds(y, 5, np.random.default_rng(0)), 3
    )
    both = [
        [
            best.mask
            for best in swarm.search(
                swarm.Swarm(12, 10, np.random.default_rng(4), decoding=decoding),
                fitness.correct,
                10,
            )
        ]
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


def test_a_memory_keeps_position_and_decision_of_its_best_subset():
    particles = swarm.Swarm(4, 2, np.random.default_rng(0))
    particles.positions = np.array([[0.9, 0.1, 0.6, 0.4], [0.2, 0.7, 0.1, 0.3]])
    masks = particles.masks()
    particles.learn(np.array([5, 3]), masks)
    assert np.allclose(particles._memory[0], [0.95, 0.05, 0.8, 0.2])
    assert particles.best.fitness == 5
    # A worse subset later changes neither memory nor the best of all; an equal, smaller one does.
    particles.positions = np.array([[0.9, 0.1, 0.1, 0.1], [0.9, 0.9, 0.9, 0.9]])
    particles.learn(np.array([5, 2]), particles.masks())
    assert particles.best.mask.tolist() == [True, False, False, False]
    assert np.allclose(particles._memory[1], [0.1, 0.85, 0.05, 0.15])


def test_mutation_dies_out_and_copies_what_others_remember():
    rng = np.random.default_rng(0)
    particles = swarm.Swarm(6, 400, rng)
    particles._memory[:] = np.arange(400)[:, None] + 10.0  # nobody has two alike
    particles.positions[:] = 0.5
    particles._mutate(0)
    changed = (particles.positions != 0.5).sum(axis=1)
    assert 40 < (changed > 0).sum() < 130  # a fifth of them at first
    assert (particles.positions[changed > 0] >= 10.0).any(axis=1).all()
    particles.positions[:] = 0.5
    particles._mutate(60)
    assert (particles.positions == 0.5).all()


def test_the_cap_keeps_the_highest_of_the_chosen_positions():
    particles = swarm.Swarm(5, 30, np.random.default_rng(0), max_features=2, decoding="random")
    for _ in range(20):
        particles.positions[:] = [0.9, 0.8, 0.6, 0.3, 0.2]
        masks = particles.masks()
        assert (masks.sum(axis=1) <= 2).all()
        assert masks.any(axis=1).all()
