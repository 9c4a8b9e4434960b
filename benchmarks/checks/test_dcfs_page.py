"""The DCFS page says what its committed benchmark run found."""

import pytest

from benchmarks.pages.dcfs import PAGE


@pytest.fixture(scope="module")
def results():
    return PAGE.read()


def test_the_run_is_the_one_the_page_speaks_of(results):
    assert results["profile"] == "regular"
    assert {row["data"] for row in results["accuracy"]} == {
        "colon",
        "tox171",
        "lung",
        "lymphoma",
        "mnist-d1",
        "mnist-d2",
    }
    assert all(row["splits"] >= 30 for row in results["accuracy"])
    controls = {"all", "random", "LFS", "AFS", "Borda", "variance", "ANOVA"}
    assert all(controls <= set(row["methods"]) for row in results["accuracy"])


def test_every_bar_is_met(results):
    missed = [row["case"] for row in results["rows"] if not all(row["bars"].values())]
    assert missed == []
    (update,) = [row for row in results["rows"] if row["job"]["kind"] == "update"]
    assert update["job"]["features"] == 5748


def test_what_the_page_says_of_leaks(results):
    """Certainty where anchors are as many as columns; a guess for both roles of the default."""
    for row in results["attacks"]:
        found = row["auc"]
        if "recovery_error" in row:
            assert found["open, paper, as many anchors as columns"]["mean"] > 0.95
            assert row["recovery_error"] < 1e-8
        for role in ("server, member", "server, coordinator"):
            assert abs(found[role]["mean"] - 0.5) < 0.05 + 3 * found[role]["se"]
