"""The VF-PS page shows the committed run, and that run met its bars."""

import json

import pytest

from benchmarks.pages.vfps import PAGE


@pytest.fixture(scope="module")
def results():
    return PAGE.read()


def test_a_changed_result_would_change_the_page(results):
    changed = json.loads(json.dumps(results))
    changed["rows"][-1]["seconds"] += 100
    changed["table"][0]["methods"]["greedy"]["knn"] += 0.1
    assert PAGE.updated(PAGE.text(), changed) != PAGE.text()


def test_the_committed_run_met_its_bars(results):
    assert results["profile"] == "regular"
    missed = [row["case"] for row in results["rows"] if not all(row["bars"].values())]
    assert missed == []
    assert {row["job"]["parties"] for row in results["rows"]} >= {2, 3, 4, 8, 12, 20}
    claims = results["claims"]
    assert claims["group_testing_within_3_points"]
    assert claims["greedy_equals_brute_force"]
    assert claims["greedy_never_worse"]
    assert claims["secure_equals_plaintext"]
    assert {row["data"] for row in results["table"]} == {
        "synthesis", "g2_4", "g2_128", "bank", "unbalance", "letter", "birch1", "birch2",
    }  # fmt: skip
    assert min(row["splits"] for row in results["table"]) >= 3


def test_the_attacks_succeed_where_they_should_and_fail_on_ours(results):
    leaks = results["leaks"]
    ours = leaks["group-testing, separate"]
    assert ours["solved"] == 0.0
    assert ours["geometry_r2"] < 0.2
    assert leaks["group-testing, separate, all rows"]["geometry_r2"] > 0.99
    assert leaks["group-testing, shared"]["solved"] > 0.99
