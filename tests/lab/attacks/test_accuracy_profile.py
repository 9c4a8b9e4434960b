"""A third party that sees accuracies tells class mixes; one that sees masked means does not.

The mode with rounds, which is the default, is part of the attack suite.
"""

import numpy as np
import pytest

from benchmarks.suites.fpso.attack import one_attack
from fedsift.lab.attacks import fpso as attack

SEEDS = range(5)


def outcomes(aggregation, mode):
    """Mean error of the third party, of a guesser who knows the mean, and its order of parties."""
    runs = [
        one_attack("generated", aggregation, mode, seed, n_shadows=150, n_iterations=5)
        for seed in SEEDS
    ]
    right, pairs = np.sum([run["order"]["accuracies"] for run in runs], axis=0)
    return {
        "error": np.mean([run["error"]["accuracies"] for run in runs]),
        "told": np.mean([run["told"] for run in runs]),
        "right": right / pairs,
        "pairs": pairs,
    }


@pytest.mark.parametrize("mode", ["federated-fitness"])
def test_open_accuracies_tell_how_common_a_class_is_at_each_party(mode):
    found = outcomes("third-party", mode)
    assert found["pairs"] > 25
    assert found["error"] < 0.6 * found["told"]
    assert found["right"] > 0.8


@pytest.mark.parametrize("mode", ["federated-fitness"])
def test_masked_means_tell_no_more_than_the_mean_mix(mode):
    found = outcomes("masked", mode)
    assert found["error"] > 0.8 * found["told"]
    assert found["right"] == 0.5  # all parties look the same: a coin


def test_the_masked_third_party_has_the_same_view_of_every_party():
    from fedsift.data import split_horizontal
    from fedsift.engine import run_local
    from fedsift.methods.fpso import third_party as fpso
    from fedsift.methods.fpso.local_search import Params

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    X = rng.normal(size=(120, 6)) + y[:, None]
    federation = split_horizontal(X, y, 3, random_state=0)
    views = {}
    for aggregation in ("masked", "third-party"):
        params = Params(aggregation=aggregation, n_iterations=3, n_rounds=2, seed=0)
        curious = attack.CuriousThirdParty(params)
        nodes = fpso.build_nodes(federation.tables, federation.targets, params)
        policies = dict.fromkeys(nodes, attack.ALLOWING)
        run_local(fpso.PROTOCOL, {**nodes, fpso.THIRD_PARTY: (curious,)}, policies=policies)
        views[aggregation] = curious.seen()
        assert curious.names_known == (aggregation == "third-party")
    masked, open_ = views["masked"], views["third-party"]
    means = {
        mask.tobytes(): mean
        for mask, mean in zip(open_.masks, open_.accuracies.mean(axis=0), strict=True)
    }
    assert {mask.tobytes() for mask in masked.masks} == set(means)
    assert np.ptp(masked.accuracies, axis=0).max() == 0
    assert np.ptp(open_.accuracies, axis=0).max() > 0
    expected = [means[mask.tobytes()] for mask in masked.masks]
    assert np.allclose(masked.accuracies[0], expected)


def test_rows_are_drawn_with_the_wanted_mix():
    y = np.repeat([0, 1, 2], 50)
    rows = attack.rows_with_mix(y, np.array([0.5, 0.3, 0.2]), 33, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 33
    counts = np.bincount(y[rows], minlength=3)
    assert np.abs(counts - 33 * np.array([0.5, 0.3, 0.2])).max() < 1


def test_the_score_of_an_order():
    true = np.array([[0.1], [0.3], [0.3]])
    assert attack.order_found(true, true) == (2.0, 2)
    assert attack.order_found(true, -true) == (0.0, 2)
    assert attack.order_found(true, np.ones((3, 1))) == (1.0, 2)
