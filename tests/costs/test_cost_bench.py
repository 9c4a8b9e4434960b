"""The suites behind the pages on costs and on differential privacy."""

import numpy as np
import pytest

from fedsift.bench import SUITES, costs, dp
from fedsift.costs import Rates
from fedsift.costs.rates import TYPICAL


def test_ten_jobs_over_all_methods():
    assert {"costs", "dp"} <= set(SUITES)
    assert len(costs.JOBS) == 10
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


def test_noise_costs_accuracy_of_a_selection():
    data = dp.breast_cancer(0)
    exact = dp._selected(data, "horizontal", None, 0.0, 0)
    hardly = dp._selected(data, "horizontal", 900_000.0, 0.0, 0)
    noisy = dp._selected(data, "horizontal", 0.05, 0.0, 0)

    assert exact.sum() == dp.N_SELECTED
    np.testing.assert_array_equal(exact, hardly)
    row = dp._row("set", "horizontal", 0.05, 0.0, [data], [exact], [noisy])
    assert row["overlap"]["mean"] == (exact & noisy).sum() / dp.N_SELECTED < 1
    assert 0.5 < row["accuracy"]["mean"] <= 1
