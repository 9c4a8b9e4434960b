"""The suite of stepwise selection judges what it measured."""

import numpy as np
import pytest

from benchmarks.suites.stepwise import accuracy, bank, discoveries


def test_the_bank_finds_the_new_column_and_one_by_one_does_not():
    done = [(job, bank.measure(job)) for job in bank.jobs("smoke")]
    found = bank.summary(bank.table(done))
    assert found["new_first"] == found["runs"] == 2
    assert found["one_by_one"] == 0
    assert 0 < found["adds"] < 0.1 < found["own_columns_explain"]


def test_causes_are_where_generated_labels_come_from():
    values, labels, owner, causes, correlation = discoveries.generated(4)
    assert correlation == 0.6
    assert set(owner) == set(range(5))
    assert 10 <= causes.sum() <= 50
    near = np.corrcoef(values, rowvar=False)[np.arange(199), np.arange(1, 200)]
    assert near.mean() == pytest.approx(0.6, abs=0.02)
    fit = np.abs(np.linalg.lstsq(values, labels[:, 0], rcond=None)[0])
    assert fit[causes].min() > np.median(fit[~causes])


def test_summaries_count_what_is_false_and_what_is_missed():
    job = {"part": "knockoffs", "seeds": [0]}
    (run,) = discoveries.measure(job)["runs"]
    assert run["federated"]["kept"] >= run["causes"] * run["federated"]["power"]
    null = discoveries.measure({"part": "null", "seeds": [0, 1]})["runs"]
    found = discoveries.summary({"knockoffs": [run, run], "null": null})
    assert found["by_correlation"]["all"]["federated"]["power"]["mean"] == run["federated"]["power"]
    worse = run | {"federated": run["federated"] | {"false": 0.5, "power": 0.0}}
    bars = discoveries.summary({"knockoffs": [worse, worse], "null": null})["bars"]
    assert bars["false discoveries"] is False
    assert bars["power"] is False


def test_selectors_give_as_many_columns_as_are_asked_for():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(90, 14))
    values[:, 1] = values[:, 0] + 0.05 * rng.normal(size=90)
    codes = (values[:, 0] + values[:, 2] > 0).astype(np.int64)
    for name, select in accuracy.SELECTORS.items():
        chosen = select(values, codes, 5, 0)
        assert len(set(chosen)) == 5, name
    assert set(accuracy.f_order(values, codes, 2, 0)) == {0, 1}
    assert 2 in accuracy.stepwise_order(values, codes, 2, 0)
    assert 2 in accuracy.mrmr_order(values, codes, 2, 0)


def test_paired_errors_are_those_of_differences():
    found = accuracy.paired([3.0, 5.0, 4.0], [1.0, 4.0, 1.0])
    assert found == {"mean": 2.0, "error": pytest.approx(1 / np.sqrt(3))}
