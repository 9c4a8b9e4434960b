"""Q-values against the definition of the procedure, and selections by them."""

import numpy as np
import pytest

from fedsift.maths.multiple_testing import q_values, select_by_fdr


def by_hand(p):
    """The smallest level at which Benjamini and Hochberg's procedure rejects each test."""
    order, m = np.argsort(p), len(p)
    ratios = [p[order[k]] * m / (k + 1) for k in range(m)]
    found = np.empty(m)
    for place in range(m):
        found[order[place]] = min(1.0, *ratios[place:], 1.0)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_q_values_are_those_of_the_definition(seed):
    p = np.random.default_rng(seed).beta(0.4, 1, size=50).round(2)

    np.testing.assert_allclose(q_values(p), by_hand(p), rtol=1e-12)


def test_tests_that_were_not_made_do_not_count():
    p = np.array([0.01, np.nan, 0.02, 0.9])

    np.testing.assert_allclose(q_values(p)[[0, 2, 3]], by_hand(p[[0, 2, 3]]))
    assert np.isnan(q_values(p)[1])
    assert not select_by_fdr(p, 0.99)[1]


def test_a_selection_may_be_empty():
    assert not select_by_fdr([0.5, 0.6], 0.1).any()
    assert q_values([np.nan]).shape == (1,)
    assert select_by_fdr([], 0.1).shape == (0,)
