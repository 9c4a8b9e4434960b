# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import mutual_info_classif
from sklearn.neighbors import KNeighborsClassifier

from fedsift.data import split_vertical
from fedsift.data.synthetic import friedman, madelon_like, mixed_bank, redundant_twins, xor
from fedsift.errors import ParameterError

GENERATORS = [madelon_like, friedman, xor, redundant_twins, mixed_bank]


@pytest.mark.parametrize("generate", GENERATORS)
def test_shapes_and_seeds(generate):
    one, two = generate(200, random_state=7), generate(200, random_state=np.random.default_rng(7))
    other = generate(200, random_state=8)

    assert one.X.shape == (200, len(one.feature_names))
    assert one.y.shape == (200,)
    assert pd.DataFrame(one.X).equals(pd.DataFrame(two.X))
    assert not pd.DataFrame(one.X).equals(pd.DataFrame(other.X))
    assert one.relevant == two.relevant
    assert set(one.relevant) < set(range(one.X.shape[1]))
    assert all(set(group) <= set(one.relevant) for group in one.redundant)
    assert one.description
    assert "Synthetic(" in repr(one)
    if one.task == "classification":
        assert set(np.unique(one.y)) == {0, 1}


def test_relevant_columns_of_madelon_like_carry_the_label():
    data = madelon_like(1200, n_probes=30, random_state=0)
    relevant = data.X[:, list(data.relevant)]
    noise = np.delete(data.X, data.relevant, axis=1)

    def accuracy(X):
        return KNeighborsClassifier(5).fit(X[:800], data.y[:800]).score(X[800:], data.y[800:])

    assert (len(data.relevant), data.X.shape[1]) == (20, 50)
    assert accuracy(relevant) > 0.85
    assert accuracy(noise) < 0.6
    # No single side of the cube tells anything.
    cube = madelon_like(1200, n_combinations=0, n_probes=0, random_state=0)
    assert max(mutual_info_classif(cube.X, cube.y, random_state=0)) < 0.05
    assert accuracy(data.X) < accuracy(relevant)


def test_friedman_target_depends_on_five_columns_only():
    data = friedman(300, 12, noise=0.0, random_state=3)
    bounds = 10 + 5 + 10 + 5

    assert data.task == "regression"
    assert len(data.relevant) == 5
    assert data.y.min() >= 0
    assert data.y.max() <= bounds
    noise = np.delete(data.X, data.relevant, axis=1)
    assert max(abs(np.corrcoef(column, data.y)[0, 1]) for column in noise.T) < 0.2
    assert max(abs(np.corrcoef(c, data.y)[0, 1]) for c in data.X[:, list(data.relevant)].T) > 0.4


def test_xor_pairs_decide_the_label():
    data = xor(400, random_state=1)
    a, b = data.X[:, list(data.relevant)].T

    np.testing.assert_array_equal(data.y, (a * b > 0).astype(int))
    flipped = xor(4000, flip=0.1, random_state=1)
    a, b = flipped.X[:, list(flipped.relevant)].T
    assert 0.07 < np.mean(flipped.y != (a * b > 0)) < 0.13
    assert len(xor(50, n_pairs=3, random_state=0).relevant) == 6


def test_twins_are_near_copies():
    data = redundant_twins(300, n_copies=2, random_state=0)

    assert [len(group) for group in data.redundant] == [3, 3, 3, 3]
    for group in data.redundant:
        assert np.corrcoef(data.X[:, list(group)].T).min() > 0.98
    assert redundant_twins(50, n_copies=0, random_state=0).redundant == ()


def test_mixed_bank_is_a_realistic_pair_of_tables():
    data = mixed_bank(2000, random_state=0)
    fed = split_vertical(
        data.X, data.y, list(data.owners.values()), names=list(data.owners), label_holder="bank"
    )

    assert fed.parties == ("bank", "shop")
    kinds = {column.kind for table in fed.tables.values() for column in table.columns}
    assert kinds == {"numeric", "categorical"}
    assert all(any(c.missing.any() for c in table.columns) for table in fed.tables.values())
    assert 0.2 < data.y.mean() < 0.6
    owned = [set(data.owners[party]) for party in fed.parties]
    relevant = {data.feature_names[index] for index in data.relevant}
    assert all(relevant & own for own in owned)
    whole = np.column_stack([table.numeric_matrix() for table in fed.tables.values()])
    X = np.nan_to_num(whole, nan=-1.0)
    forest = RandomForestClassifier(60, min_samples_leaf=5, random_state=0)
    weights = forest.fit(X, data.y).feature_importances_
    names = [name for _, name in fed.feature_names]
    assert {n for _, n in sorted(zip(weights, names, strict=True))[-4:]} <= relevant
    assert set(mixed_bank(2, random_state=0).y) == {0, 1}


def test_bad_sizes(refused):
    with refused(ParameterError, "n_rows"):
        madelon_like(0)
    with refused(ParameterError, "n_features"):
        friedman(10, 4)
    with refused(ParameterError, "n_pairs"):
        xor(10, n_pairs=0)
    with refused(ParameterError, "n_rows"):
        mixed_bank(1)
    with refused(ParameterError, "random_state"):
        xor(10, random_state=-1)
