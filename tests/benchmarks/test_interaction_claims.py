"""What the interaction benchmark claims, where it can be shown in seconds on shipped data."""

import numpy as np
import pytest

from benchmarks.suites.interaction import suite
from benchmarks.suites.interaction.accuracy import (
    RANKERS,
    accuracy,
    summary,
    xor_data,
    xor_trials,
)
from fedsift.data import catalog
from fedsift.methods.interaction.fixed_point import simulate
from fedsift.methods.interaction.measures import oracle
from fedsift.methods.interaction.selector import InteractionSelector


def order_of(selector, n_select):
    return tuple(np.argsort(selector.ranking_)[:n_select].tolist())


def test_xor_partners_follow_their_mates_and_the_printed_formula_misses_them():
    found = xor_trials(30)
    assert found["miw"] == 1.0
    assert found["iwfs"] == 1.0
    assert found["paper"] > 0.9
    assert found["paper_literal"] < 0.1
    assert found["gini"] < 0.5


def test_an_xor_partner_follows_its_mate_under_encryption():
    X, y = xor_data(0)
    X = X[:, :6]
    selector = InteractionSelector(n_features_to_select=4, parties=[[0, 2, 4], [1, 3, 5]])
    order = order_of(selector.fit(X, y), 4)
    assert abs(order.index(0) - order.index(1)) == 1
    assert order == oracle(X, y, "miw", 4).order
    first = min(order.index(0), order.index(1))
    mate, partner = order[first], order[first + 1]
    assert selector.interaction_[partner, mate] > 1.1


def test_wine_under_encryption_is_the_simulation_and_the_oracle():
    data = catalog.load("wine")
    X, y = np.asarray(data.X, float), np.asarray(data.y)
    selector = InteractionSelector(n_features_to_select=13, parties=3, random_state=0).fit(X, y)
    assert order_of(selector, 13) == simulate(X, y).order == oracle(X, y).order


def test_table_1_of_the_paper():
    """White wine: 4,898 rows, 11 features, 7 classes, complete order."""
    printed = suite.paper_operations(4898, 11, 7, 11)
    assert printed["encryptions_of_features"] == 11 * 24_005_099
    assert printed["encryptions_of_labels"] == 34_287
    assert printed["products"] == 11 * 68_617 + 55 * 156_821


def test_operations_are_counted_and_a_tiny_part_of_table_1():
    X, y = suite.generated(300)
    selector = InteractionSelector(n_features_to_select=6, random_state=0).fit(X, y)
    done = selector.operations_
    printed = suite.paper_operations(300, 6, 3, 6)
    assert 0 < done["encryptions"] < printed["encryptions_of_features"] / 1000
    assert 0 < done["ciphertext products"] < printed["products"] / 1000


def test_accuracy_is_measured_inside_the_folds():
    """Columns of noise: a selection that saw the test rows would beat chance."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 60)), np.arange(80) % 2
    runs = [
        np.mean(accuracy(X, y, ["miw"], n_folds=5, n_neighbors=5, seed=seed)["miw"])
        for seed in range(6)
    ]
    assert np.mean(runs) == pytest.approx(50, abs=9)


def test_the_summary_judges_only_the_complete_table():
    row = {"data": "wine", "accuracy": dict.fromkeys(RANKERS, 70.0)}
    assert summary([row])["bars"] == {}
    assert summary([row])["lead_over_gini"] == 0.0


def test_a_job_of_the_suite_reports_cost_and_order():
    job = {"data": "generated", "rows": 200, "n_select": 3, "measure": "miw", "parties": 2}
    measured = suite.measure(job)
    assert measured["equals_simulation"]
    assert measured["bytes"] > 0
    assert len(measured["order"]) == 3
