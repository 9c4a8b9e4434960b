"""Attack: a score and one's own bins are an equation in the label counts (leak i of paper 000).

A feature holder that learns the Gini score of a column with one lonely row solves for that row's
label. It succeeds against a filter without a minimum bin size whose scores go back to their
owners, and fails against the defaults: small bins are merged, and no score goes back.
"""

import numpy as np
import pytest

import fedsift as fs
from fedsift.data import PartyTable, Target
from fedsift.methods.filter_scores import Params, plain_scores
from helpers import bank_and_registry

N_ROWS = 60


def isolating_table(row):
    """One column that separates a single row from all others."""
    column = np.zeros(N_ROWS)
    column[row] = 1.0
    return np.stack([column, np.arange(N_ROWS, dtype=float)], axis=1)


def guess_label(score, row, n_positive, min_bin_size):
    """Try both labels of the isolated row and keep the one that explains the score."""
    table = PartyTable.from_any(isolating_table(row)[:, :1], name="attacker")
    explained = []
    for label in (0, 1):
        rest = np.zeros(N_ROWS - 1, dtype=int)
        rest[: n_positive - label] = 1
        y = np.insert(rest, row, label)
        params = Params(score="gini", bins=[0.5], min_bin_size=min_bin_size)
        explained.append(plain_scores(table, Target.from_values(y), params)[0])
    errors = np.abs(np.array(explained) - score)
    return None if abs(errors[0] - errors[1]) < 1e-9 else int(np.argmin(errors))


def run(row, y, *, min_bin_size, own_scores):
    """What the attacker (the feature holder) ends up knowing."""
    from fedsift.methods import filters
    from fedsift.runtime import run_embedded

    federation = bank_and_registry(isolating_table(row), y)
    params = Params(
        score="gini",
        n_features_to_select=1,
        bins=[0.5],
        min_bin_size=min_bin_size,
        disclose="counts",
        share_scores=own_scores,
        seed=0,
    )
    nodes = filters.build_nodes(
        federation.tables, federation.label_holder, federation.target, N_ROWS, params
    )
    policies = {
        "label-holder": fs.Policy(
            may_reveal=("row-count", "class-count", "selection", "own-scores")
        )
    }
    run_embedded(filters.PROTOCOL, nodes, policies=policies)
    facts = nodes["bank"][0].facts()
    if facts["own_scores"] is None:
        return None
    return float(facts["own_scores"][facts["names"].index("x0")])


@pytest.mark.parametrize("row", [3, 17, 40])
def test_the_attack_succeeds_without_protection(row):
    y = np.random.default_rng(row).integers(0, 2, N_ROWS)
    score = run(row, y, min_bin_size=1, own_scores=True)
    assert guess_label(score, row, int(y.sum()), min_bin_size=1) == y[row]


@pytest.mark.parametrize("row", [3, 17, 40])
def test_the_minimum_bin_size_defeats_it(row):
    y = np.random.default_rng(row).integers(0, 2, N_ROWS)
    score = run(row, y, min_bin_size=5, own_scores=True)
    assert guess_label(score, row, int(y.sum()), min_bin_size=5) is None


def test_by_default_the_attacker_gets_no_score_at_all():
    y = np.random.default_rng(0).integers(0, 2, N_ROWS)
    assert run(3, y, min_bin_size=5, own_scores=False) is None


def test_two_nearly_equal_partitions_isolate_by_difference_only_if_scores_return():
    """Difference attack: two columns that differ in one row; needs both scores, which stay away."""
    y = np.random.default_rng(1).integers(0, 2, N_ROWS)
    first = (np.arange(N_ROWS) < 30).astype(float)
    second = first.copy()
    second[30] = 1.0
    X = np.stack([first, second], axis=1)
    selector = fs.FilterSelector("gini", n_features_to_select=1, bins=[0.5]).fit(
        bank_and_registry(X, y)
    )
    learned = {d.kind for d in selector.result_.disclosures if d.learner == "bank"}
    assert learned == {"row-count", "class-count", "selection"}
