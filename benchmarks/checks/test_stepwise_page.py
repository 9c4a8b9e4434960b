"""The stepwise page says what its committed benchmark run found."""

import pytest

from benchmarks.pages.stepwise import PAGE
from benchmarks.suites.stepwise import accuracy, bank, discoveries


@pytest.fixture(scope="module")
def results():
    return PAGE.read()


def test_the_run_is_the_one_the_page_speaks_of(results):
    assert results["profile"] == "regular"
    assert [row["data"] for row in results["accuracy"]] == list(accuracy.DATA_SETS["regular"])
    assert len(results["accuracy"]) >= 14
    assert {row["n_splits"] for row in results["accuracy"]} == {6}
    assert len(results["discoveries"]["knockoffs"]) == 200
    assert len(results["bank"]) == 20


def test_every_bar_is_met(results):
    missed = [
        (row["case"], name) for row in results["rows"] for name, ok in row["bars"].items() if not ok
    ]
    assert missed == []
    assert sum(len(row["bars"]) for row in results["rows"]) == 7


def test_bars_follow_from_the_rows(results):
    for name, part in (("accuracy", accuracy), ("bank", bank), ("discoveries", discoveries)):
        assert part.summary(results[name]) == results[f"{name}_summary"]


def test_a_worse_run_would_miss_its_bars(results):
    rows = results["accuracy"]
    for row in rows:
        row["accuracy"]["stepwise"]["logistic"] -= 10
    assert not any(accuracy.summary(rows)["bars"].values())
    for run in results["discoveries"]["knockoffs"]:
        run["federated"] |= {"false": 0.3, "power": 0.1}
    bars = discoveries.summary(results["discoveries"])["bars"]
    assert (bars["false discoveries"], bars["power"]) == (False, False)
