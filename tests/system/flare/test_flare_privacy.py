"""Budgets of privacy between organisations on FLARE: what is drawn, told and kept back."""

import pytest

from fedsift.cli.prepare import prepare, read_job
from helpers.flare import HORIZONTAL, METHODS, PARTIES

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("federation"),
    pytest.mark.slow(18),
]

POLICY = {"min_bin_size": 1, "max_release_epsilon": 900_000}
JOBS = {
    "filter": METHODS["filter"] | {"bins": [-0.5, 0.5, 1.5], "release_epsilon": 900_000},
    "filter-horizontal": METHODS["filter-horizontal"]
    | {"bins": [0.0, 1.0], "release_epsilon": 900_000},
    "fpso": {"n_features_to_select": 1, "epsilon": 900_000, "n_blocks": 2},
}
"""So large that no draw is left to chance: noise never follows the seed of a job."""


@pytest.mark.parametrize("name", JOBS)
def test_a_job_with_a_budget_tells_what_it_tells_in_one_process(federation, tables, name):
    for party in PARTIES:
        federation.set_party(party, tables.data(party, horizontal=name in HORIZONTAL), POLICY)
    job = tables.job(name, policy=POLICY, method=JOBS[name])

    here = prepare(read_job(job)).run()
    there = federation.submit(job)

    def learned(result):
        return {(row.learner, row.about, row.message, row.what) for row in result.disclosures}

    assert there.selected == here.selected
    assert there.parameters["privacy"] == here.parameters["privacy"]
    assert learned(there) == learned(here)
    assert "remarks" not in {row.kind for row in there.disclosures}
    assert there.scores == here.scores
    assert bool(there.scores) == (name == "fpso")  # noisy votes; a drawn selection has no scores
