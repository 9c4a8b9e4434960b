"""The suites behind the pages on costs and on differential privacy."""

import numpy as np
import pytest

from benchmarks.runner import SUITES
from benchmarks.suites import costs
from benchmarks.suites.dp import limits as dp_limits
from benchmarks.suites.dp import rows as dp_rows
from benchmarks.suites.dp import suite as dp
from fedsift.costs import Rates
from fedsift.costs.rates import TYPICAL


def test_jobs_over_all_methods_of_the_papers():
    assert {"costs", "dp"} <= set(SUITES)
    assert len(costs.JOBS) == 11
    assert {job["method"] for job in costs.JOBS} == {
        "dcfs",
        "fedsdg",
        "filter",
        "fpso",
        "interaction",
        "vfps",
    }


@pytest.mark.parametrize("method", ["dcfs", "fpso"])
def test_a_job_is_predicted_and_run(method):
    job = next(job for job in costs.JOBS if job["method"] == method)

    row = costs.measured(job, 0.1, Rates(TYPICAL), seed=3)

    assert row["job"]["rows"] < job["rows"]
    assert row["ratios"]["bytes"] == pytest.approx(1.0, abs=0.02)
    assert row["ratios"]["rounds"] == 1.0
    assert row["ratios"]["time"] == row["predicted"]["cpu_seconds"] / row["cpu_seconds"]


def test_ratios_are_judged_both_ways():
    assert costs._within(1.4, costs.TIME_BAR)
    assert costs._within(0.7, costs.TIME_BAR)
    assert not costs._within(1.6, costs.TIME_BAR)
    assert not costs._within(0.6, costs.TIME_BAR)


@pytest.mark.parametrize(
    ("select", "job"),
    [
        (dp._noisy, {"promise": "counts", "setting": "horizontal", "score": "mi"}),
        (dp._drawn, {"promise": "selection", "setting": "vertical", "score": "gini"}),
        (dp._voted, {"promise": "votes", "setting": "horizontal", "score": "k nearest"}),
    ],
)
def test_noise_costs_accuracy_of_a_selection(select, job):
    data = dp_rows.breast_cancer(0)
    job = {**job, "data": "set", "delta": 0.0}
    exact, hardly, noisy = (
        select(data, {**job, "epsilon": epsilon}, 0) for epsilon in (None, 900_000.0, 0.05)
    )

    assert exact.sum() == dp.N_SELECTED
    np.testing.assert_array_equal(exact, hardly)
    row = dp_rows.row({**job, "epsilon": 0.05}, [data], [exact], [noisy])
    assert row["overlap"]["mean"] == (exact & noisy).sum() / dp.N_SELECTED < 1
    assert 0.5 < row["accuracy"]["mean"] <= 1


def test_interactions_are_drawn_by_a_budget_too_and_limits_are_told():
    data = dp_rows.breast_cancer(0)
    masks = [dp_limits.drawn_by_interactions(data, 10.0, seed) for seed in range(3)]
    assert [mask.sum() for mask in masks] == [dp.N_SELECTED] * 3
    assert any((masks[0] != other).any() for other in masks[1:])
    *rows, last = dp_limits.limits()
    for row in rows:
        assert row["odds_of_a_participant"] < 2
        assert row["noise_of_importances"] > 1
    assert 0.6 * last["hub"]["bound"] < last["hub"]["change_by_one_row"] <= last["hub"]["bound"]
