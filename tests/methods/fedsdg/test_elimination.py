"""Backward elimination in a network's first layer: what it computes, and what it leaves."""

import numpy as np
import pytest

from fedsift.methods.fedsdg import elimination
from fedsift.methods.fedsdg.elimination import elimination_costs


def drawn(n_rows=60, n_inputs=7, n_units=3, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n_inputs, n_inputs)) + 2.0 * np.eye(n_inputs)
    X = rng.normal(size=(n_rows, n_inputs)) @ mixing
    return X - X.mean(axis=0), rng.normal(size=(n_inputs, n_units))


def by_least_squares(X, W, owner, noise):
    """The definition, without any update of an inverse: refit the rest after every feature.

    Noise on the inputs is a set of rows of its own, one per input.
    """
    spread = np.sqrt(len(X) * (noise * (X**2).mean(axis=0) + 1e-9))
    rows = np.vstack([X, np.diag(spread)])
    features, costs = list(range(owner.max() + 1)), {}
    weights = W.copy()
    while features:
        outcomes = []
        for feature in features:
            kept = np.isin(owner, [f for f in features if f != feature])
            target = rows @ weights
            fitted, *_ = np.linalg.lstsq(rows[:, kept], target, rcond=None)
            change = ((target - rows[:, kept] @ fitted) ** 2).sum() / len(X)
            whole = np.zeros_like(weights)
            whole[kept] = fitted
            outcomes.append((change, feature, whole))
        change, feature, weights = min(outcomes, key=lambda outcome: outcome[0])
        costs[feature] = max([change, *costs.values()])
        features.remove(feature)
    return np.array([costs[f] for f in range(len(costs))])


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("owner", [np.arange(7), np.array([0, 1, 1, 2, 3, 3, 3])], ids=str)
def test_costs_are_those_of_refitting_the_rest_by_least_squares(noise, owner):
    X, W = drawn()
    expected = by_least_squares(X, W, owner, noise)
    assert np.allclose(elimination_costs(X, W, owner, noise), expected, rtol=1e-6)


@pytest.mark.parametrize("together", [1, 3, 100])
@pytest.mark.parametrize("owner", [np.arange(7), np.array([0, 1, 1, 2, 3, 3, 3])], ids=str)
def test_how_many_go_together_changes_nothing(together, owner, monkeypatch):
    X, W = drawn()
    expected = by_least_squares(X, W, owner, 0.1)
    monkeypatch.setattr(elimination, "_TOGETHER", together)
    assert np.allclose(elimination_costs(X, W, owner, 0.1), expected, rtol=1e-6)


def test_many_columns_cost_what_few_steps_at_a_time_say(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 10)) @ rng.normal(size=(10, 200)) + rng.normal(size=(150, 200))
    W = rng.normal(size=(200, 4))
    costs = elimination_costs(X, W)
    monkeypatch.setattr(elimination, "_TOGETHER", 1)
    assert np.allclose(costs, elimination_costs(X, W), rtol=1e-9)


def test_of_two_copies_one_remains():
    rng = np.random.default_rng(1)
    original = rng.normal(size=(400, 7))
    X = np.column_stack([original, original + 0.01 * rng.normal(size=(400, 7))])
    W = rng.uniform(1.0, 2.0, size=(14, 3))
    kept = np.argsort(-elimination_costs(X, W))[:7]
    assert set(kept % 7) == set(range(7))
    by_size = np.argsort(-(W**2).sum(axis=1))[:7]
    assert set(by_size % 7) != set(range(7))  # the weights alone would not tell


def test_columns_without_weight_or_without_variance_go_first():
    X, W = drawn()
    W[2] = 0.0
    X[:, 5] = 0.0
    costs = elimination_costs(X, W)
    assert set(np.argsort(costs)[:2]) == {2, 5}
    assert (costs > 0).all()


def test_costs_are_all_different_and_finite():
    X, W = drawn(n_rows=4, n_inputs=7)  # fewer rows than columns
    costs = elimination_costs(X, np.zeros_like(W))
    assert len(set(costs)) == 7
    assert np.isfinite(elimination_costs(X, W)).all()


def test_scales_of_the_columns_do_not_matter():
    X, W = drawn()
    scales = np.array([0.1, 1.0, 50.0, 2.0, 0.2, 7.0, 1e3])
    changed = elimination_costs(X * scales, W / scales[:, None])
    assert np.allclose(changed, elimination_costs(X, W), rtol=1e-4)


def test_nothing_in_nothing_out():
    assert elimination_costs(np.empty((5, 0)), np.empty((0, 2))).shape == (0,)
